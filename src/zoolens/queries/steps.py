"""The clauses that a row passes or not, whatever its figures: EXEC, WHERE, and who is no candidate at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

import numpy as np

from zoolens.queries.attributes import COMMON
from zoolens.queries.filters import attributes_of
from zoolens.queries.metrics import DERIVED, Meaning, unaliased
from zoolens.queries.misnamed import About, Misnamed
from zoolens.queries.printing import condition_text
from zoolens.queries.reference import Reference
from zoolens.queries.syntax import AllOf, Match, Query
from zoolens.queries.view import Mask, View

BATCH: Final = "batch"
PROVENANCE: Final = "provenance"
_EXEC_KEYS: Final = frozenset({
    "batch", "cpu", "device", "element_type", "mode", "precision", "provenance", "runtime", "runtime_version",
    "threads",
})  # fmt: skip


@dataclass(frozen=True)
class Step:
    """Who passes one clause. `clause`: part of the query, so that a row that fails it alone may be worth telling;
    otherwise it says who is no candidate at all."""

    text: str
    make: Callable[[], Mask]
    clause: bool = True
    looks_at_answers: bool = False  # then it does not say who is a candidate: those are counted before answers are seen

    @cached_property
    def passes(self) -> Mask:
        return self.make()


def batch_of(query: Query) -> int:
    if not query.exec:
        return 1
    text = dict(query.exec).get(BATCH, "1")
    if not text.isascii() or not text.isdigit() or not int(text):
        raise About(BATCH, f"The batch size is {text!r}.", hint="Write a whole number: EXEC (batch=8).")
    return int(text)


def exec_step(query: Query, view: View) -> Step | None:
    """Runtime, device and the like; the batch chooses figures instead of rows."""
    if not query.exec:
        return None
    _check_keys(query)
    terms = tuple(Match(key, "=", value) for key, value in query.exec if key not in (BATCH, PROVENANCE))
    if not terms:
        return None
    text = ", ".join(f"{term.attribute}={term.value}" for term in terms)
    return Step(f"EXEC ({text})", partial(view.where, AllOf(terms)))


def where_step(query: Query, view: View) -> Step | None:
    if query.where is None:
        return None
    batch = batch_of(query)
    figures = [_checked(name, view, batch) for name in attributes_of(query.where) if not view.is_attribute(name)]
    late = [one.name for one in figures if one.answers]
    if late and query.confidence is not None:
        message = f"CONFIDENCE cannot be had for {late[0]} in WHERE."
        raise About(late[0], message, hint=f"Write ON {late[0]} >= …, which is bounded, or leave CONFIDENCE out.")
    text = f"WHERE {condition_text(query.where)}"
    return Step(text, partial(view.where, query.where, batch), looks_at_answers=bool(late))


def measured_steps(query: Query, view: View, metrics: Iterable[Meaning]) -> Iterator[Step]:
    """EXEC (provenance=measured): neither claims nor estimates count, of what is bounded or ordered by."""
    asked = dict(query.exec).get(PROVENANCE)
    if asked is None:
        return
    if asked != "measured":
        message = f"The provenance {asked!r} cannot be asked for."
        raise About(PROVENANCE, message, hint="Write EXEC (provenance=measured).")
    for metric in {metric.column: metric for metric in metrics if not metric.derived}.values():
        yield Step(f"{metric.name} was measured", partial(view.measured, metric.column))


def twin_step(query: Query, view: View) -> Step | None:
    """Twins are no candidates unless they are asked for."""
    if query.segments or not view.has_twins:
        return None
    return Step("no synthesised twins", lambda: ~view.twins, clause=False)


def reference_steps(view: View, reference: Reference | None) -> tuple[Step, ...]:
    """Nor are the reference itself and who did not answer the probes: a search by equivalence leaves them out too."""
    if reference is None:
        return ()
    row = reference.row
    return (
        Step("not the reference itself", lambda: view.models != view.models[row], clause=False),
        Step("answered the probes, in the same classes", lambda: ~np.isnan(view.agreement(row)), clause=False),
    )


def all_pass(steps: Iterable[Step], rows: int) -> Mask:
    found = np.ones(rows, np.bool_)
    for step in steps:
        found &= step.passes
    return found


def _check_keys(query: Query) -> None:
    for key, _ in query.exec:
        if key not in _EXEC_KEYS:
            raise Misnamed("setting of EXEC", key, _EXEC_KEYS)


def _checked(name: str, view: View, batch: int) -> Meaning:
    """The figure that a name in WHERE stands for."""
    if unaliased(name) in DERIVED:
        message = f"{name} compares a model with the reference, which WHERE does not look at."
        raise About(name, message, hint=f"Write ON {name} … instead of WHERE.")
    try:
        return view.meaning(name, batch)
    except Misnamed:
        known = {column.partition("@")[0] for column in view.units}
        if unaliased(name).partition("@")[0] in known:
            raise
        raise Misnamed("attribute or figure", name, COMMON | view.attributes.names | known) from None
