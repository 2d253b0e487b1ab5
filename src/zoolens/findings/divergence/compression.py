"""A file that keeps its weights in half precision, held against the file that it was made from.

Where the two graphs cannot be exchanged place by place, since a converter has arranged layers anew, it is proved as a
whole: the original with all weights rounded, computed exactly, answers what the copy does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.numerics.rounding import rounded
from zoolens.findings.divergence.divergence_causes import Cause, Kind, Proof
from zoolens.findings.divergence.examined import Exact, exact_output, relative_difference
from zoolens.findings.divergence.file_differences import FileDifference
from zoolens.findings.divergence.sides import Side
from zoolens.findings.graph.ir.model import Array, Graph, Node
from zoolens.findings.graph.reference.onnx_recurrent import RECURRENT
from zoolens.findings.graph.structures.weighted_graph import folded


def rounded_weights(a: Side, b: Side, exact: Exact, every: Sequence[FileDifference]) -> Cause | None:
    """All weights in half precision as the cause, where some are; None where that does not explain the difference."""
    roundings = {difference.rounding for difference in every if difference.rounding is not None}
    if len(every) < 2 or len(roundings) != 1:
        return None
    (rounding,) = roundings
    whole, place = (a, 0) if rounding.side == "B" else (b, 1)
    assert whole.graph is not None
    try:
        half = exact_output(_in_half(whole.graph, rounding.precision), whole.output, exact.inputs[place])
    except ZoolensError:
        return None
    before = relative_difference(exact.outputs[1], exact.outputs[0])
    after = relative_difference(half, exact.outputs[1 - place])
    words = (
        f"{whole.label}'s file with its weights rounded to {rounding.precision}, computed exactly, against the other"
    )
    proof = Proof(words, before, after, exact.file_floor)
    cause = f"{rounding.side}'s file keeps weights rounded to {rounding.precision}: they are those of {whole.label}"
    return Cause(Kind.WEIGHTS, cause, None, proof=proof) if proof.holds else None


def _in_half(graph: Graph, precision: str) -> Graph:
    """The graph with norms folded and biases added, as converters do it, and all weights rounded."""
    plain = folded(graph)
    weights = dict(plain.weights)
    for key, values in plain.weights.items():
        if np.asarray(values).dtype.kind == "f":
            weights[key] = rounded(values, precision)
    for node in plain.nodes:
        bias = node.parameter("B")
        if node.get("operator") in RECURRENT and bias is not None:
            weights[bias.key] = rounded(_added_biases(node, np.asarray(plain.weights[bias.key])), precision)
    return replace(plain, weights=weights)


def _added_biases(node: Node, biases: Array) -> Array:
    """The two biases of each gate as one, except for that of a GRU's new state which is multiplied before it is
    reset."""
    first, second = np.split(biases, 2, axis=-1)
    rows = first.shape[-1]
    is_apart = node.get("operator") == "GRU" and node.get("linear_before_reset")
    added = rows * 2 // 3 if is_apart else rows  # the new state is the last of a GRU's three gates
    kept = np.arange(rows) >= added
    sums = np.where(kept, first, first + second)
    rest = np.where(kept, second, 0)
    return np.concatenate([sums, rest], axis=-1)
