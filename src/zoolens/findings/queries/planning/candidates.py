"""The rows that a query may choose, decided without looking at answers on the probes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from zoolens.findings.index.tables.rows import Row
from zoolens.findings.queries.planning.admission import AdmissionRule, all_pass, reference_rules
from zoolens.findings.queries.planning.predicates import Predicate
from zoolens.findings.queries.planning.reference import Reference
from zoolens.findings.queries.planning.view import Mask, View
from zoolens.inventory.manifests.twins import TWINS_POSSIBLE


class Candidates:
    """The rows beside the reference that pass these clauses and predicates, none of which looks at answers; counted
    when that is asked for.

    A confidence that holds for all of them together holds for whichever of them the answers then favour.
    """

    def __init__(
        self, view: View, reference: Reference | None, clauses: Sequence[AdmissionRule], predicates: Sequence[Predicate]
    ) -> None:
        self._view = view
        self._reference = reference
        self._clauses = clauses
        self._predicates = predicates

    @cached_property
    def rules(self) -> tuple[AdmissionRule, ...]:
        return (*reference_rules(self._view, self._reference), *self._clauses)

    @cached_property
    def rows(self) -> Mask:
        passing = all_pass((rule for rule in self.rules if not rule.looks_at_answers), len(self._view))
        for predicate in self._predicates:
            passing &= predicate.passes(self._view.values(predicate.metric.column))
        return passing

    @cached_property
    def count(self) -> int:
        return int(self.rows.sum())

    @cached_property
    def comparisons(self) -> int:
        """The candidates, and the stitched models that the searches of those among them might have made."""
        return self.count + twins_not_made(self._view, self.rows)


def twins_not_made(view: View, rows: Mask) -> int:
    """A search for a stitched model looks at answers and stops at the first that is good enough: each stitched model
    that it might have made counts, in as many runtimes as those that were made."""
    searches: dict[tuple[str, str], list[Row]] = {}
    for number in np.flatnonzero(rows & view.twins):
        row = view.index.rows[int(number)]
        searches.setdefault((str(row.twin_of), str(row.attributes.get("donor"))), []).append(row)
    return sum(map(_not_made, searches.values()))


def _not_made(rows: Sequence[Row]) -> int:
    made = len({row.model for row in rows})
    possible = max(map(_twins_possible, rows))
    return max(0, possible - made) * math.ceil(len(rows) / made)


def _twins_possible(row: Row) -> int:
    """Returns how many stitched models were possible. Where that was not recorded yet, it is as many as this one has
    segments, of which each may be dropped."""
    recorded = row.attributes.get(TWINS_POSSIBLE)
    if isinstance(recorded, int | float) and 1 <= recorded < 1e6:
        return int(recorded)
    return 1 + str(row.attributes.get("segments", "")).count("; ")
