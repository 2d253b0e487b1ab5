"""Reads the graphs of models in worker processes and keeps them in the store."""
