"""Canonical graphs with weights, written as ONNX files that any runtime for ONNX can run."""

from zoolens.findings.graph.onnx_writer.written_file import write_onnx

__all__ = ["write_onnx"]
