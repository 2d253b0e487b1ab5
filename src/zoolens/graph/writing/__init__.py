"""Canonical graphs with weights, written as ONNX files that any runtime for ONNX can run."""

from zoolens.graph.writing.file import write_onnx

__all__ = ["write_onnx"]
