"""Quantities: a number with a unit, turned into the store's unit (seconds, bytes, joules, counts, fractions of 1)."""

from __future__ import annotations

import math
import re
from decimal import Context
from difflib import get_close_matches
from typing import Final, NamedTuple

from zoolens.findings.queries.language.errors import QueryError
from zoolens.findings.queries.language.syntax import Quantity
from zoolens.findings.queries.language.tokens import CLAUSES, COMPARISONS, RESERVED, Cursor, Token
from zoolens.findings.queries.language.units import (
    ANY_CASE,
    FRACTIONS,
    Unit,
    counted_in,
    find_unit,
    is_fraction,
    kind_of,
    units_of,
)

__all__ = ["FRACTIONS", "Amount", "quantity", "read_amount", "read_quantity", "read_unit"]

_RATE = re.compile(r"[^\W\d_]*/s(?![\w.@])")
_EXACT: Final = Context(prec=60, traps=[])  # what is too large becomes infinite and is refused as such


def quantity(value: str | float, metric: str) -> Quantity:
    """A keyword's value: 200e6 (in the store's unit), "200 MB", "20%", "2x", "90% OF REFERENCE"."""
    if not isinstance(value, str):
        return _checked(Quantity(float(value)), metric, repr(value), 0, len(repr(value)))
    cursor = Cursor(value)
    amount = read_quantity(cursor, metric)
    if cursor.token.kind != "end":
        raise cursor.error(f"Unexpected {cursor.token.shown} behind the quantity.", "Write one number and its unit.")
    return amount


def read_quantity(cursor: Cursor, metric: str) -> Quantity:
    return read_amount(cursor).of(metric, cursor.text)


class Amount(NamedTuple):
    """A number and a unit as they stand in a query, before it is known of which metric they are."""

    number: str
    unit: Unit | None
    of_reference: bool
    start: int
    end: int

    def of(self, metric: str, text: str) -> Quantity:
        unit = self.unit
        if unit is None:
            quantity = Quantity(float(self.number), "", self.of_reference)
        else:
            self._check_kind(unit, metric, text)
            relative = self.of_reference or unit.name == "x" or (unit.name == "%" and not is_fraction(metric))
            quantity = Quantity(self.value, unit.name, relative)
        return _checked(quantity, metric, text, self.start, self.end)

    @property
    def value(self) -> float:
        """The number in the store's unit, rounded once: 0.1 ms is the float nearest to 0.0001."""
        if self.unit is None or self.unit.factor == 1:
            return float(self.number)
        return float(_EXACT.multiply(_EXACT.create_decimal(self.number), self.unit.factor))

    def _check_kind(self, unit: Unit, metric: str, text: str) -> None:
        wanted = kind_of(metric)
        if wanted is None or unit.kind in ("share", wanted):
            return
        if unit.kind == "count" and wanted not in ("seconds", "fraction", "joules"):
            return
        message = f"{unit.name} counts {unit.kind}, but {metric} is in {counted_in(wanted)}."
        raise QueryError(message, text, self.start, self.end, hint=_hint_for(unit, wanted, self.number))


def _hint_for(unit: Unit, wanted: str, number: str) -> str:
    if wanted == "count" and unit.name == "B":
        return f"A billion is written {number}G."
    if {unit.kind, wanted} == {"operations", "multiply-adds"}:
        return "One multiply-add is two operations: flops and macs are two metrics, each with its own unit."
    return f"Units of {counted_in(wanted)}: {units_of(wanted)}."


def _checked(amount: Quantity, metric: str, text: str, start: int, end: int) -> Quantity:
    if math.isnan(amount.value):
        raise QueryError("This is not a number.", text, start, end, hint="Write a number and its unit.")
    if not math.isfinite(amount.value):
        raise QueryError("This number is too large.", text, start, end, hint="The largest is about 1e308.")
    if abs(amount.value) > 1 and not amount.relative and is_fraction(metric):
        number = f"{100 * amount.value if amount.unit == '%' else amount.value:g}"
        hint = f"Write {number}% or {amount.value / 100:g}." if abs(amount.value) <= 100 and not amount.unit else None
        message = f"{metric} is a fraction: it cannot be {number}{amount.unit}."
        raise QueryError(message, text, start, end, hint=hint or "It lies between 0% and 100%.")
    return amount


def read_amount(cursor: Cursor) -> Amount:
    """NUMBER [UNIT] [OF REFERENCE], with a sign or without."""
    start = cursor.token.start
    sign = "-" if cursor.token.keyword == "-" and cursor.peek().kind == "number" else ""
    if sign:
        cursor.next()
    if cursor.token.kind != "number":
        hint = "Write a number and its unit, as in 200 MB, 10 ms, 2 GFLOPS or 20%."
        raise cursor.error(f"Expected a quantity, found {cursor.token.shown}.", hint)
    number = cursor.next()
    _refuse_thousands(cursor, number)
    unit = read_unit(cursor)
    return Amount(sign + number.text.replace("_", ""), unit, _of_reference(cursor, unit), start, cursor.last_end)


def read_unit(cursor: Cursor) -> Unit | None:
    """The unit that stands here, if one does; a word that is neither unit nor keyword is a mistake."""
    token = cursor.token
    if "/" in (token.keyword, cursor.peek().keyword) and (rate := _read_rate(cursor)):
        return rate
    if token.kind == "word" and token.keyword in RESERVED and token.start > cursor.last_end:
        return None
    unit = find_unit(token.text) if token.kind in ("word", "symbol") else None
    if unit is not None:
        cursor.next()
    elif token.kind == "word":
        raise _unknown_unit(cursor, token)
    return unit


def _read_rate(cursor: Cursor) -> Unit | None:
    """Read a rate such as inputs/s, which is three tokens."""
    match = _RATE.match(cursor.text, cursor.token.start)
    unit = find_unit(match[0]) if match else None
    if unit is not None:
        cursor.bare(_RATE)
    return unit


def _unknown_unit(cursor: Cursor, token: Token) -> QueryError:
    if token.text == "m":
        return cursor.error("m could be milli, mega or minutes.", "Write ms, M, MB or min.")
    if cursor.peek().keyword in COMPARISONS:
        return cursor.error(f"{token.shown} is not a unit.", f"Write AND before {token.text}.")
    if clause := get_close_matches(token.keyword, (*CLAUSES, "AND", "OF"), n=1, cutoff=0.75):
        return cursor.error(f"{token.shown} is neither a unit nor a keyword.", f"Did you mean {clause[0]}?")
    singular = find_unit(token.text.rstrip("sS"))
    close = get_close_matches(token.text.lower(), ANY_CASE, n=1, cutoff=0.7)
    meant = singular.name if singular else ANY_CASE[close[0]] if close else ""
    hint = f"Did you mean {meant}?" if meant else f"Units: {units_of(None)}."
    return cursor.error(f"There is no unit {token.shown}.", hint)


def _of_reference(cursor: Cursor, unit: Unit | None) -> bool:
    at = cursor.token
    if not cursor.accept("OF"):
        return False
    if not cursor.accept("REFERENCE", "REF"):
        raise cursor.error(f"Expected REFERENCE, found {cursor.token.shown}.", "Write OF REFERENCE behind the share.")
    if unit is not None and unit.kind != "share":
        raise cursor.error(f"{unit.name} is not a share of the reference.", "Write 80% OF REFERENCE.", cursor.since(at))
    return True


def _refuse_thousands(cursor: Cursor, number: Token) -> None:
    behind = cursor.peek() if cursor.token.keyword == "," and cursor.token.start == number.end else None
    if behind and behind.kind == "number" and behind.start == cursor.token.end and len(behind.text) == 3:
        joined = Token("number", "", number.start, behind.end)
        hint = f"Write {number.text}_{behind.text} or {number.text}{behind.text}."
        raise cursor.error("A comma does not group digits here.", hint, joined)
