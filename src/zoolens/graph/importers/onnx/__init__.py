"""ONNX files."""

from zoolens.graph.importers.onnx.file import ONNX

__all__ = ["ONNX"]
