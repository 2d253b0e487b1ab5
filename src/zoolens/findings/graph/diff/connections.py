"""Layers that have their partners, but are computed from others than these are."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

from zoolens.findings.graph.diff.alignment import Alignment
from zoolens.findings.graph.diff.diff_causes import CONNECTIONS, LayerFinding
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.vocabulary import ACTIVATIONS, ARITHMETIC, COMMUTATIVE, POOLS, REDUCTIONS

# What treats every channel the same, or with numbers of its own, and leaves the channels in their order.
_BY_CHANNEL: Final = (
    ACTIVATIONS
    | ARITHMETIC
    | POOLS
    | {"batch_norm", "affine", "layer_norm", "rms_norm", "lrn", "pad", "resize", "concat"}
)
_CONVOLUTIONS: Final = frozenset({"conv", "conv_transpose"})


def connection_findings(alignment: Alignment, a: Graph, b: Graph) -> Iterator[LayerFinding]:
    """The first layer that the other side computes nowhere in the same way, where all layers have partners of their own
    kind. Elsewhere other connections follow from what is missing or replaced, which is reported as such."""
    pairs = [(row, pair) for row, aligned in enumerate(alignment.rows) for pair in aligned.pairs]
    if any(pair.a is None or pair.b is None or pair.a.node.op != pair.b.node.op for _, pair in pairs):
        return
    ours = _derivations(a)
    theirs = set(_derivations(b).values())
    place = {node.name: number for number, node in enumerate(a.nodes)}
    foreign = [(row, pair) for row, pair in pairs if pair.a and ours[pair.a.node.name] not in theirs]
    if foreign:
        row, pair = min(foreign, key=lambda item: place[item[1].either.node.name])
        yield LayerFinding(CONNECTIONS, row, pair, "", (None, None))


def _derivations(graph: Graph) -> dict[str, str]:
    """For every value a digest of the operators that lead to it and of how they are connected, and of nothing else."""
    digests: dict[str, str] = {}
    for node in graph.nodes:
        inputs = [digests[name] for name in node.inputs]
        free = node.op in COMMUTATIVE or (node.op == "concat" and _only_numbers_channels(node, graph))
        text = "\0".join([node.op, *(sorted(inputs) if free else inputs)])
        digests[node.name] = blake2b(text.encode(), digest_size=12).hexdigest()
    return digests


def _only_numbers_channels(concat: Node, graph: Graph) -> bool:
    """Whether the order of a concat's parts is free: it only numbers the channels that the next layers have weights
    for. It is not free along another axis, before a layer with groups, and in an output."""
    axis = concat.get("axis")
    waiting = [concat]
    seen = {concat.name}
    while waiting:
        node = waiting.pop()
        if node.name in graph.outputs:
            return False
        users = [user for user in graph.consumers[node.name] if not _has_weights_for(user, node, axis)]
        if any(user.op not in _BY_CHANNEL and not _keeps_channels(user, node, axis) for user in users):
            return False
        waiting += [user for user in users if user.name not in seen]
        seen.update(user.name for user in users)
    return True


def _has_weights_for(layer: Node, given: Node, axis: int) -> bool:
    if layer.op in _CONVOLUTIONS:
        return axis == 1 and layer.get("groups", 1) == 1
    return layer.op in ("dense", "recurrent") and axis == len(given.shape) - 1


def _keeps_channels(user: Node, given: Node, axis: int) -> bool:
    """Whether the channels stay where they are, or are summed up."""
    if user.op in _CONVOLUTIONS:
        return axis == 1 and user.get("groups") == given.shape[1]
    if user.op in REDUCTIONS:
        return bool(min(user.get("axes", ())) > axis)
    is_flat = user.op == "flatten" or (user.op == "reshape" and len(user.shape) == axis + 1)
    return is_flat and user.shape[:axis] == given.shape[:axis]
