"""Twins: a model in which parts of another one stand in for its own, exported, run, and measured like any model."""
