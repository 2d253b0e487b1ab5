"""What can be said of a difference where layers cannot be compared: what changing a suspect does to the answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.numerics.deviation import deviation_of_finite
from zoolens.findings.divergence.divergence_answers import Compared, comparable, compared_kind
from zoolens.findings.divergence.divergence_causes import Cause, Kind, Proof, number
from zoolens.findings.divergence.examined import ExaminedInput
from zoolens.findings.divergence.input_causes import manifest_lines, token_words
from zoolens.findings.divergence.sides import Feeds, Side, reopened
from zoolens.findings.graph.ir.model import Array

ASSUMED_FLOOR: Final = 1e-5  # relative, of answers whose graph cannot be computed, so that no floor is measured


def random_causes(sides: Sequence[Side], index: int) -> tuple[Cause, ...]:
    """The sides that give another answer to the same input when it is given to them again."""
    causes = []
    for side in sides:
        feeds = side.feeds(index)
        values = [side.real_answer(side.answer(feeds)) for _ in range(2)]
        moved = deviation_of_finite(values[1], values[0]).error
        if moved > ASSUMED_FLOOR:
            words = f"{side.label} gives another answer to the same input each time: two differ by {number(moved)}"
            causes.append(Cause(Kind.RANDOM, words, side.label, seen=True))
    return tuple(causes)


def token_causes(a: Side, b: Side, examined: ExaminedInput, floor: float) -> tuple[Cause, ...]:
    """Both read a text as other tokens, and as more or fewer of them: seen, and what is left where B is given A's."""
    ((name, fed_b),) = examined.feeds[1].items()
    (fed_a,) = examined.feeds[0].values()
    words = f"The two read the same text as other tokens: {token_words(fed_a, fed_b)}"
    if lines := manifest_lines(a, b):
        words += f"; the manifests differ in {lines}"
    try:
        again = b.real_answer(b.answer({name: fed_a.astype(fed_b.dtype)}))
    except ZoolensError as error:
        left = f"Whether more differs is not known: B cannot read the tokens of A ({error.message.rstrip('.')})"
        return Cause(Kind.PREPROCESSING, words, seen=True), Cause(Kind.UNEXPLAINED, left)
    after = deviation_of_finite(again, a.real_answer(examined.answers[0])).error
    proof = Proof("B given the tokens of A", math.inf, after, floor)
    if proof.holds:
        return (Cause(Kind.PREPROCESSING, words, proof=proof),)
    left = f"B given the tokens of A still differs by {number(after)}, of which no cause was looked for"
    return Cause(Kind.PREPROCESSING, words, seen=True), Cause(Kind.UNEXPLAINED, left)


def causes_from_answers(a: Side, b: Side, examined: Sequence[ExaminedInput], floor: float) -> list[Cause]:
    """Where no layers can be compared: what changing a suspect does to the answers of the worst input."""
    kind = compared_kind(a, b)
    worst = examined[0]
    values = [comparable(side, answer, kind) for side, answer in zip((a, b), worst.answers, strict=True)]
    before = deviation_of_finite(values[1], values[0]).error
    fed = _same_feeds(a, b, worst)
    if fed is not None:
        after = deviation_of_finite(comparable(b, b.answer(fed), kind), values[0]).error
        proof = Proof("B given the input tensor of A", before, after, floor)
        lines = manifest_lines(a, b)
        if proof.holds:
            words = "The two are fed other input tensors"
            words += f"; the manifests differ in {lines}" if lines else ""
            return [Cause(Kind.PREPROCESSING, words, proof=proof)]
    for place, side in enumerate((a, b)):
        forced = _answers_in_float32(side, worst.feeds[place], kind, values[1 - place], before, floor)
        if forced is not None and forced.holds:
            words = f"{side.label} computes in {side.precision}"
            return [Cause(Kind.PRECISION, words, side.label, proof=forced)]
        if forced is not None and math.isinf(before) and math.isfinite(forced.after):
            words = (
                f"{side.label} computes in {side.precision}, where its numbers are not finite; told to compute in "
                f"float32, they are. What is left then, {number(forced.after)}, is not explained"
            )
            return [Cause(Kind.PRECISION, words, side.label, seen=True)]
    if a.foreign or b.foreign:
        words = "The two are networks of different structure: their tensors have other shapes"
        return [Cause(Kind.STRUCTURE, words, withdrawn=("their parts do not fit into each other",))]
    return [
        Cause(Kind.UNEXPLAINED, "Their layers cannot be compared, and nothing that was tried removes the difference")
    ]


def _same_feeds(a: Side, b: Side, examined: ExaminedInput) -> Feeds | None:
    """A's input under B's name, where both take the same kind of tensor and were fed different ones."""
    ours, theirs = examined.feeds
    if len(ours) != 1 or len(theirs) != 1:
        return None
    (fed_a,), (fed_b,), (name,) = ours.values(), theirs.values(), theirs.keys()
    fits = fed_a.shape == fed_b.shape and fed_a.dtype == fed_b.dtype and not np.array_equal(fed_a, fed_b)
    return {name: fed_a} if fits else None


def _answers_in_float32(
    side: Side, feeds: Feeds, kind: Compared, other: Array, before: float, floor: float
) -> Proof | None:
    if side.precision in ("float32", "unknown precision") or not side.job.runtime.can("force_precision"):
        return None
    try:
        again = reopened(side, precision="float32")
    except ZoolensError:
        return None
    try:
        after = deviation_of_finite(comparable(again, again.answer(feeds), kind), other).error
    finally:
        again.close()
    return Proof(f"{side.label} told to compute in float32", before, after, floor)
