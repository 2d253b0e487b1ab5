"""A concat of concats is one: networks that join step by step look like those that join all at once."""

from __future__ import annotations

from dataclasses import replace

from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.passes.editor import Editor, rewrite


def flatten_concats(graph: Graph) -> Graph:
    return rewrite(graph, {"concat": _flattened})


def _flattened(node: Node, editor: Editor) -> Node | str:
    inputs: list[str] = []
    for name in node.inputs:
        inner = editor.made_by(name, "concat")
        same = inner is not None and inner.get("axis") == node.get("axis")
        inputs.extend(inner.inputs if inner is not None and same else (name,))
    if len(inputs) != len(node.inputs):
        return replace(node, inputs=tuple(inputs))
    return node
