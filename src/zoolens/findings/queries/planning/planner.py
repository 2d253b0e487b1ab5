"""From a query and an index to a plan: the reference, every quantity in absolute units, who is a candidate, and the
confidence that each candidate has to meet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from zoolens.base.statistics.binomial import needed_successes
from zoolens.base.store.records import Provenance
from zoolens.findings.queries.language.errors import ClauseError
from zoolens.findings.queries.language.syntax import DEFAULT_ORDER, EQUIVALENCE, Bound, Metric, Order, Query, metrics_of
from zoolens.findings.queries.language.units import UNITS, counted_in, kind_of, units_of
from zoolens.findings.queries.planning.admission import (
    all_pass,
    batch_of,
    exec_rule,
    measured_rules,
    twin_rule,
    where_rule,
)
from zoolens.findings.queries.planning.candidates import Candidates
from zoolens.findings.queries.planning.expression_evaluator import Function
from zoolens.findings.queries.planning.guarantees import Guarantee, agreement_elsewhere, agreement_with
from zoolens.findings.queries.planning.metrics import (
    ACCURACY,
    ACCURACY_DROP,
    ACCURACY_DROP_UPPER,
    ACCURACY_LOWER,
    BOUNDED,
    DERIVED,
    EQUIVALENCE_LEAST,
    EQUIVALENCE_LOWER,
    WITHOUT_REFERENCE,
    ResolvedMetric,
    unaliased,
)
from zoolens.findings.queries.planning.predicates import Predicate, resolve
from zoolens.findings.queries.planning.query_plan import Plan, reference_provenance, reference_value
from zoolens.findings.queries.planning.reference import Reference, find_reference
from zoolens.findings.queries.planning.relative_figures import ELSEWHERE, RelativeFigures
from zoolens.findings.queries.planning.view import View

CONFIDENCE: Final = 0.95  # of bounds that are shown without having been asked for
_AGREEMENT: Final = ResolvedMetric(EQUIVALENCE, EQUIVALENCE, "fraction", derived=True, answers=True)
# With CONFIDENCE: column -> the bound that is meant, the comparisons that it can decide, and how it is written.
_BOUND_OF: Final = {
    EQUIVALENCE: (EQUIVALENCE_LOWER, (">", ">="), "equivalence >= 95%"),
    ACCURACY: (ACCURACY_LOWER, (">", ">="), "accuracy >= 80%"),
    ACCURACY_DROP: (ACCURACY_DROP_UPPER, ("<", "<="), "accuracy_drop <= 2%"),
}
_SIGNED: Final = frozenset({ACCURACY_DROP, ACCURACY_DROP_UPPER})
OFF: Final = "off"
ON: Final = "on"


def make_plan(
    query: Query, view: View, *, functions: Mapping[str, Function] | None = None, elsewhere: View | None = None
) -> Plan:
    """Make the plan of a query. `elsewhere` is the index on the dataset that BOUND names."""
    as_written = query
    batch = batch_of(query)
    query = with_confidence(query, {bound.metric: view.metric(bound.metric, batch) for bound in query.on})
    as_asked = [rule] if (rule := exec_rule(query, view)) else []
    reference = find_reference(query, view, lambda: all_pass(as_asked, len(view)))
    named = {bound.metric: view.metric(bound.metric, batch) for bound in query.on}
    _check(query, named, view)
    for name in query.show:
        # An error that points at it, where it is neither.
        _ = view.is_attribute(name) or view.metric(name, batch)
    clauses = [rule for rule in (twin_rule(query, view), *as_asked, where_rule(query, view)) if rule]
    if query.exec:
        clauses += measured_rules(query, view, _figures_read(query, named, view, batch))
    settled = [
        None if named[bound.metric].answers else _settled(query, bound, named, view, reference) for bound in query.on
    ]
    candidates = Candidates(view, reference, clauses, [predicate for predicate in settled if predicate])
    relation = RelativeFigures(
        view, reference, candidates, lambda: _guarantee(query, view, reference, candidates, named, elsewhere)
    )
    return Plan(
        query=as_written,
        view=view,
        reference=reference,
        clauses=clauses,
        predicates=[
            blind or _settled(query, bound, named, view, reference, relation)
            for blind, bound in zip(settled, query.on, strict=True)
        ],
        within=_within(query, relation),
        orders=query.order or _default_order(query, reference),
        relation=relation,
        functions=functions or {},
        batch=batch,
    )


def with_confidence(query: Query, named: Mapping[str, ResolvedMetric]) -> Query:
    """CONFIDENCE is for every figure made from answers: a bound on one becomes a bound on its confidence bound. What
    has none is refused, and so is a CONFIDENCE that would decide nothing."""
    if query.confidence is None:
        return query
    on = tuple(_confident(bound, named[bound.metric]) for bound in query.on)
    ordered = {unaliased(metric.name) for order in query.order for metric in metrics_of(order.expression)}
    decided = {unaliased(bound.metric) for bound in on} | ordered
    if query.within is None and not decided & BOUNDED and query.bound != OFF:
        raise ClauseError(
            "CONFIDENCE",
            "CONFIDENCE decides nothing here: the query asks for nothing that is made from answers.",
            hint="Add WITHIN 95%, or a bound such as accuracy_drop <= 2% or accuracy >= 80%; or leave CONFIDENCE out.",
        )
    return replace(query, on=on)


def _confident(bound: Bound, metric: ResolvedMetric) -> Bound:
    """Return the bound moved from the figure to its lower or upper confidence bound."""
    if not metric.answers or metric.column in BOUNDED:
        return bound
    if metric.column not in _BOUND_OF:
        raise ClauseError(
            bound.metric,
            f"No confidence bound of {bound.metric} is known, and CONFIDENCE asks for one.",
            hint="Bound accuracy, accuracy_drop or equivalence instead, or leave CONFIDENCE out.",
        )
    name, comparisons, such_as = _BOUND_OF[metric.column]
    if bound.comparison not in comparisons:
        raise ClauseError(
            bound.metric,
            f"CONFIDENCE cannot be had for {bound.metric} {bound.comparison}: only a bound on the safe side is known.",
            hint=f"Write {such_as}, or leave CONFIDENCE out.",
        )
    if bound.quantity.relative:
        raise ClauseError(
            bound.metric,
            f"CONFIDENCE cannot be had for a share of the reference's {bound.metric}, which is itself uncertain.",
            hint="Write accuracy_drop <= 2%, which compares the two on the same inputs.",
        )
    return replace(bound, metric=name)


def _figures_read(
    query: Query, named: Mapping[str, ResolvedMetric], view: View, batch: int
) -> Iterator[ResolvedMetric]:
    """Every metric that decides which candidates fit or how they are ordered."""
    yield from named.values()
    for order in query.order:
        for metric in metrics_of(order.expression):
            if not metric.reference:
                yield view.metric(metric.name, batch)


def _settled(
    query: Query,
    bound: Bound,
    named: Mapping[str, ResolvedMetric],
    view: View,
    reference: Reference | None,
    relation: RelativeFigures | None = None,
) -> Predicate:
    metric = _surely(named[bound.metric], bound.comparison, view)
    if metric.unit and kind_of(bound.metric) is None:
        _check_unit(bound, metric.unit)
    if bound.quantity.value < 0 and kind_of(bound.metric) is not None and metric.column not in _SIGNED:
        message = f"{bound.metric} is never negative, so that no bound below zero makes sense."
        raise ClauseError(bound.metric, message, hint="Write a positive quantity.")
    if not bound.quantity.relative:
        return resolve(bound, metric, None)
    own = reference_value(query, view, reference, metric, relation)
    provenance = Provenance.MEASURED if reference is None else reference_provenance(view, reference, metric)
    return resolve(bound, metric, own, "" if provenance is Provenance.MEASURED else f"which is {provenance}")


def _check_unit(bound: Bound, counted: str) -> None:
    """Refuse a bound whose unit is not that of the metric's column in the index."""
    unit, name = UNITS.get(bound.quantity.unit), bound.metric
    if unit is None:
        return
    wanted = "fraction" if counted == "fraction" else UNITS[counted].kind if counted in UNITS else None
    if wanted == "fraction" and unit.name == "%":
        number = f"{bound.quantity.value:g}"
        message = f"{name} is a fraction itself: a per cent could be of 1 or of the reference's."
        raise ClauseError(name, message, hint=f"Write {number}, or {number}x for a share of the reference's.")
    if wanted is not None and unit.kind not in ("share", "count", wanted):
        message = f"{unit.name} counts {unit.kind}, but {name} is in {counted_in(wanted)}."
        raise ClauseError(name, message, hint=f"Units of {counted_in(wanted)}: {units_of(wanted)}.")


def _guarantee(
    query: Query,
    view: View,
    reference: Reference | None,
    candidates: Candidates,
    named: Mapping[str, ResolvedMetric],
    elsewhere: View | None,
) -> Guarantee | None:
    """Every bound that decides or is shown counts: of each candidate, of each kind, and for each model that might have
    become the reference by its answers. None: there is no bound."""
    kinds = _asked(query, named) & BOUNDED
    kinds |= {EQUIVALENCE_LOWER} if reference is not None else set()
    if query.bound == OFF or not view.counts_answers or not kinds:
        return None
    each = len(kinds) * (reference.among if reference else 1)
    agreement = None
    if reference is not None and elsewhere is not None:
        agreement = agreement_elsewhere(view, reference.row, elsewhere)
    elif reference is not None:
        agreement = agreement_with(view, reference.row)
    return Guarantee(agreement, query.confidence or CONFIDENCE, candidates.comparisons, each, elsewhere is not None)


def _within(query: Query, relation: RelativeFigures) -> Predicate | None:
    if query.within is None:
        return None
    guarantee = None if query.confidence is None else relation.guarantee
    if guarantee is None or guarantee.agreement is None:
        return Predicate(_surely(_AGREEMENT, ">=", relation.view), ">=", query.within)
    agreement = guarantee.agreement
    needed = needed_successes(agreement.n, query.within, guarantee.alpha)
    if needed is None:
        among = f"for one of {guarantee.comparisons:,} comparisons " if guarantee.comparisons > 1 else ""
        raise ClauseError(
            "WITHIN",
            f"Even {agreement.n:,} equal answers to {agreement.n:,} inputs of {agreement.dataset} would not show an "
            f"agreement of {100 * query.within:g} % {among}with {100 * guarantee.confidence:g} % confidence.",
            hint="Use more probe inputs, ask for less agreement, or narrow the candidates by ON and WHERE.",
        )
    metric = ResolvedMetric(f"equivalence on {agreement.dataset}", ELSEWHERE, "fraction", True, True)
    note = f"{needed:,} of {agreement.n:,} inputs, so that the lower bound is at least {100 * query.within:g} %"
    return Predicate(metric if guarantee.elsewhere else _AGREEMENT, ">=", needed / agreement.n, note=note)


def _surely(metric: ResolvedMetric, comparison: str, view: View) -> ResolvedMetric:
    """What a bound from below asks of, and one number that an agreement is to be: the least that it can be."""
    if metric.column != EQUIVALENCE or comparison not in (">", ">=", "=") or view.agreement_is_exact:
        return metric
    return replace(metric, name=EQUIVALENCE_LEAST, column=EQUIVALENCE_LEAST)


def _default_order(query: Query, reference: Reference | None) -> tuple[Order, ...]:
    """Orders by equivalence where there is a reference, else by the first metric that is bounded, the better end
    first."""
    if reference is not None:
        return DEFAULT_ORDER
    if not query.on:
        return ()
    first = query.on[0]
    return (Order(Metric(first.metric), descending=first.comparison in (">", ">=")),)


def _asked(query: Query, named: Mapping[str, ResolvedMetric]) -> set[str]:
    """The metrics computed from answers that the query bounds or orders by."""
    asked = {metric.column for metric in named.values() if metric.derived}
    if query.order:
        ordered = {metric.name for order in query.order for metric in metrics_of(order.expression)}
        asked |= {unaliased(name) for name in ordered} & DERIVED.keys()
    return asked


def _check(query: Query, named: Mapping[str, ResolvedMetric], view: View) -> None:
    asked = _asked(query, named)
    if query.reference is None and query.task is None:
        relative = sorted(asked - WITHOUT_REFERENCE)
        if query.within is not None or relative:
            what = relative[0] if relative else "WITHIN"
            raise ClauseError(
                what,
                f"{what} is relative to a reference, and the query names none.",
                hint="Add CORR and a model's name, or TASK to be given one.",
            )
    promised = ["CONFIDENCE"] if query.confidence is not None else sorted(asked & BOUNDED)
    if not promised:
        return
    if query.bound == OFF:
        message = f"{promised[0]} needs a bound, and BOUND OFF leaves none."
        raise ClauseError("BOUND", message, hint=f"Remove BOUND OFF or {promised[0]}.")
    if not view.counts_answers:
        raise ClauseError(
            promised[0],
            "Confidence is about how many answers are equal, and answers of this task agree in part.",
            hint=f"Leave {promised[0]} out. `zoolens equiv` bounds the agreement of two models of any task.",
        )
