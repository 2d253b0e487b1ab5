"""Prepared queries: everything settled beforehand, so that running one is a search and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from zoolens.queries.answers import Answer
from zoolens.queries.explanation import explain
from zoolens.queries.keywordarguments import whole_limit
from zoolens.queries.plan import Plan


@dataclass(frozen=True)
class PreparedQuery:
    """Run it as often as you like. It answers from the index as it was when prepared."""

    plan: Plan
    timings: Mapping[str, float] = field(default_factory=dict)  # of the steps before

    def run(self, *, limit: int | None = None) -> Answer:
        prepared = self if limit is None or limit == self.plan.limit else self._limited(limit)
        search = prepared.plan.search
        begun = perf_counter()
        rows = prepared._distinct(search())
        return Answer(prepared.plan, rows, {**self.timings, "search": perf_counter() - begun})

    def explain(self) -> str:
        """The text that EXPLAIN gives, without running the query."""
        return explain(self.plan)

    def _limited(self, limit: int) -> PreparedQuery:
        query = replace(self.plan.query, limit=whole_limit("limit", limit))
        return PreparedQuery(replace(self.plan, query=query), self.timings)

    def _distinct(self, rows: NDArray[np.int64]) -> list[int]:
        """The first row of each model but the reference's, as many as are wanted."""
        plan = self.plan
        models = plan.view.models
        kept = {} if plan.reference is None else {models.item(plan.reference.row): -1}
        for row, model in zip(rows.tolist(), models.take(rows).tolist(), strict=True):
            kept.setdefault(model, row)
        return [row for row in kept.values() if row >= 0][: plan.limit]
