"""What can be said of a difference where layers cannot be compared: what changing a suspect does to the answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zoolens.divergence.answers import comparable, compared_kind
from zoolens.divergence.causes import Cause, Kind, Proof
from zoolens.divergence.examined import Examined
from zoolens.divergence.file_causes import manifest_lines
from zoolens.divergence.sides import Feeds, Side, reopened
from zoolens.errors import ZoolensError
from zoolens.graph.model import Array
from zoolens.numerics.deviation import deviation


def causes_from_answers(a: Side, b: Side, examined: Sequence[Examined], floor: float) -> list[Cause]:
    """Where no layers can be compared: what changing a suspect does to the answers of the worst input."""
    kind = compared_kind(a, b)
    worst = examined[0]
    values = [comparable(side, answer, kind) for side, answer in zip((a, b), worst.answers, strict=True)]
    before = deviation(values[1], values[0]).error
    causes: list[Cause] = []
    fed = _same_feeds(a, b, worst)
    if fed is not None:
        after = deviation(comparable(b, b.answer(fed), kind), values[0]).error
        proof = Proof("B given the input tensor of A", before, after, floor)
        lines = manifest_lines(a, b)
        if proof.holds:
            words = "The two are fed other input tensors"
            causes.append(
                Cause(Kind.PREPROCESSING, f"{words}; the manifests differ in {lines}" if lines else words, proof=proof)
            )
            return causes
    for place, side in enumerate((a, b)):
        forced = _answers_in_float32(side, place, worst, values[1 - place], before, floor)
        if forced is not None and forced.holds:
            words = f"{side.label} computes in {side.precision}"
            return [*causes, Cause(Kind.PRECISION, words, side.label, proof=forced)]
    if a.foreign or b.foreign:
        words = "The two are networks of different structure: their tensors have other shapes"
        return [Cause(Kind.STRUCTURE, words, withdrawn=("their parts do not fit into each other",))]
    return [
        Cause(Kind.UNEXPLAINED, "Their layers cannot be compared, and nothing that was tried removes the difference")
    ]


def _same_feeds(a: Side, b: Side, examined: Examined) -> Feeds | None:
    """A's input under B's name, where both take the same kind of tensor and were fed different ones."""
    ours, theirs = examined.feeds
    if len(ours) != 1 or len(theirs) != 1:
        return None
    (one,), (other,), (name,) = ours.values(), theirs.values(), theirs.keys()
    fits = one.shape == other.shape and one.dtype == other.dtype and not np.array_equal(one, other)
    return {name: one} if fits else None


def _answers_in_float32(
    side: Side, place: int, examined: Examined, other: Array, before: float, floor: float
) -> Proof | None:
    if side.precision in ("float32", "unknown precision") or not side.job.runtime.can("force_precision"):
        return None
    try:
        again = reopened(side, precision="float32")
    except ZoolensError:
        return None
    try:
        kind = compared_kind(side, side)
        after = deviation(comparable(again, again.answer(examined.feeds[place]), kind), other).error
    finally:
        again.close()
    return Proof(f"{side.label} told to compute in float32", before, after, floor)
