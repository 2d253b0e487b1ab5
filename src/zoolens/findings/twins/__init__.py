"""Stitched models: parts of one network in the place of parts of another, exported, run and measured like any model."""
