"""EXPLAIN: how a query is answered, in words. EXPLAIN ANALYZE: what it took, and who was nearly chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np

from zoolens.findings.queries.answers.matches import Match
from zoolens.findings.queries.answers.wording import amount, predicate_words
from zoolens.findings.queries.language.unparser import order_text, to_text
from zoolens.findings.queries.planning.predicates import Predicate
from zoolens.findings.queries.planning.query_plan import Plan
from zoolens.findings.queries.planning.view import Mask

Timings = Mapping[str, float]  # step -> seconds

_STRATEGIES: Final = {
    "nothing": "no row can satisfy it: a range is empty, or the least score is out of reach",
    "prefix": "the best rows as they stand",
    "scan": "in order of score until enough rows are found",
    "gather": "all rows of the most selective range, the best of them picked",
}


def explain(plan: Plan) -> str:
    """The plan as a tree."""
    return "\n".join([to_text(plan.query), *_branches([*_plan_parts(plan)])])


def explain_analyze(plan: Plan, rows: int, misses: Sequence[Match], timings: Timings) -> str:
    """The plan as a tree, with what happened: the number of rows found, where the time went, and the near misses."""
    parts = [*_plan_parts(plan), _funnel(plan), _times(plan, timings, rows), _missed(plan, misses)]
    return "\n".join([to_text(plan.query), *_branches(parts)])


Part = tuple[str, Sequence[str]]  # a line, and those below it


def _branches(parts: Sequence[Part]) -> Iterator[str]:
    for i, (head, below) in enumerate(parts):
        last = i == len(parts) - 1
        yield f"{'└─' if last else '├─'} {head}"
        for j, line in enumerate(below):
            yield f"{'  ' if last else '│ '} {'└─' if j == len(below) - 1 else '├─'} {line}"


def _plan_parts(plan: Plan) -> Iterator[Part]:
    yield _reference(plan), ()
    yield f"probes: {plan.view.probes:,} inputs of {plan.view.dataset}", ()
    blind, seeing = _blind_first(plan)
    left_out_by = [*(rule.text for rule in plan.rules), *map(predicate_words, blind)]
    yield f"candidates: {plan.candidates:,} of {len(plan.view):,} rows", left_out_by
    yield "answers on the probes", [*map(predicate_words, seeing)] or ["no bounds"]
    if plan.guarantee is not None and plan.guarantee.agreement is not None:
        yield _confidence(plan), ()
    yield _order(plan), ()
    yield _search(plan)


def _blind_first(plan: Plan) -> tuple[list[Predicate], list[Predicate]]:
    """The predicates that do not look at answers and so decide who is a candidate, and those that look at answers."""
    blind = [predicate for predicate in plan.everything if not predicate.metric.answers]
    return blind, [predicate for predicate in plan.everything if predicate.metric.answers]


def _reference(plan: Plan) -> str:
    if plan.reference is None:
        return "no reference: resources only"
    row = plan.view.index.rows[plan.reference.row]
    line = f"reference: {row.ref}" + (f" in {row.runtime}" if row.runtime else "")
    among = plan.reference.among
    return line + (f", the most accurate of {among:,} rows" if plan.query.reference is None else "")


def _confidence(plan: Plan) -> str:
    guarantee = plan.guarantee
    assert guarantee is not None
    assert guarantee.agreement is not None
    line = f"bounds: Clopper–Pearson, {amount(guarantee.confidence, 'fraction')} confidence"
    if guarantee.comparisons > 1:
        line += f" for all {guarantee.comparisons:,} comparisons together (α = {guarantee.alpha:.2g} for each)"
    source = guarantee.agreement
    return line + (f", from {source.n:,} inputs of {source.dataset}" if guarantee.elsewhere else "")


def _order(plan: Plan) -> str:
    orders = ", ".join(order_text(order) for order in plan.orders) or "as indexed"
    return f"order: {orders}; the best row of each model; at most {plan.limit:,}"


def _search(plan: Plan) -> Part:
    search = plan.strategy
    shares = [f"{column}: {100 * share:.3g} % of rows expected" for column, share in search.shares.items()]
    return f"search: {_STRATEGIES[search.strategy]} (about {search.touched:,} rows touched)", shares


def _funnel(plan: Plan) -> Part:
    """How many rows are left after each condition."""
    lines = [f"{step.left:,} after {step.condition} (alone: {step.alone:,})" for step in funnel(plan)]
    return f"rows left, of {len(plan.view):,}", lines or ["no conditions"]


@dataclass(frozen=True)
class FunnelStep:
    """One condition of a query, with the rows that it leaves."""

    condition: str
    left: int  # rows that pass it and all conditions before it
    alone: int  # rows that pass it
    only: int  # rows that fail nothing else: the query without it would have them


def funnel(plan: Plan) -> list[FunnelStep]:
    """The conditions of a query in the order in which EXPLAIN tells them, with how many rows each leaves."""
    conditions = list(_conditions(plan))
    failed = np.zeros(len(plan.view), np.int64)
    for _, passes in conditions:
        failed += ~passes
    left: Mask = np.ones(len(plan.view), np.bool_)
    steps = []
    for text, passes in conditions:
        left = left & passes
        only = int(np.count_nonzero(~passes & (failed == 1)))
        steps.append(FunnelStep(text, int(left.sum()), int(passes.sum()), only))
    return steps


def _conditions(plan: Plan) -> Iterator[tuple[str, Mask]]:
    for rule in plan.rules:
        yield rule.text, rule.passes
    for predicate in chain(*_blind_first(plan)):
        yield predicate_words(predicate), predicate.passes(plan.values(predicate.metric))


def _times(plan: Plan, timings: Timings, rows: int) -> Part:
    lines = [f"{step}: {1e3 * seconds:.3f} ms" for step, seconds in timings.items()]
    return f"ran: {rows:,} models returned, {_walked(plan)}", lines


def _walked(plan: Plan) -> str:
    """How far down the order the rows were found."""
    if plan.strategy.strategy in ("nothing", "gather"):
        return "without going through the order"
    search = plan.search
    rows = search()
    window = search.end - search.begin
    if len(rows) == search.limit:
        window = int(np.flatnonzero(search.order == rows[-1])[0]) - search.begin + 1
    return f"{window:,} rows down the order"


def _missed(plan: Plan, misses: Sequence[Match]) -> Part:
    lines = [f"{_named(miss)}: {'; '.join(why.sentence for why in miss.rejections)}" for miss in misses]
    return "near misses", lines or ["none: every candidate fits" if plan.admitted.any() else "none: no candidate"]


def _named(match: Match) -> str:
    return match.ref + (f" in {match.runtime}" if match.runtime else "")
