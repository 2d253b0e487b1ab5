"""What the outputs of a model are, told from its file or from its answers to noise."""
