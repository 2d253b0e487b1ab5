"""ONNX files."""

from zoolens.findings.graph.importers.onnx.onnx_import import ONNX

__all__ = ["ONNX"]
