"""A converted file that keeps its constants in float16, held against the graph of the file that it was made from.

`ovc` and `openvino.save_model` do so unless they are told not to. The graph of such a file is not read: that all of its
difference comes from the rounded constants is proved with the other file's graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from zoolens.divergence.causes import Cause, Kind, Proof
from zoolens.divergence.examined import Exact, ExaminedInput, exact_output
from zoolens.divergence.sides import Side, reopened
from zoolens.errors import ZoolensError
from zoolens.graph.model import Array, Graph, Node
from zoolens.graph.reference_recurrent import RECURRENT
from zoolens.graph.weighted_graph import folded
from zoolens.numerics.deviation import deviation_of_finite
from zoolens.numerics.rounding import rounded
from zoolens.runtimes import openvinofile


def compression_causes(
    sides: tuple[Side, Side], examined: Sequence[ExaminedInput], exacts: Mapping[int, Exact]
) -> list[Cause]:
    """Constants in float16 as the cause, if a side has them and nearly all of its difference vanishes with them; and
    the precision that the side computes in, where that is lower too."""
    worst = examined[0]
    for place, side in enumerate(sides):
        if side.borrowed and side.graph is not None and side.job.asset.format == openvinofile.FORMAT:
            return _causes(side, place, worst, exacts[worst.index])
    return []


def _causes(side: Side, place: int, examined: ExaminedInput, exact: Exact) -> list[Cause]:
    halves, every = openvinofile.half_constants(side.job.paths["model"])
    if not halves or side.graph is None:
        return []
    answer = side.real_answer(examined.answers[place])
    single = _in_float32(side, examined.feeds[place], answer)
    half = exact_output(_in_half(side.graph), side.output, exact.inputs[place])
    before, after = (deviation_of_finite(single, target).error for target in (exact.outputs[place], half))
    words = (
        f"{side.label}'s file keeps {halves} of {every} constants in float16, to which the converter has rounded them"
    )
    proof = Proof(
        "the other file with its constants rounded to float16, computed exactly", before, after, exact.file_floor
    )
    causes = [Cause(Kind.WEIGHTS, words, None, proof=proof)]
    lower = deviation_of_finite(answer, half).error
    if proof.holds and lower > exact.floors[place]:
        told = Proof(f"{side.label} told to compute in float32", lower, after, exact.floors[place])
        causes.append(Cause(Kind.PRECISION, f"{side.label} computes in {side.precision}", side.label, proof=told))
    return causes


def _in_half(graph: Graph) -> Graph:
    """The graph with norms folded and biases added, as converters do it, and all constants rounded."""
    plain = folded(graph)
    weights = {
        key: rounded(values, "float16") if np.asarray(values).dtype.kind == "f" else values
        for key, values in plain.weights.items()
    }
    for node in plain.nodes:
        bias = node.parameter("B")
        if node.get("operator") in RECURRENT and bias is not None:
            weights[bias.key] = rounded(_added_biases(node, np.asarray(plain.weights[bias.key])), "float16")
    return replace(plain, weights=weights)


def _added_biases(node: Node, biases: Array) -> Array:
    """The two biases of each gate as one, except for that of a GRU's new state which is multiplied before it is
    reset."""
    first, second = np.split(biases, 2, axis=-1)
    rows = first.shape[-1]
    late = node.get("operator") == "GRU" and node.get("linear_before_reset")
    apart = np.arange(rows) >= (rows * 2 // 3 if late else rows)
    return np.concatenate([np.where(apart, first, first + second), np.where(apart, second, 0)], axis=-1)


def _in_float32(side: Side, feeds: Mapping[str, Array], answer: Array) -> Array:
    """What the side answers when it is told to compute in float32; what it answered where it cannot be told."""
    if side.job.options.precision == "float32" or not side.job.runtime.can("force_precision"):
        return answer
    try:
        again = reopened(side, precision="float32")
    except ZoolensError:
        return answer
    try:
        return again.real_answer(again.answer(dict(feeds)))
    finally:
        again.close()
