"""TFLite files."""

from zoolens.graph.importers.tflite.file import TFLITE

__all__ = ["TFLITE"]
