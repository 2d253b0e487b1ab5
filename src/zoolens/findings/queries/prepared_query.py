"""Prepared queries: everything settled beforehand, so that running one is a search and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter

from zoolens.base.present.results import Result
from zoolens.findings.queries.answers.explanation import explain
from zoolens.findings.queries.answers.query_answers import Answer
from zoolens.findings.queries.language.keyword_arguments import whole_limit
from zoolens.findings.queries.planning.query_plan import Plan


@dataclass(frozen=True, repr=False)
class PreparedQuery(Result):
    """Run it as often as you like. It answers from the index as it was when prepared."""

    plan: Plan
    timings: Mapping[str, float] = field(default_factory=dict)  # of the steps before

    def run(self, *, limit: int | None = None) -> Answer:
        prepared = self if limit is None or limit == self.plan.limit else self._limited(limit)
        _ = prepared.plan.search  # settled before the clock starts
        begun = perf_counter()
        rows = prepared.plan.best_rows()
        return Answer(prepared.plan, rows, {**self.timings, "search": perf_counter() - begun})

    def explain(self) -> str:
        """The text that EXPLAIN gives, without running the query."""
        return explain(self.plan)

    def _limited(self, limit: int) -> PreparedQuery:
        query = replace(self.plan.query, limit=whole_limit("limit", limit))
        return PreparedQuery(replace(self.plan, query=query), self.timings)
