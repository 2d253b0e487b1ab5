"""Keras Applications, by walking the layers of the model that Keras builds."""

from zoolens.graph.importers.keras.library import KERAS, build

__all__ = ["KERAS", "build"]
