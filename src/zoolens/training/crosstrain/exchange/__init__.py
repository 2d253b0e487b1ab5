"""A study as a folder that explains itself, and the way back: exported, checked, merged."""
