"""Where two continuations of one prompt part, and how near a tie the first other token was in both models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.numerics.sequence_alignment import common_beginning

NEAR: Final = 0.1  # nats: the likelier of two tokens is 1.1 times as likely as the other

Ids = NDArray[Any]


@dataclass(frozen=True)
class Continuation:
    """What was written, and the most likely tokens at each position with their log-probabilities."""

    written: Ids
    ids: Ids  # positions × k, the likeliest first
    logs: NDArray[np.float64]


@dataclass(frozen=True)
class Gap:
    """How much likelier a model found its own token than the other model's, in nats. Not `exact`: at least so much,
    since the other token is not among those kept."""

    nats: float
    exact: bool


@dataclass(frozen=True)
class ContinuationFigures:
    """How the continuations of two models differ. The medians are over the prompts where they part, those of the
    gaps over those where both go on; None: there are none."""

    prompts: int
    identical: int
    common_tokens: float | None  # median tokens before the first other one
    gap_a: float | None  # median nats
    gap_b: float | None
    near_ties: int  # prompts where both gaps are surely no larger than `NEAR`
    at_least: int  # prompts where a gap is known only to be no smaller


def continuation_figures(a: Sequence[Continuation], b: Sequence[Continuation]) -> ContinuationFigures:
    lengths: list[int] = []
    gaps: list[tuple[Gap, Gap]] = []
    for ours, theirs in zip(a, b, strict=True):
        place = common_beginning(ours.written, theirs.written)
        shorter, longer = sorted((len(ours.written), len(theirs.written)))
        if place < longer:
            lengths.append(place)
        # Where one ends at a token that the other takes for no end, no tokens stand against each other.
        if place < shorter:
            gaps.append((_gap(ours, theirs, place), _gap(theirs, ours, place)))
    medians = [float(np.median([pair[side].nats for pair in gaps])) if gaps else None for side in range(2)]
    return ContinuationFigures(
        prompts=len(a),
        identical=len(a) - len(lengths),
        common_tokens=float(np.median(lengths)) if lengths else None,
        gap_a=medians[0],
        gap_b=medians[1],
        near_ties=sum(all(gap.exact and gap.nats <= NEAR for gap in pair) for pair in gaps),
        at_least=sum(not all(gap.exact for gap in pair) for pair in gaps),
    )


def _gap(own: Continuation, other: Continuation, place: int) -> Gap:
    ids, logs = own.ids[place], own.logs[place]
    found = np.flatnonzero(ids == other.written[place])
    # One that was not kept is no likelier than the last one that was.
    least = logs[found[0]] if len(found) else logs[-1]
    return Gap(float(logs[0] - least), bool(len(found)))
