"""Rules that admit rows to a query whatever its ON clause says: EXEC, WHERE, and which rows are never candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

import numpy as np

from zoolens.findings.queries.language.errors import ClauseError, UnknownQueryName
from zoolens.findings.queries.language.syntax import AllOf, Comparison, Query
from zoolens.findings.queries.language.unparser import condition_text
from zoolens.findings.queries.planning.condition_evaluator import COMMON, attributes_of
from zoolens.findings.queries.planning.metrics import DERIVED, ResolvedMetric, unaliased
from zoolens.findings.queries.planning.reference import Reference
from zoolens.findings.queries.planning.view import Mask, View

BATCH: Final = "batch"
PROVENANCE: Final = "provenance"
_EXEC_KEYS: Final = frozenset({
    "batch", "cpu", "device", "element_type", "mode", "precision", "provenance", "runtime", "runtime_version",
    "threads",
})  # fmt: skip


@dataclass(frozen=True)
class AdmissionRule:
    """The rows that pass one clause. `clause`: part of the query, so that a row that fails it alone may be worth
    telling; otherwise it says who is no candidate at all."""

    text: str
    make: Callable[[], Mask]
    clause: bool = True
    decides: bool = True  # False: a row that fails it was not judged, which does not say that it does not fit
    looks_at_answers: bool = False  # then it does not say who is a candidate: those are counted before answers are seen

    @cached_property
    def passes(self) -> Mask:
        return self.make()


def batch_of(query: Query) -> int:
    if not query.exec:
        return 1
    text = dict(query.exec).get(BATCH, "1")
    if not text.isascii() or not text.isdigit() or not int(text):
        raise ClauseError(BATCH, f"The batch size is {text!r}.", hint="Write a whole number: EXEC (batch=8).")
    return int(text)


def exec_rule(query: Query, view: View) -> AdmissionRule | None:
    """Runtime, device and the like; the batch chooses figures instead of rows."""
    if not query.exec:
        return None
    _check_keys(query)
    terms = tuple(Comparison(key, "=", value) for key, value in query.exec if key not in (BATCH, PROVENANCE))
    if not terms:
        return None
    text = ", ".join(f"{term.attribute}={term.value}" for term in terms)
    return AdmissionRule(f"EXEC ({text})", partial(view.where, AllOf(terms)))


def where_rule(query: Query, view: View) -> AdmissionRule | None:
    if query.where is None:
        return None
    batch = batch_of(query)
    figures = [_checked(name, view, batch) for name in attributes_of(query.where) if not view.is_attribute(name)]
    late = [metric.name for metric in figures if metric.answers]
    if late and query.confidence is not None:
        message = f"CONFIDENCE cannot be had for {late[0]} in WHERE."
        raise ClauseError(late[0], message, hint=f"Write ON {late[0]} >= …, which is bounded, or leave CONFIDENCE out.")
    text = f"WHERE {condition_text(query.where)}"
    return AdmissionRule(text, partial(view.where, query.where, batch), looks_at_answers=bool(late))


def measured_rules(query: Query, view: View, metrics: Iterable[ResolvedMetric]) -> Iterator[AdmissionRule]:
    """EXEC (provenance=measured): neither claims nor estimates count, of what is bounded or ordered by."""
    asked = dict(query.exec).get(PROVENANCE)
    if asked is None:
        return
    if asked != "measured":
        message = f"The provenance {asked!r} cannot be asked for."
        raise ClauseError(PROVENANCE, message, hint="Write EXEC (provenance=measured).")
    for metric in {metric.column: metric for metric in metrics if not metric.derived}.values():
        yield AdmissionRule(f"{metric.name} was measured", partial(view.measured, metric.column))


def twin_rule(query: Query, view: View) -> AdmissionRule | None:
    """Exclude stitched models unless the query asks for them with SEGMENTS."""
    if query.segments or not view.has_twins:
        return None
    return AdmissionRule("no stitched models", lambda: ~view.twins, clause=False)


def reference_rules(view: View, reference: Reference | None) -> tuple[AdmissionRule, ...]:
    """Exclude the reference and models without answers on the probes; a search by equivalence excludes them too."""
    if reference is None:
        return ()
    row = reference.row
    return (
        AdmissionRule("not the reference itself", lambda: reference.others(view), clause=False),
        AdmissionRule(
            "answered the probes, in the same classes",
            lambda: ~np.isnan(view.agreement(row)),
            clause=False,
            decides=False,
        ),
    )


def all_pass(rules: Iterable[AdmissionRule], rows: int) -> Mask:
    passing = np.ones(rows, np.bool_)
    for rule in rules:
        passing &= rule.passes
    return passing


def _check_keys(query: Query) -> None:
    for key, _ in query.exec:
        if key not in _EXEC_KEYS:
            raise UnknownQueryName("setting of EXEC", key, _EXEC_KEYS)


def _checked(name: str, view: View, batch: int) -> ResolvedMetric:
    """The figure that a name in WHERE stands for."""
    if unaliased(name) in DERIVED:
        message = f"{name} compares a model with the reference, which WHERE does not look at."
        raise ClauseError(name, message, hint=f"Write ON {name} … instead of WHERE.")
    try:
        return view.metric(name, batch)
    except UnknownQueryName:
        known = {column.partition("@")[0] for column in view.units}
        if unaliased(name).partition("@")[0] in known:
            raise
        raise UnknownQueryName("attribute or figure", name, COMMON | view.attributes.names | known) from None
