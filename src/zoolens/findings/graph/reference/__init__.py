"""Computes graphs in numpy, independent of every framework."""
