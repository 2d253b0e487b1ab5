"""Operators that the reference cannot compute: their values are taken from the runtime, and all behind them goes on.

Such an operator becomes an input of the graph, a hole, which is fed what the side itself computed there; what goes into
it becomes a further output. So every layer before and behind it is compared, and a difference before it is still
looked for, although it no longer reaches the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from zoolens.base.errors import ModelError, UnsupportedAbility, ZoolensError
from zoolens.findings.divergence.points import holders
from zoolens.findings.divergence.sides import Feeds, Side
from zoolens.findings.graph.ir.file_operators import is_file_operator
from zoolens.findings.graph.ir.model import Array, Graph, Node
from zoolens.findings.graph.ir.vocabulary import LEAVES
from zoolens.findings.graph.reference.interpreter import node_values
from zoolens.findings.graph.reference.spatial import RESIZES
from zoolens.inventory.runtimes.observing import CapturePoint

HOLES: Final = "holes"  # the fact that names them, with the operators that they stand for
ENDS: Final = "ends"  # the fact that tells how many outputs the file has: the others go into holes
_MOST: Final = 24  # holes of one graph: with more, too little is computed to call it a reference
_OPAQUE: Final = ("unknown", "recurrent", "output_of")

Extents = Mapping[str, tuple[int, ...]]


def with_holes(side: Side, read: Callable[[Extents], Graph], feeds: Feeds) -> Side:
    """The side with its raw graph, all of which can be computed; ModelError where it needs a value that is not shown.
    `read` gives the graph for extents of its inputs and of tensors whose shape nobody knows without computing them."""
    extents: dict[str, tuple[int, ...]] = {name: value.shape for name, value in feeds.items()}
    side = _begun(side, read(extents))
    for _ in range(_MOST):
        node = _first_refused(side, feeds)
        if node is None:
            return replace(side, graph=None)
        if _is_shapeless(node) and is_file_operator(node) and not node.get("domain"):
            # Such as NonZero: the graph was read for the extents of one input, and other inputs would have others.
            raise ModelError(f"The shape of its operator {_kind(node)} depends on numbers.")
        point = _point(side, node)
        captured = side.subject.session.capture(side.batched(feeds), (point.name,))
        value = side.first_sample(captured.tensors[point.name])
        tensor = point.tensor or point.name
        if _is_shapeless(node) and tensor not in extents:
            extents[tensor] = value.shape
            side = replace(_begun(side, read(extents)), holes={})
        else:
            side = _opened(side, node, point, value.shape)
    raise ModelError(f"More than {_MOST} operators of its graph have no reference.")


def _begun(side: Side, raw: Graph) -> Side:
    raw = replace(raw, facts={**raw.facts, ENDS: len(raw.outputs), HOLES: {}})
    return replace(side, raw=raw, graph=raw)


def _may_be_refused(node: Node) -> bool:
    if node.op == "resize":
        return node.get("coordinates") not in (None, *RESIZES)
    return node.op in _OPAQUE


def _is_shapeless(node: Node) -> bool:
    return bool(node.get("extents") == "unknown")


def _first_refused(side: Side, feeds: Feeds) -> Node | None:
    """The first node that the reference refuses; ModelError where it is one that it should compute."""
    assert side.raw is not None
    if not any(_may_be_refused(node) for node in side.raw.nodes):
        return None
    done = 0
    try:
        for _ in node_values(side.raw, side.real_inputs(feeds), precision=np.dtype(np.float64)):
            done += 1
    except ZoolensError:
        node = side.raw.nodes[done]
        if not _may_be_refused(node):
            raise
        return node
    return None


def _opened(side: Side, node: Node, point: CapturePoint, shape: tuple[int, ...]) -> Side:
    """Return the side whose graph has an input in the place of this node."""
    raw = side.raw
    assert raw is not None
    hole = Node(node.name, "input", (), shape, source=node.source)
    nodes = tuple(hole if other.name == node.name else other for other in raw.nodes)
    made = {other.name for other in nodes if other.op not in LEAVES}
    # What went into the node is an output now, so that it stays in the graph and can be compared.
    fed = [name for name in node.inputs if name in made]
    outputs = tuple(dict.fromkeys((*raw.outputs, *fed)))
    kinds = {**raw.facts[HOLES], node.name: _kind(node)}
    opened = replace(raw, nodes=nodes, outputs=outputs, facts={**raw.facts, HOLES: kinds})
    return replace(side, raw=opened, graph=opened, holes={**side.holes, node.name: point.name})


def _kind(node: Node) -> str:
    return str(node.get("operator") or node.get("source_op") or node.op)[:60]


def _point(side: Side, node: Node) -> CapturePoint:
    assert side.raw is not None
    try:
        point = holders(side.raw, side.subject.session.capture_points()).get(node.name)
    except (UnsupportedAbility, NotImplementedError):
        point = None
    if point is None:
        raise ModelError(f"Its operator {_kind(node)} has no reference, and the runtime does not show its value.")
    return point


def holes_of(graph: Graph) -> dict[str, str]:
    """The operators that the reference does not compute, by node."""
    return dict(graph.facts.get(HOLES, {}))


def sinks_of(graph: Graph) -> tuple[str, ...]:
    """The values that go into holes."""
    own = int(graph.facts.get(ENDS, len(graph.outputs)))
    return graph.outputs[own:]


def filled_as(graph: Graph, inputs: Mapping[str, Array], other: Graph, theirs: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs of one graph, with the values that the holes of the other have where both have one."""
    values = dict(inputs)
    for ours, foreign in zip(holes_of(graph), holes_of(other), strict=False):
        if theirs[foreign].shape == inputs[ours].shape:
            values[ours] = theirs[foreign]
    return values
