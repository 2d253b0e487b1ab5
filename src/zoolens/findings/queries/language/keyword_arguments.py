"""Queries from Python keywords: what text says in clauses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import index
from typing import Any

from zoolens.base.errors import ZoolensError
from zoolens.findings.queries.language.bound_parser import keyword_bounds
from zoolens.findings.queries.language.errors import QueryError
from zoolens.findings.queries.language.identifiers import folded
from zoolens.findings.queries.language.parser import MOST_MODELS, NOTHING_ASKED, parse_condition, parse_orders
from zoolens.findings.queries.language.quantities import quantity
from zoolens.findings.queries.language.syntax import EQUIVALENCE, Condition, Order, Query


def with_keywords(query: Query, given: Mapping[str, Any], metrics: Mapping[str, Any]) -> Query:
    """A query with further clauses, by the names of its fields. Bounds are added, anything else takes the place of what
    was there; None stands for nothing given."""
    fields = {name: _READERS.get(name, _as_it_is)(name, value) for name, value in given.items() if value is not None}
    bounds = tuple(bound for metric, value in metrics.items() for bound in keyword_bounds(folded(metric), value))
    asked = replace(query, **fields, on=query.on + bounds) if fields or bounds else query
    if not (asked.reference or asked.task or asked.where or asked.on or asked.order):
        message, hint = NOTHING_ASKED
        raise ZoolensError(message, hint=hint)
    return asked


def _as_it_is(name: str, value: Any) -> Any:
    return value


def _name(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        keyword, example = _CALLED[name]
        raise ZoolensError(f"{keyword}={value!r} is not a name.", hint=f"Write {keyword}={example!r}.")
    return value


_CALLED = {"reference": ("ref", "resnet50"), "task": ("task", "classification"), "data": ("data", "imagenet-val"),
           "bound": ("bound", "off")}  # fmt: skip


def _names(name: str, value: Any) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, Sequence) or not all(isinstance(text, str) and text.strip() for text in names):
        raise ZoolensError(f"{name}={value!r} are not names.", hint='Write show=["memory", "latency", "zoo"].')
    return tuple(dict.fromkeys(folded(text.strip()) for text in names))


def _explain(name: str, value: Any) -> str:
    if value not in ("plan", "analyze"):
        raise ZoolensError(f"explain={value!r} is not known.", hint='Write explain="plan" or explain="analyze".')
    return str(value)


def _share(name: str, value: Any) -> float:
    try:
        share = quantity(value if isinstance(value, str) else float(value), EQUIVALENCE)
    except QueryError:
        share = None
    if share is None or share.relative or not 0 <= share.value <= 1 or (name == "confidence" and share.value in (0, 1)):
        raise ZoolensError(f"{name}={value!r} is not a share.", hint=f'Write {name}="95%" or {name}=0.95.')
    return share.value


def whole_limit(name: str, value: Any) -> int:
    """The limit of a query, from a value of any type of whole numbers."""
    try:
        limit = 0 if isinstance(value, bool) else index(value)
    except TypeError:
        limit = 0
    if not 1 <= limit <= MOST_MODELS:
        raise ZoolensError(f"{name}={value!r} is not a whole number from 1 on.", hint=f"Write {name}=5.")
    return limit


def _bound(name: str, value: str) -> str:
    _name(name, value)
    return value.lower() if value.lower() in ("on", "off") else value


def _condition(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return parse_condition(value)
    if not isinstance(value, Condition):
        raise ZoolensError(f"where={value!r} is not a condition.", hint="Write where=\"zoo = 'torchvision'\".")
    return value


def _orders(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return parse_orders(value)
    if not isinstance(value, Sequence) or not all(isinstance(order, Order) for order in value):
        raise ZoolensError(f"order_by={value!r} is not an order.", hint='Write order_by="latency, memory DESC".')
    return tuple(value)


def _pairs(name: str, value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping):
        raise ZoolensError(
            f"exec={value!r} are not settings.", hint='Write exec={"runtime": "onnxruntime", "batch": 8}.'
        )
    return tuple((key, str(setting)) for key, setting in value.items())


_READERS = {
    "within": _share, "confidence": _share, "limit": whole_limit, "where": _condition, "order": _orders,
    "exec": _pairs, "bound": _bound, "reference": _name, "task": _name, "data": _name, "explain": _explain,
    "show": _names,
}  # fmt: skip
