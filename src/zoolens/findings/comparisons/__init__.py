"""What two runs say about each other: derived from stored observations, never measured again."""
