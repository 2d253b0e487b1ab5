"""A recurrence that one side writes out, step by step, where the other has a recurrent operator.

Both may compute the same. No pass reads the steps back as a layer, so that nothing which follows from the form is a
difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zoolens.base.verdicts import Gap
from zoolens.findings.graph.ir.model import Graph, Node

_RECURRENT: Final = frozenset({"recurrent", "recurrent_layer"})
_REMEDY: Final = "Export both networks with the recurrence in the same form: as a layer, or as a loop over steps."


def unrolled_gaps(a: Graph, b: Graph, names: tuple[str, str]) -> tuple[Gap, ...]:
    """What is not understood about two networks of which one writes out the recurrence of the other."""
    return tuple(_gaps(a, b, names))


def _gaps(a: Graph, b: Graph, names: tuple[str, str]) -> Iterator[Gap]:
    layers = _recurrent_layers(a), _recurrent_layers(b)
    for side, graph in enumerate((a, b)):
        if layers[side] < layers[1 - side] and _is_unrolled(graph):
            yield Gap(f"recurrence written out step by step in {names[side]}", 1, _REMEDY)


def _recurrent_layers(graph: Graph) -> int:
    return sum(node.op in _RECURRENT for node in graph)


def _is_unrolled(graph: Graph) -> bool:
    """Whether a dense layer is applied to what was computed with it."""
    used: dict[str, list[Node]] = {}
    for node in graph:
        kernel = node.parameter("kernel")
        if kernel is not None and kernel.key and node.op == "dense":
            used.setdefault(kernel.key, []).append(node)
    return any(_depends(users[-1], users[0], graph) for users in used.values() if len(users) > 1)


def _depends(late: Node, early: Node, graph: Graph) -> bool:
    waiting = [late.name]
    seen = {late.name}
    while waiting:
        for name in graph.by_name[waiting.pop()].inputs:
            if name == early.name:
                return True
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return False
