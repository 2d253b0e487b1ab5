"""The ON clause: metrics and the quantities that bound them, from text or from Python keywords."""

from __future__ import annotations

from typing import Any, Final, Literal, cast

from zoolens.base.errors import ZoolensError
from zoolens.findings.queries.language.identifiers import read_name
from zoolens.findings.queries.language.quantities import quantity, read_amount, read_quantity
from zoolens.findings.queries.language.syntax import Bound, Quantity
from zoolens.findings.queries.language.tokens import COMPARISONS, Cursor
from zoolens.findings.queries.language.units import larger_is_better

BoundComparison = Literal["<", "<=", ">", ">=", "="]
_TURNED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_EXAMPLE: Final = "Write a metric, a comparison and a quantity, as in memory <= 20%."


def read_bounds(cursor: Cursor) -> tuple[Bound, ...]:
    """Read `bound (AND bound)*`."""
    bounds = [*_read_bound(cursor)]
    while cursor.accept("AND"):
        bounds += _read_bound(cursor)
    if cursor.token.keyword == ",":
        raise cursor.error("A comma does not join two bounds.", "Write AND between them.")
    if cursor.token.keyword == "OR" or cursor.token.keyword in ("&&", "||"):
        raise cursor.error("All bounds of ON must hold.", "Join them by AND; alternatives go to WHERE.")
    return tuple(bounds)


def _read_bound(cursor: Cursor) -> list[Bound]:
    if cursor.token.kind == "number" or cursor.token.keyword == "-":
        return [_read_turned(cursor)]
    metric = read_name(cursor, "a metric", _EXAMPLE)
    if cursor.accept("BETWEEN"):
        return _read_between(cursor, metric)
    comparison = _read_comparison(cursor, metric)
    return [Bound(metric, comparison, read_quantity(cursor, metric))]


def _read_turned(cursor: Cursor) -> Bound:
    """Read a bound whose quantity stands first: `10 ms > latency_p95`."""
    amount = read_amount(cursor)
    comparison = _TURNED[_read_comparison(cursor, "the quantity")]
    metric = read_name(cursor, "a metric", _EXAMPLE)
    if cursor.token.keyword in COMPARISONS:
        raise cursor.error("Two comparisons of one metric.", f"Write {metric} BETWEEN … AND ….")
    return Bound(metric, cast(BoundComparison, comparison), amount.of(metric, cursor.text))


def _read_between(cursor: Cursor, metric: str) -> list[Bound]:
    """Reads BETWEEN; both ends count. BETWEEN 10 AND 20 ms: the unit stands for both."""
    at = cursor.token
    low = read_amount(cursor)
    cursor.expect("AND", f"Expected AND, found {cursor.token.shown}.", "Write BETWEEN low AND high.")
    high = read_amount(cursor)
    low = low._replace(unit=low.unit or high.unit, of_reference=low.of_reference or high.of_reference)
    ends = low.of(metric, cursor.text), high.of(metric, cursor.text)
    if ends[0].value > ends[1].value and ends[0].relative == ends[1].relative:
        raise cursor.error("Nothing lies between these.", "Write the smaller quantity first.", cursor.since(at))
    return [Bound(metric, ">=", ends[0]), Bound(metric, "<=", ends[1])]


def _read_comparison(cursor: Cursor, behind: str) -> BoundComparison:
    return cast(BoundComparison, read_comparison(cursor, behind, without="!="))


def read_comparison(cursor: Cursor, behind: str, without: str = "") -> str:
    """A comparison, in its canonical spelling."""
    token = cursor.token
    comparison = COMPARISONS.get(token.text) if token.kind == "symbol" else None
    if comparison is not None and comparison != without:
        cursor.next()
        return comparison
    if token.keyword in ("=>", "=<"):
        raise cursor.error(f"{token.shown} is not a comparison.", f"Write {token.text[::-1]}.")
    known = ["<", "<=", ">", ">=", "=", *(["BETWEEN"] if without else ["!=", "LIKE", "IN", "IS"])]
    raise cursor.error(
        f"Expected a comparison behind {behind}, found {token.shown}.", f"Write one of {', '.join(known)}."
    )


# --- from Python


def keyword_bounds(metric: str, value: Any) -> tuple[Bound, ...]:
    """What memory="20%", memory=200e6, memory="< 200 MB" or memory=("<", "200 MB") says; several bounds in a list.

    A figure alone is the most that is wanted, or the least where more is better (accuracy=0.7).
    """
    if isinstance(value, list):
        return tuple(bound for part in value for bound in keyword_bounds(metric, part))
    if isinstance(value, tuple) and len(value) == 2 and value[0] in _TURNED:
        return (Bound(metric, value[0], _keyword_quantity(metric, value[1])),)
    if isinstance(value, str) and _begins_with_comparison(value):
        return _read_text(metric, value)
    return (Bound(metric, ">=" if larger_is_better(metric) else "<=", _keyword_quantity(metric, value)),)


def _keyword_quantity(metric: str, value: Any) -> Quantity:
    if isinstance(value, Quantity):
        return value
    try:
        return quantity(value if isinstance(value, str) else float(value), metric)
    except (TypeError, ValueError):
        raise ZoolensError(
            f"{metric}={value!r} is not a quantity.", hint=f'Write {metric}="20%", {metric}="< 200" or {metric}=200.'
        ) from None


def _begins_with_comparison(value: str) -> bool:
    token = Cursor(value).token
    return token.keyword in COMPARISONS or token.keyword in ("=>", "=<") or token.keyword == "BETWEEN"


def _read_text(metric: str, value: str) -> tuple[Bound, ...]:
    cursor = Cursor(value)
    if cursor.accept("BETWEEN"):
        bounds = _read_between(cursor, metric)
    else:
        comparison = _read_comparison(cursor, metric)
        bounds = [Bound(metric, comparison, read_quantity(cursor, metric))]
    if cursor.token.kind != "end":
        raise cursor.error(f"Unexpected {cursor.token.shown} behind the quantity.", "Write one bound here.")
    return tuple(bounds)
