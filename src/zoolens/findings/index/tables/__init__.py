"""Rows of the index as columns of numpy arrays, in memory and in files."""
