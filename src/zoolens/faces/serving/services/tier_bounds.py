"""How equivalent a tier is at least: from the query, or from the stored answers where the query bounds nothing.

Queries bound shares of equal answers. Answers of other tasks agree in part, so that a tier is promised a lower bound of
the mean agreement, by the method that `zoolens equiv` uses for such answers. Where too little is kept of answers to
know how far they agree, the least that it can be counts. It holds with the confidence for all candidates of the query
together, as the query's own bounds do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.statistics.anytime import bounded_mean_lower
from zoolens.base.statistics.multiplicity import corrected
from zoolens.faces.serving.contracts.ladder import Rung
from zoolens.findings.index.signatures.input_agreement import least_input_agreement
from zoolens.findings.queries.answers.matches import Match
from zoolens.findings.queries.answers.query_answers import Answer
from zoolens.inventory.tasks.task import Answers

CONFIDENCE: Final = 0.95  # where the definition names none


class TierAgreement(NamedTuple):
    """How far a model agrees with the reference on the probes."""

    equivalence: float
    lower: float | None  # what is promised; None: nothing is
    # What `equivalence` is at least, where too little is kept of answers to know it; None: it is known exactly.
    least: float | None = None


SELF: Final = TierAgreement(1.0, 1.0)  # of the reference


def agreement_of(rung: Rung) -> TierAgreement:
    return TierAgreement(rung.equivalence, rung.equivalence_lower, rung.equivalence_least)


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

    def of(self, match: Match) -> TierAgreement:
        """A match without an equivalence counts as one that never agrees."""
        exact = self.answer.plan.view.agreement_is_exact
        least = None if exact else match.equivalence_least or 0.0
        return TierAgreement(match.equivalence or 0.0, self.lower(match), least)

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
            agreement = least_input_agreement(self._reference, index.signature(place).main)
        except ZoolensError:
            return None
        if np.isnan(agreement).any():
            return None
        comparisons = max(1, plan.relation.candidates.comparisons)
        return bounded_mean_lower(agreement, corrected(1 - (self.confidence or CONFIDENCE), comparisons))

    def _places(self, match: Match) -> Iterator[int]:
        rows = self.answer.plan.view.index.rows
        return (place for place, row in enumerate(rows) if row.key == match.row.key)
