"""A value that is computed twice from the same inputs is computed once.

Some exporters share such values (torch's newer one), others write them as often as the source does. Layers with weights
and products keep their number: they are what a network's cost is counted from.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.vocabulary import COMMUTATIVE
from zoolens.findings.graph.passes.editor import Editor

_COUNTED: Final = frozenset({"matmul", "attention", "recurrent", "recurrent_layer", "unknown"})


def share_values(graph: Graph) -> Graph:
    editor = Editor(graph)
    known: dict[Hashable, str] = {}
    for node in graph.nodes:
        here = editor.renewed(node)
        first = known.setdefault(_value(here), here.name) if _is_free(here) else here.name
        editor.accept(here, here if first == here.name else first)
    return editor.finished()


def _is_free(node: Node) -> bool:
    return bool(node.inputs) and not node.parameters and node.op not in _COUNTED


def _value(node: Node) -> Hashable:
    inputs = tuple(sorted(node.inputs)) if node.op in COMMUTATIVE else node.inputs
    return node.op, inputs, node.shape, tuple(sorted(node.attributes.items(), key=lambda item: item[0]))
