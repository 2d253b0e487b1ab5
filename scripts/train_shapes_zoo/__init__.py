"""Draws pictures of coloured shapes with their boxes, and trains small detectors on them, from fixed seeds."""
