"""Whether the causes together explain the difference of two answers; what they leave is a cause of its own, with its
size, that nobody knows.

The difference of two answers is at most the sum of its three parts (runtime A, files and inputs, runtime B). A proof
says how much of its part is gone with the cause. Several causes in the files share one proof.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from zoolens.findings.divergence.divergence_causes import LEFT, Cause, Kind, Proof, number


def adding_up(causes: Sequence[Cause], difference: float, floor: float) -> tuple[Cause, ...]:
    """The causes, with the unexplained rest behind them. One that explains less than a tenth of the difference, where
    most of it stays unexplained, is not called its cause. `difference`: of the two answers on the worst input."""
    left = difference - sum(_removed(causes, side) for side in ("A", None, "B"))
    is_explained = left <= max(floor, LEFT * difference)
    has_size = math.isfinite(difference)
    if is_explained or not has_size or not any(_proved_by(cause) for cause in causes):
        return tuple(causes)
    kept = [_judged_beside(cause, difference) for cause in causes]
    words = f"{number(left)} of the difference of {number(difference)} is not explained by what was found"
    return (*kept, Cause(Kind.UNEXPLAINED, words))


def _removed(causes: Sequence[Cause], side: str | None) -> float:
    """How much of its part of the difference is gone with the causes of one side; None: of the files."""
    proofs = [_proved_by(cause) for cause in causes if cause.side == side]
    # The largest and not the sum: several causes in the files share one proof.
    return max((proof.before - proof.after for proof in proofs if proof is not None), default=0.0)


def _proved_by(cause: Cause) -> Proof | None:
    return cause.proof if cause.proved else None


def _judged_beside(cause: Cause, difference: float) -> Cause:
    proof = _proved_by(cause)
    if proof is None:
        return cause
    removed = proof.before - proof.after
    if removed > LEFT * difference:
        return cause
    why = f"it removes {number(removed)} of a difference of {number(difference)}"
    return replace(cause, proof=None, withdrawn=(*cause.withdrawn, why))
