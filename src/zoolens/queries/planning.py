"""From a query and an index to a plan: the reference, every quantity in absolute units, who is a candidate, and the
confidence that each candidate has to meet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zoolens.equivalence.bounds import needed_successes
from zoolens.errors import ZoolensError
from zoolens.queries.candidates import Candidates
from zoolens.queries.guarantees import Guarantee, agreement_elsewhere, agreement_with
from zoolens.queries.metrics import ALIASES, BOUNDED, DERIVED, EQUIVALENCE_LOWER, WITHOUT_REFERENCE, Meaning, meaning
from zoolens.queries.ordering import Function
from zoolens.queries.plan import Plan, reference_value
from zoolens.queries.predicates import Predicate, resolve
from zoolens.queries.reference import Reference, find_reference
from zoolens.queries.relation import ELSEWHERE, Relation
from zoolens.queries.steps import all_pass, batch_of, candidate_steps, exec_step, measured_steps, where_step
from zoolens.queries.syntax import (
    DEFAULT_ORDER,
    EQUIVALENCE,
    Bound,
    Metric,
    Order,
    Query,
    metrics_of,
)
from zoolens.queries.view import View

CONFIDENCE: Final = 0.95  # of bounds that are shown without having been asked for
OFF: Final = "off"
ON: Final = "on"


def make_plan(
    query: Query, view: View, *, functions: Mapping[str, Function] | None = None, elsewhere: View | None = None
) -> Plan:
    """`elsewhere`: the index on the dataset that BOUND names."""
    batch = batch_of(query)
    as_asked = [step for step in (exec_step(query, view),) if step]
    reference = find_reference(query, view, lambda: all_pass(as_asked, len(view)))
    named = {bound.metric: meaning(bound.metric, view.units, batch) for bound in query.on}
    _check(query, named, view)
    steps = (
        *candidate_steps(query, view, reference),
        *as_asked,
        *(step for step in (where_step(query, view),) if step),
        *measured_steps(query, view, named.values()),
    )
    blind = {
        bound: _settled(bound, named, view, reference, None) for bound in query.on if not named[bound.metric].answers
    }
    candidates = Candidates(view, steps, tuple(blind.values()))
    relation = Relation(
        view, reference, candidates, lambda: _guarantee(query, view, reference, candidates, named, elsewhere)
    )
    return Plan(
        query=query,
        view=view,
        reference=reference,
        steps=steps,
        predicates=tuple(blind.get(bound) or _settled(bound, named, view, reference, relation) for bound in query.on),
        within=_within(query, relation),
        orders=query.order or _default_order(query, reference),
        relation=relation,
        functions=functions or {},
        batch=batch,
    )


def _settled(
    bound: Bound,
    named: Mapping[str, Meaning],
    view: View,
    reference: Reference | None,
    relation: Relation | None,
) -> Predicate:
    metric = named[bound.metric]
    own = reference_value(view, reference, metric, relation) if bound.quantity.relative else None
    return resolve(bound, metric, own)


def _guarantee(
    query: Query,
    view: View,
    reference: Reference | None,
    candidates: Candidates,
    named: Mapping[str, Meaning],
    elsewhere: View | None,
) -> Guarantee | None:
    """Every bound that may decide counts: of each candidate, of each kind, and for each model that might have become
    the reference by its answers."""
    if query.bound == OFF or not view.counts_answers:
        return None
    kinds = {metric.column for metric in named.values()} & BOUNDED
    kinds |= {EQUIVALENCE_LOWER} if query.within is not None else set()
    each = max(1, len(kinds)) * (reference.among if reference else 1)
    agreement = None
    if reference is not None and elsewhere is not None:
        agreement = agreement_elsewhere(view, reference.row, elsewhere)
    elif reference is not None:
        agreement = agreement_with(view, reference.row)
    return Guarantee(agreement, query.confidence or CONFIDENCE, candidates.count, each, elsewhere is not None)


def _within(query: Query, relation: Relation) -> Predicate | None:
    if query.within is None:
        return None
    measured = Meaning(EQUIVALENCE, EQUIVALENCE, "fraction", derived=True, answers=True)
    guarantee = None if query.confidence is None else relation.guarantee
    if guarantee is None or guarantee.agreement is None:
        return Predicate(measured, ">=", query.within)
    agreement = guarantee.agreement
    needed = needed_successes(agreement.n, query.within, guarantee.alpha)
    if needed is None:
        raise ZoolensError(
            f"Even {agreement.n:,} equal answers to {agreement.n:,} inputs of {agreement.dataset} would not show an "
            f"agreement of {100 * query.within:g} % for one of {guarantee.comparisons:,} comparisons with "
            f"{100 * guarantee.confidence:g} % confidence.",
            hint="Use more probe inputs, ask for less agreement, or narrow the candidates by ON and WHERE.",
        )
    metric = Meaning(f"equivalence on {agreement.dataset}", ELSEWHERE, "fraction", True, True)
    note = f"{needed:,} of {agreement.n:,} inputs, so that the lower bound is at least {100 * query.within:g} %"
    return Predicate(metric if guarantee.elsewhere else measured, ">=", needed / agreement.n, note=note)


def _default_order(query: Query, reference: Reference | None) -> tuple[Order, ...]:
    """By equivalence where there is a reference, else by the first metric that is bounded, the better end first."""
    if reference is not None:
        return DEFAULT_ORDER
    if not query.on:
        return ()
    first = query.on[0]
    return (Order(Metric(first.metric), descending=first.comparison in (">", ">=")),)


def _check(query: Query, named: Mapping[str, Meaning], view: View) -> None:
    asked = {metric.column for metric in named.values()}
    ordered = {metric.name for order in query.order for metric in metrics_of(order.expression)}
    asked |= {ALIASES.get(name, name) for name in ordered} & DERIVED.keys()
    if query.reference is None and query.task is None:
        relative = [name for name in sorted(asked) if name in DERIVED and name not in WITHOUT_REFERENCE]
        if query.within is not None or relative:
            what = relative[0] if relative else "WITHIN"
            raise ZoolensError(
                f"{what} is relative to a reference, and the query names none.",
                hint="Add CORR and a model's name, or TASK to be given one.",
            )
    if query.bound == OFF and asked & BOUNDED:
        raise ZoolensError(f"BOUND OFF leaves no {sorted(asked & BOUNDED)[0]} to ask for.", hint="Leave BOUND OFF out.")
    if not view.counts_answers and (query.confidence is not None or asked & BOUNDED):
        raise ZoolensError(
            "Confidence is about how many answers are equal, and the models of this task answer in vectors.",
            hint="Leave CONFIDENCE out: equivalence is then 1 less the mean relative distance.",
        )
