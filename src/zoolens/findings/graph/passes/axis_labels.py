"""What each axis of each value means, found by following the graph forwards and backwards from where it is known.

Importers know it at operators that fix it (`Node.axes`). Everything between keeps, permutes or drops axes, so that a
label spreads until nothing new is learned. The first label a value gets stays: where two would meet, `layout`
puts a real transpose between them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import cache
from typing import Final

from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.vocabulary import ACTIVATIONS, ARITHMETIC, FUNCTIONS, NOISE, NORMS, POOLS, REDUCTIONS

CANONICAL: Final = "NCDHW"

# Output and inputs of one rank have the same axes in the same order.
KEEPING: Final = (
    ACTIVATIONS
    | NOISE
    | POOLS
    | NORMS
    | ARITHMETIC
    | FUNCTIONS
    | {"conv", "conv_transpose", "lrn", "softmax", "log_softmax", "l2_normalize", "compare", "where", "concat", "slice"}
    | {"pad", "expand", "channel_shuffle", "space_to_depth", "depth_to_space", "resize", "roll", "tile"}
)

Labels = dict[str, str]
_KEPT: Final = "_labels"  # where a graph keeps its own, as it does its cached properties


def labels(graph: Graph) -> Labels:
    """The axes of every value for which they are known, in its own order: {"conv1": "NHWC"}."""
    known: Labels | None = vars(graph).get(_KEPT)
    if known is None:  # two passes and whoever looks on ask for those of one graph
        known = vars(graph)[_KEPT] = _found(graph)
    return dict(known)


def _found(graph: Graph) -> Labels:
    known_axes: Labels = {}
    waiting: deque[str] = deque()
    settled: set[str] = set()  # nodes that keep axes and have told them: they have nothing to add

    def learn(name: str, axes: str) -> None:
        if name not in known_axes and len(axes) == len(graph.by_name[name].shape) and set(axes) <= set(CANONICAL):
            known_axes[name] = axes
            waiting.append(name)

    for node in graph.nodes:
        learn(node.name, node.axes)
    for node in graph.nodes:
        if node.axes and node.op in KEEPING:
            for name in node.inputs:
                learn(name, node.axes)
    while waiting:
        name = waiting.popleft()
        for node in (graph.by_name[name], *graph.consumers[name]):
            if node.name in settled:
                continue
            spread = list(_spread(node, graph, known_axes))
            for other, axes in spread:
                learn(other, axes)
            if spread and node.op in KEEPING:
                settled.add(node.name)
    return known_axes


def _spread(node: Node, graph: Graph, known_axes: Labels) -> Iterator[tuple[str, str]]:
    """What this node says about its output and inputs, given what is known of them."""
    if not node.inputs:
        return
    if node.op in KEEPING or (node.op in REDUCTIONS and node.get("keep", False)):
        yield from _kept(node, graph, known_axes)
    elif node.op in REDUCTIONS:
        axes = known_axes.get(node.inputs[0])
        if axes:
            yield node.name, "".join(label for axis, label in enumerate(axes) if axis not in node.get("axes"))
    elif node.op == "transpose":
        yield from _transposed(node, known_axes)
    elif node.op == "dense":
        yield from _on_last_axis(node, known_axes)


def _kept(node: Node, graph: Graph, known_axes: Labels) -> Iterator[tuple[str, str]]:
    rank = len(node.shape)
    peers = [name for name in (node.name, *node.inputs) if len(graph.by_name[name].shape) == rank]
    axes = next((known_axes[name] for name in peers if name in known_axes), None)
    if axes is not None:
        for name in peers:
            yield name, axes


def _transposed(node: Node, known_axes: Labels) -> Iterator[tuple[str, str]]:
    perm = node.get("perm")
    source = node.inputs[0]
    if source in known_axes:
        yield node.name, "".join(known_axes[source][axis] for axis in perm)
    elif node.name in known_axes:
        axes = known_axes[node.name]
        yield source, "".join(axes[perm.index(axis)] for axis in range(len(perm)))


def _on_last_axis(node: Node, known_axes: Labels) -> Iterator[tuple[str, str]]:
    """A dense layer on a map whose channels are last works on each place: the map stays a map."""
    for known, other in ((node.inputs[0], node.name), (node.name, node.inputs[0])):
        axes = known_axes.get(known, "")
        if axes.endswith("C"):
            yield other, axes


@cache
def canonical_order(axes: str) -> tuple[int, ...]:
    """Which axis comes where when they are put in the order N, C, spatial."""
    return tuple(sorted(range(len(axes)), key=lambda axis: CANONICAL.index(axes[axis])))
