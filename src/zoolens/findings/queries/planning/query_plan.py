"""A plan: a query whose names, quantities and bounds are settled for one index, and the search that answers it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from zoolens.base.store.records import Provenance
from zoolens.findings.index.search.prepared_search import Search
from zoolens.findings.index.search.ranking import Ranking
from zoolens.findings.index.search.ranking import SearchPlan as Strategy
from zoolens.findings.index.search.search_columns import Range
from zoolens.findings.queries.language.errors import ClauseError
from zoolens.findings.queries.language.syntax import DEFAULT_ORDER, EQUIVALENCE, Metric, Order, Query, metrics_of
from zoolens.findings.queries.planning.admission import PROVENANCE, AdmissionRule, all_pass
from zoolens.findings.queries.planning.expression_evaluator import Function, order_scores
from zoolens.findings.queries.planning.guarantees import Guarantee
from zoolens.findings.queries.planning.metrics import EQUIVALENCE_LEAST, WITHOUT_REFERENCE, ResolvedMetric
from zoolens.findings.queries.planning.predicates import Predicate
from zoolens.findings.queries.planning.reference import Reference
from zoolens.findings.queries.planning.relative_figures import RelativeFigures
from zoolens.findings.queries.planning.view import Mask, Values, View

LIMIT: Final = 10


@dataclass(frozen=True)
class Plan:
    """A query with everything resolved for one index. Whatever needs a pass over all rows is done on demand."""

    query: Query
    view: View
    reference: Reference | None
    clauses: Sequence[AdmissionRule]  # in the order in which they are explained
    predicates: Sequence[Predicate]
    within: Predicate | None  # WITHIN as a predicate, on the agreement that it takes
    orders: tuple[Order, ...]
    relation: RelativeFigures
    functions: Mapping[str, Function]
    batch: int
    # rows whose model file has been replaced; judged for the best rows only, as that reads the file
    changed: tuple[int, ...] = ()

    @property
    def limit(self) -> int:
        return self.query.limit or LIMIT

    @property
    def candidates(self) -> int:
        """How many rows pass whatever does not look at answers on the probes."""
        return self.relation.candidates.count

    @property
    def rules(self) -> tuple[AdmissionRule, ...]:
        """The rules that every candidate passes, apart from predicates on figures."""
        return self.relation.candidates.rules

    @property
    def guarantee(self) -> Guarantee | None:
        return self.relation.guarantee

    def metric(self, name: str) -> ResolvedMetric:
        return self.view.metric(name, self.batch)

    @cached_property
    def metrics(self) -> dict[str, ResolvedMetric]:
        """What the query's metrics stand for: those of ON first, then those of ORDER BY."""
        metrics = {predicate.metric.name: predicate.metric for predicate in self.predicates}
        metrics |= {bound.metric: self.metric(bound.metric) for bound in self.query.on if bound.metric not in metrics}
        ordered = [metric.name for order in self.orders for metric in metrics_of(order.expression)]
        return metrics | {name: self.metric(name) for name in ordered if name not in metrics}

    @property
    def everything(self) -> list[Predicate]:
        """All predicates on figures, WITHIN first."""
        return [self.within, *self.predicates] if self.within else [*self.predicates]

    @cached_property
    def admitted(self) -> Mask:
        passing = all_pass(self.rules, len(self.view))
        passing[list(self.changed)] = False
        return passing

    def values(self, metric: ResolvedMetric) -> Values:
        return self.relation.values(metric.column) if metric.derived else self.view.values(metric.column)

    @cached_property
    def fitting(self) -> Mask:
        """Every row that satisfies the whole query."""
        fitting = self.admitted.copy()
        for predicate in self.everything:
            fitting &= predicate.passes(self.values(predicate.metric))
        return fitting

    @cached_property
    def undecided(self) -> Mask:
        """Every row of which it is not known whether it fits: it fails nothing that is known of it, and has no answers
        on the probes, lacks a figure that is bounded, agrees with the reference in a range that the bound lies in, or
        its file has changed since."""
        undecided = all_pass((rule for rule in self.rules if rule.decides), len(self.view)) & ~self.fitting
        for predicate in self.everything:
            values = self.values(predicate.metric)
            undecided &= predicate.passes(values) | np.isnan(values) | self.between(predicate)
        return undecided

    def between(self, predicate: Predicate) -> Mask:
        """The rows whose agreement may lie on either side of the threshold: too little is kept of their answers."""
        if predicate.metric.column not in (EQUIVALENCE, EQUIVALENCE_LEAST) or self.view.agreement_is_exact:
            return np.zeros(len(self.view), np.bool_)
        most, least = self.relation.values(EQUIVALENCE), self.relation.values(EQUIVALENCE_LEAST)
        possible = predicate.passes(most) | predicate.passes(least)
        if predicate.comparison == "=":
            possible = (least <= predicate.threshold) & (predicate.threshold <= most)
        return possible & ~predicate.passes(self.values(predicate.metric))

    # --- how it is searched

    @property
    def by_equivalence(self) -> bool:
        return self.orders == DEFAULT_ORDER

    @cached_property
    def ranking(self) -> Ranking:
        if self.by_equivalence and self.reference is not None:
            return self.view.index.ranking(self.reference.row)
        scores = order_scores(self.orders, self._value_of, len(self.view), self.functions)
        return Ranking(self.view.index.columns, scores)

    def _value_of(self, metric: Metric) -> Any:
        resolved = self.metric(metric.name)
        if metric.reference:
            return reference_value(self.query, self.view, self.reference, resolved, self.relation)
        return self.values(resolved)

    @property
    def ranges(self) -> list[Range]:
        return [predicate.range for predicate in self.predicates if not predicate.metric.derived]

    @property
    def floor(self) -> float:
        """The least score that WITHIN allows, where rows are ordered by equivalence; else minus infinity."""
        if self.by_equivalence and self.within is not None and self.within.metric.column == EQUIVALENCE:
            return self.within.threshold
        return -math.inf

    @cached_property
    def mask(self) -> Mask | None:
        """The rows that pass what the search cannot check by columns and score; None if all rows pass."""
        rules = self.clauses if self.by_equivalence else self.rules
        seen = [predicate for predicate in self.everything if predicate.metric.derived]
        derived = [predicate for predicate in seen if not self._is_floor(predicate)]
        if not rules and not derived and not self.changed:
            return None
        passing = all_pass(rules, len(self.view))
        passing[list(self.changed)] = False
        for predicate in derived:
            passing &= predicate.passes(self.values(predicate.metric))
        return None if passing.all() else passing

    def _is_floor(self, predicate: Predicate) -> bool:
        return predicate is self.within and math.isfinite(self.floor)

    @property
    def wanted(self) -> int:
        """The number of rows that surely hold the models that are wanted, though each may have a row in every runtime,
        and those of the reference are among them."""
        return (self.limit + 1) * self.view.most_rows_of_a_model

    @cached_property
    def search(self) -> Search:
        return self.ranking.prepare(self.ranges, self.wanted, floor=self.floor, admit=self.mask)

    def best_rows(self) -> list[int]:
        """The best row of each model but for the reference, as many as are wanted."""
        rows, models, reference = self.search(), self.view.models, self.reference
        kept = {models.item(reference.row): -1} if reference is not None and reference.named else {}
        for row, model in zip(rows.tolist(), models.take(rows).tolist(), strict=True):
            if reference is None or row != reference.row:
                kept.setdefault(model, row)
        return [row for row in kept.values() if row >= 0][: self.limit]

    def ranked_rows(self, most: int) -> tuple[list[int], bool]:
        """The rows that fit and may be an answer, best first, and whether these are all. A model may have several. At
        most so many are searched for."""
        rows = self.ranking.prepare(self.ranges, most, floor=self.floor, admit=self.mask)()
        others = rows if self.reference is None else rows[self.reference.others(self.view)[rows]]
        return others.tolist(), len(rows) < most

    @cached_property
    def strategy(self) -> Strategy:
        return self.ranking.plan(self.ranges, self.wanted, floor=self.floor, admit=self.mask)


def reference_value(
    query: Query, view: View, reference: Reference | None, metric: ResolvedMetric, relation: RelativeFigures | None
) -> float:
    """The reference's own figure, from which a relative quantity is computed."""
    if reference is None:
        raise ClauseError(
            metric.name,
            f"{metric.name} is asked for relative to a reference, and the query names none.",
            hint="Add CORR and a model's name, or TASK to be given one.",
        )
    if metric.column in WITHOUT_REFERENCE and relation is not None:
        return float(relation.values(metric.column)[reference.row])
    if metric.derived:
        message = (
            f"{metric.name} says how a model compares with the reference: there is not a share of the reference's."
        )
        raise ClauseError(metric.name, message, hint="Write an absolute quantity.")
    if query.exec:
        _check_provenance(query, view, reference, metric)
    value = view.index.columns.value(metric.column, reference.row)
    if not math.isfinite(value):
        raise ClauseError(
            metric.name,
            f"The reference {view.index.rows[reference.row].ref} has no {metric.column}, so no share of it is known.",
            hint="Write an absolute quantity, or measure it with `zoolens eval`.",
        )
    return value


def reference_provenance(view: View, reference: Reference, metric: ResolvedMetric) -> Provenance:
    figure = view.index.rows[reference.row].figures.get(metric.column)
    return Provenance.MEASURED if figure is None else figure.provenance


def _check_provenance(query: Query, view: View, reference: Reference, metric: ResolvedMetric) -> None:
    """Refuse a reference figure that was not measured where EXEC (provenance=measured) is asked for."""
    provenance = reference_provenance(view, reference, metric)
    if provenance is not Provenance.MEASURED and PROVENANCE in dict(query.exec):
        raise ClauseError(
            metric.name,
            f"The reference's {metric.column} is {provenance}, and only what was measured is asked for.",
            hint="Write an absolute quantity, or measure it with `zoolens eval`.",
        )
