"""The command line: one file per command. Each converts text to a call of the Python API and back."""
