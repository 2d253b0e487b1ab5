"""Segments (single entry, single exit) that two networks share, and splicing one network into another."""
