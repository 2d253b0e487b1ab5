"""What lower bounds on agreement are made from: which inputs, which confidence, and how many comparisons share it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.statistics.binomial import binomial_lower, binomial_lowers
from zoolens.base.statistics.multiplicity import corrected
from zoolens.findings.queries.planning.view import Values, View

# What has to be alike for a row of one index to be the same thing as a row of another.
_STACK: Final = ("runtime", "runtime_version", "device", "precision", "mode", "threads", "cpu")


@dataclass(frozen=True)
class RowAgreement:
    """How often each row answers like the reference: shares of `n` inputs of `dataset`, NaN where unknown."""

    shares: Values
    n: int
    dataset: str

    def lower(self, alpha: float) -> Values:
        return lower_bounds(self.shares, self.n, alpha)


@dataclass(frozen=True)
class Guarantee:
    """What lower bounds are made from. They are one-sided and hold with `confidence` for all comparisons together,
    which are `each` for every candidate. If `elsewhere`, the agreement is of other data than the index's probes."""

    agreement: RowAgreement | None
    confidence: float
    candidates: int
    each: int = 1
    elsewhere: bool = False

    @property
    def comparisons(self) -> int:
        return max(1, self.candidates) * self.each

    @property
    def alpha(self) -> float:
        return corrected(1 - self.confidence, self.comparisons)

    def lower(self, row: int) -> float:
        """The bound of one row's agreement; NaN where that is unknown."""
        if self.agreement is None or np.isnan(self.agreement.shares[row]):
            return float("nan")
        return binomial_lower(round(float(self.agreement.shares[row]) * self.agreement.n), self.agreement.n, self.alpha)


def agreement_with(view: View, reference: int) -> RowAgreement:
    return RowAgreement(view.agreement(reference), view.probes, view.dataset)


def agreement_elsewhere(view: View, reference: int, other: View) -> RowAgreement:
    """The agreement on the probes of another index, for the rows of this one."""
    places = {_same(other, row): row for row in range(len(other))}
    there = places.get(_same(view, reference))
    if there is None:
        raise ZoolensError(
            f"{view.index.rows[reference].ref} was not measured on {other.dataset}: there is no bound from there.",
            hint="Evaluate it there with `zoolens eval`, or write BOUND ON.",
        )
    shares = other.agreement(there)
    rows = [places.get(_same(view, row)) for row in range(len(view))]
    return RowAgreement(
        np.array([np.nan if row is None else shares[row] for row in rows], np.float64), other.probes, other.dataset
    )


def _same(view: View, row: int) -> tuple[object, ...]:
    entry = view.index.rows[row]
    return (entry.model, *(entry.attributes.get(name) for name in _STACK))


def lower_bounds(shares: Values, n: int, alpha: float) -> Values:
    """One-sided lower Clopper–Pearson bounds of shares of n inputs; NaN where a share is unknown."""
    bounds = np.full(len(shares), np.nan)
    known = ~np.isnan(shares)
    bounds[known] = binomial_lowers(np.rint(shares[known] * n).astype(np.int64), n, alpha)
    return bounds
