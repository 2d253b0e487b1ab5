"""Figures derived from stored predictions. A metric is a function `Predictions -> iterable of Observation`.

A plug-in registers one under the entry-point group `zoolens.metrics`.
"""
