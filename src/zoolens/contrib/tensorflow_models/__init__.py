"""TF-slim and the TensorFlow Model Garden (official), from the TensorFlow graph they build."""

from zoolens.contrib.tensorflow_models.library import OFFICIAL, SLIM

__all__ = ["OFFICIAL", "SLIM"]
