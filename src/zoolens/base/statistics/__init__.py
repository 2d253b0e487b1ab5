"""Intervals, exact tests and bounds: each answers one question about numbers and knows nothing of models."""
