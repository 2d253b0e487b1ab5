"""How equivalent a tier is at least: from the query, or from the stored answers where the query bounds nothing.

Queries bound shares of equal answers. Answers of other tasks agree in part, so that a tier is promised a lower bound of
the mean agreement, by the method that `zoolens equiv` uses for such answers. It holds with the confidence for all
candidates of the query together, as the query's own bounds do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.statistics.anytime import bounded_mean_lower
from zoolens.base.statistics.multiplicity import corrected
from zoolens.findings.index.signatures.input_agreement import input_agreement
from zoolens.findings.queries.answers.matches import Match
from zoolens.findings.queries.answers.query_answers import Answer
from zoolens.inventory.tasks.task import Answers

CONFIDENCE: Final = 0.95  # where the definition names none


@dataclass
class TierBounds:
    """Bounds of the matches of one answer. `confidence`: that of the definition, where it has one."""

    answer: Answer
    confidence: float | None = None
    _reference: Answers | None = field(default=None, repr=False)

    @property
    def by_query(self) -> bool:
        return self.answer.plan.view.counts_answers

    @property
    def level(self) -> float | None:
        """The confidence that the bounds have."""
        return self.answer.confidence if self.by_query else self.confidence or CONFIDENCE

    def lower(self, match: Match) -> float | None:
        """The agreement is at least this; None: it is not bounded."""
        if self.by_query:
            return match.equivalence_lower
        plan, index = self.answer.plan, self.answer.plan.view.index
        if plan.reference is None:
            return None
        if self._reference is None:
            self._reference = index.signature(plan.reference.row).main
        place = next(self._places(match), None)
        if place is None:
            return None
        try:
            agreement = input_agreement(self._reference, index.signature(place).main)
        except ZoolensError:
            return None
        if np.isnan(agreement).any():
            return None
        comparisons = max(1, plan.relation.candidates.comparisons)
        return bounded_mean_lower(agreement, corrected(1 - (self.confidence or CONFIDENCE), comparisons))

    def _places(self, match: Match) -> Iterator[int]:
        rows = self.answer.plan.view.index.rows
        return (place for place, row in enumerate(rows) if row.key == match.row.key)
