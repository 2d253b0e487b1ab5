"""Who may be chosen, as far as can be told without looking at answers on the probes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from zoolens.queries.predicates import Predicate
from zoolens.queries.reference import Reference
from zoolens.queries.steps import Step, all_pass, reference_steps
from zoolens.queries.view import Mask, View


class Candidates:
    """The rows beside the reference that pass these clauses and predicates, none of which looks at answers; counted
    when that is asked for.

    A confidence that holds for all of them together holds for whichever of them the answers then favour.
    """

    def __init__(
        self, view: View, reference: Reference | None, clauses: Sequence[Step], predicates: Sequence[Predicate]
    ) -> None:
        self._view = view
        self._reference = reference
        self._clauses = clauses
        self._predicates = predicates

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        return (*reference_steps(self._view, self._reference), *self._clauses)

    @cached_property
    def rows(self) -> Mask:
        found = all_pass(self.steps, len(self._view))
        for one in self._predicates:
            found &= one.passes(self._view.values(one.metric.column))
        return found

    @cached_property
    def count(self) -> int:
        return int(self.rows.sum())
