"""TFLite files."""

from zoolens.findings.graph.importers.tflite.tflite_import import TFLITE

__all__ = ["TFLITE"]
