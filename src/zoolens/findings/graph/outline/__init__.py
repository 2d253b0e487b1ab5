"""Blocks and stages of a network."""
