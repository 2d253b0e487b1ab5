"""Keras Applications, by walking the layers of the model that Keras builds."""

from zoolens.findings.graph.importers.keras.keras_library import KERAS, build

__all__ = ["KERAS", "build"]
