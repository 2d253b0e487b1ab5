"""GGUF files."""

from zoolens.findings.graph.importers.gguf.gguf_import import GGUF

__all__ = ["GGUF"]
