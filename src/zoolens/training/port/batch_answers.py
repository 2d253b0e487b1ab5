"""How two networks answer several inputs in one batch, beside their answers to each input alone.

A softmax or a norm over the wrong axis mixes the inputs of a batch. With one input at a time nothing of it is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zoolens.base.numerics.deviation import Deviation, Verdict, deviation
from zoolens.training.pairs.networks.framework import Array
from zoolens.training.pairs.sides.network_sides import PortSide
from zoolens.training.port.layer_values import facing

_RANKS: dict[Verdict, int] = {"within": 0, "blind": 1, "beyond": 2}


@dataclass(frozen=True)
class JudgedOutput:
    """How far one output of B is from A's, and how far rounding alone moves it."""

    apart: Deviation
    floor: float

    @property
    def verdict(self) -> Verdict:
        return self.apart.verdict(self.floor)

    @property
    def rank(self) -> tuple[int, float]:
        """Larger for an output that says more against the two being alike."""
        return _RANKS[self.verdict], self.apart.error / self.floor


@dataclass(frozen=True)
class BatchAnswers:
    """What several inputs in one batch show beyond each of them alone."""

    size: int  # inputs of the batch
    worst: JudgedOutput | None  # the output that is farthest beyond its floor; None where a side refused the batch
    mixing: tuple[str, ...] = ()  # the sides whose answer to an input depends on the others of its batch
    refusing: tuple[str, ...] = ()  # the sides that take no such batch

    @property
    def differ(self) -> bool:
        return self.worst is not None and self.worst.verdict == "beyond"


def worst_of(a: Sequence[Array], b: Sequence[Array], floors: Sequence[float]) -> JudgedOutput:
    """The output of B that is farthest from A's beside its floor. `floors`: of each output of A."""
    if len(a) != len(b):
        return JudgedOutput(Deviation(float("inf"), "shape"), max(floors))
    judged = (JudgedOutput(deviation(facing(y, x.shape), x), floor) for x, y, floor in zip(a, b, floors, strict=True))
    return max(judged, key=lambda output: output.rank)


def batch_answers(
    sides: tuple[PortSide, PortSide],
    fed: Sequence[Sequence[Array]],
    answers: Sequence[Sequence[Sequence[Array]]],
    floors: Sequence[Sequence[float]],
) -> BatchAnswers:
    """Give both sides all inputs of `fed` at once. `answers`: those of each side to each input alone; `floors`: of each
    output of A for each input."""
    batch = [np.concatenate(arrays) for arrays in zip(*fed, strict=True)]
    largest = [max(each) for each in zip(*floors, strict=True)]
    given = [_answered(side, batch) for side in sides]
    refusing = tuple(side.text for side, answer in zip(sides, given, strict=True) if answer is None)
    mixing = tuple(
        side.text
        for side, answer, alone in zip(sides, given, answers, strict=True)
        if answer is not None and _mixes(answer, alone, max(largest))
    )
    worst = None if given[0] is None or given[1] is None else worst_of(given[0], given[1], largest)
    return BatchAnswers(len(fed), worst, mixing, refusing)


def _answered(side: PortSide, batch: Sequence[Array]) -> list[Array] | None:
    """Returns the answers, None where the network raises an error: it may be written for one input at a time."""
    try:
        return side.run(batch)
    except Exception:  # a live network raises whatever its code does
        return None


def _mixes(answer: Sequence[Array], alone: Sequence[Sequence[Array]], floor: float) -> bool:
    """Whether the answers to a batch are others than those to its inputs alone, one after the other. Where shapes do
    not fit, the first axis is not that of the batch, and nothing is known."""
    expected = [np.concatenate([np.atleast_1d(array) for array in arrays]) for arrays in zip(*alone, strict=True)]
    worst = worst_of(expected, answer, [floor] * len(expected))
    return worst.verdict == "beyond" and worst.apart.why == "value"
