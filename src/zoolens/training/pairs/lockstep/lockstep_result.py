"""What a comparison of first steps found, whichever door asked for it."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from zoolens.base.verdicts import Coverage, Verdict, judged
from zoolens.training.pairs.lockstep.cause_search import DepartureCause
from zoolens.training.pairs.lockstep.quantities import ComparedQuantity


@dataclass(frozen=True, kw_only=True)
class LockstepResult:
    """Every quantity with how far it is apart, the causes in order, and how much was judged."""

    steps: tuple[int, ...]
    rows: tuple[ComparedQuantity, ...]  # in the order of computation, without anything switched
    # Each with where a side departs while all causes before it are switched; the last may be unproved.
    causes: tuple[DepartureCause, ...]
    coverage: Coverage  # what the verdict rests on

    @property
    def different(self) -> bool:
        return bool(self.causes)

    @property
    def verdict(self) -> Verdict:
        return judged(self.coverage, different=self.different)


def finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if isfinite(value) else None
