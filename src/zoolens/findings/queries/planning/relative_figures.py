"""Figures relative to the reference, from the answers on the probes: agreement, loss of accuracy, distance, and their
bounds at a confidence that counts all candidates."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ZoolensError
from zoolens.base.statistics.anytime import paired_lowers
from zoolens.findings.queries.language.syntax import EQUIVALENCE
from zoolens.findings.queries.planning import metrics
from zoolens.findings.queries.planning.candidates import Candidates
from zoolens.findings.queries.planning.guarantees import Guarantee, RowAgreement, lower_bounds
from zoolens.findings.queries.planning.reference import Reference
from zoolens.findings.queries.planning.view import Values, View

_BLOCK: Final = 64  # candidates bounded at once
# 0.9 less 0.87 is 0.030000000000000027: a loss of exactly 3 points would not be at most 3 points.
_DIGITS: Final = 12
ELSEWHERE: Final = "equivalence on other data"


class RelativeFigures:
    """All rows of an index beside one reference. Bounds are worked out for candidates only, and when they are asked
    for: a query without CONFIDENCE need not count its candidates."""

    def __init__(
        self,
        view: View,
        reference: Reference | None,
        candidates: Candidates,
        promise: Callable[[], Guarantee | None],
    ) -> None:
        self.view = view
        self.reference = reference
        self.candidates = candidates
        self._promise = promise
        self._made: dict[str, Values] = {}

    @cached_property
    def guarantee(self) -> Guarantee | None:
        return self._promise()

    def values(self, name: str) -> Values:
        """One of `metrics.DERIVED` for every row; NaN where it is unknown."""
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    @cached_property
    def _makers(self) -> dict[str, Callable[[], Values]]:
        return {
            EQUIVALENCE: self._equivalence,
            metrics.EQUIVALENCE_LEAST: lambda: self.view.least_agreement(self._row),
            ELSEWHERE: lambda: self._agreement.shares,
            metrics.EQUIVALENCE_LOWER: self._equivalence_lower,
            metrics.ACCURACY_LOWER: self._accuracy_lower,
            metrics.ACCURACY_DROP: self._accuracy_drop,
            metrics.ACCURACY_DROP_UPPER: self._accuracy_drop_upper,
            metrics.L2: self._l2,
        }

    def _equivalence(self) -> Values:
        return self.view.agreement(self._row)

    def _equivalence_lower(self) -> Values:
        return self._agreement.lower(self._alpha)

    def _accuracy(self) -> Values:
        """Returns accuracies on the probes only: a claim, or a figure from other data, cannot be put beside the
        reference's."""
        if metrics.ACCURACY not in self.view.units or self.view.quality != metrics.ACCURACY:
            raise ZoolensError("No model of this index has an accuracy.", hint="Accuracy is of classifiers only.")
        kept = self.view.answered & self.view.measured(metrics.ACCURACY)
        return np.where(kept, self.view.values(metrics.ACCURACY), np.nan)

    def _accuracy_lower(self) -> Values:
        return lower_bounds(self._accuracy(), self.view.probes, self._alpha)

    def _accuracy_drop(self) -> Values:
        """Returns drops of accuracy without what subtracting adds: 91 % less 88 % is 0.03, not 0.030000000000000027."""
        accuracy = self._accuracy()
        return np.asarray(np.round(accuracy[self._row] - accuracy, _DIGITS))

    def _accuracy_drop_upper(self) -> Values:
        """The upper bound of the accuracy drop, from paired answers; it is valid at any number of inputs."""
        reference = self._correct(self._row)
        uppers = np.full(len(self.view), np.nan)
        rows = np.flatnonzero(self.candidates.rows & self.view.answered)
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            gains = np.stack([self._correct(int(row)) - reference for row in block])
            uppers[block] = -paired_lowers(gains, self._alpha)
        return uppers

    def _correct(self, row: int) -> NDArray[np.float64]:
        return self.view.index.signature(row).correct.astype(np.float64)

    def _l2(self) -> Values:
        """Mean distance of the main output's vectors; of classifiers, whose best scores only are kept, the most that it
        can be."""
        from zoolens.findings.comparisons.behaviour import behaviour
        from zoolens.findings.comparisons.compatibility import Compatibility

        reference = self.view.index.signature(self._row)
        comparable = np.isfinite(self.view.agreement(self._row))
        distances = np.full(len(self.view), np.nan)
        for row in np.flatnonzero(self.candidates.rows & self.view.answered & comparable):
            # Classes are in the dataset's order already.
            signature = self.view.index.signature(int(row))
            distances[row] = behaviour(reference, signature, Compatibility())[0].l2.high
        return distances

    # The planner refuses queries for which these are missing.

    @property
    def _row(self) -> int:
        assert self.reference is not None
        return self.reference.row

    @property
    def _agreement(self) -> RowAgreement:
        assert self.guarantee is not None
        assert self.guarantee.agreement is not None
        return self.guarantee.agreement

    @property
    def _alpha(self) -> float:
        assert self.guarantee is not None
        return self.guarantee.alpha
