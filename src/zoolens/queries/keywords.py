"""Queries from Python keywords: what text says in clauses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from zoolens.errors import ZoolensError
from zoolens.queries.budgets import keyword_bounds
from zoolens.queries.parsing import parse_condition, parse_orders
from zoolens.queries.syntax import EQUIVALENCE, Query
from zoolens.queries.units import quantity


def with_keywords(query: Query, given: Mapping[str, Any], metrics: Mapping[str, Any]) -> Query:
    """A query with further clauses, by the names of its fields. Bounds are added, anything else takes the place of what
    was there; None stands for nothing given."""
    fields = {name: _READERS.get(name, _as_it_is)(name, value) for name, value in given.items() if value is not None}
    bounds = tuple(bound for metric, value in metrics.items() for bound in keyword_bounds(metric, value))
    asked = replace(query, **fields, on=query.on + bounds)
    if not (asked.reference or asked.task or asked.where or asked.on or asked.order):
        raise ZoolensError(
            "The query does not say what to look for.",
            hint="Name a reference (ref=), a task (task=), a bound such as memory='200 MB', where= or order_by=.",
        )
    return asked


def _as_it_is(name: str, value: Any) -> Any:
    return value


def _share(name: str, value: Any) -> float:
    found = quantity(value if isinstance(value, str) else float(value), EQUIVALENCE).value
    if not 0 <= found <= 1 or (name == "confidence" and found in (0, 1)):
        raise ZoolensError(f"{name}={value!r} is no share.", hint=f'Write {name}="95%" or {name}=0.95.')
    return found


def _limit(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ZoolensError(f"{name}={value!r} is not a whole number from 1 on.", hint=f"Write {name}=5.")
    return value


def _condition(name: str, value: Any) -> Any:
    return parse_condition(value) if isinstance(value, str) else value


def _orders(name: str, value: Any) -> Any:
    return parse_orders(value) if isinstance(value, str) else tuple(value)


def _pairs(name: str, value: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((key, str(one)) for key, one in value.items())


_READERS = {
    "within": _share, "confidence": _share, "limit": _limit, "where": _condition, "order": _orders, "exec": _pairs,
}  # fmt: skip
