"""Near misses: the models that come nearest without fitting, and what rejects each of them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.findings.queries.answers.matches import Match, Rejection, figure_of, match_of
from zoolens.findings.queries.answers.wording import mark, predicate_words, rejection_words
from zoolens.findings.queries.language.syntax import EQUIVALENCE
from zoolens.findings.queries.planning.admission import all_pass
from zoolens.findings.queries.planning.candidates import twins_not_made
from zoolens.findings.queries.planning.guarantees import Guarantee
from zoolens.findings.queries.planning.predicates import Predicate
from zoolens.findings.queries.planning.query_plan import Plan
from zoolens.findings.queries.planning.view import Mask, Values

COUNT: Final = 5


def near_misses(plan: Plan, count: int = COUNT) -> tuple[Match, ...]:
    """Models of which no row fits, by the worst violation of their best row, those with unknown figures last. Of
    equals the one first that answers most like the reference.

    Rows that EXEC or WHERE leaves out come in only where these leave nobody.
    """
    models = plan.view.models
    rows = np.flatnonzero(considered_rows(plan) & ~np.isin(models, models[plan.fitting]))
    order = rows[np.lexsort((rows, _unlike(plan)[rows], _worst(plan)[rows], _clauses_failed(plan)[rows]))]
    chosen, guarantee = _one_per_model(plan, order, count), wider_guarantee(plan)
    return tuple(match_of(plan, row, guarantee, _rejections(plan, row)) for row in chosen)


def wider_guarantee(plan: Plan) -> Guarantee | None:
    """The guarantee for bounds of near misses, which are chosen among more rows than the query's candidates."""
    guarantee = plan.guarantee
    if guarantee is None:
        return None
    rows = considered_rows(plan)
    return replace(guarantee, candidates=int(rows.sum()) + twins_not_made(plan.view, rows))


def considered_rows(plan: Plan) -> Mask:
    if plan.admitted.any():
        return plan.admitted
    return all_pass([rule for rule in plan.rules if not rule.clause], len(plan.view))


def _worst(plan: Plan) -> Values:
    worst = np.zeros(len(plan.view))
    for predicate in plan.everything:
        violation = predicate.violation(plan.values(predicate.metric))
        worst = np.maximum(worst, np.where(np.isnan(violation), np.inf, violation))
    return worst


def _unlike(plan: Plan) -> Values:
    return np.zeros(len(plan.view)) if plan.reference is None else -plan.relation.values(EQUIVALENCE)


def _clauses_failed(plan: Plan) -> Values:
    failed = np.zeros(len(plan.view))
    for rule in plan.rules:
        failed += ~rule.passes
    return failed


def _one_per_model(plan: Plan, order: NDArray[np.int64], count: int) -> list[int]:
    kept: dict[int, int] = {}
    for row in order:
        kept.setdefault(int(plan.view.models[row]), int(row))
        if len(kept) == count:
            break
    return list(kept.values())


def _rejections(plan: Plan, row: int) -> tuple[Rejection, ...]:
    clauses = [
        Rejection(rule.text, None, None, "", None, f"{rule.text} does not hold")
        for rule in plan.rules
        if not rule.passes[row]
    ]
    figures = [_rejection(plan, predicate, row) for predicate in plan.everything]
    return (*clauses, *(rejection for rejection in figures if rejection is not None))


def _rejection(plan: Plan, predicate: Predicate, row: int) -> Rejection | None:
    value = float(plan.values(predicate.metric)[row])
    by = float(predicate.violation(np.array([value]))[0])
    if by == 0:
        return None
    known = value if math.isfinite(value) else None
    distance = by if math.isfinite(by) and predicate.has_scale else None
    return Rejection(
        predicate=predicate_words(predicate),
        value=known,
        threshold=predicate.threshold,
        unit=predicate.metric.unit,
        by=distance,
        sentence=rejection_words(predicate, known, distance, mark(figure_of(plan, predicate.metric, row))),
    )
