"""From `Query` back to text, each clause in its canonical place: parse(to_text(query)) == query."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Context, Decimal
from typing import Final

from zoolens.findings.queries.language.identifiers import written
from zoolens.findings.queries.language.syntax import (
    AllOf,
    AnyOf,
    Bound,
    Comparison,
    Condition,
    Expression,
    FunctionCall,
    Known,
    Metric,
    Negative,
    Not,
    Number,
    OneOf,
    Operation,
    Order,
    Quantity,
    Query,
)
from zoolens.findings.queries.language.tokens import is_bare, quoted
from zoolens.findings.queries.language.units import UNITS, is_fraction

_EXPLAIN: Final = {"": "", "plan": "EXPLAIN ", "analyze": "EXPLAIN ANALYZE "}
_EXACT: Final = Context(prec=60)
_SHORT, _ENOUGH = Context(prec=15), Context(prec=17)  # 17 digits tell every float from its neighbours


def to_text(query: Query) -> str:
    return f"{_EXPLAIN[query.explain]}SELECT MODELS {' '.join(_clauses(query))}"


def _clauses(query: Query) -> Iterator[str]:
    if query.reference is not None:
        yield f"CORR {_name(query.reference)}"
    if query.task is not None:
        yield f"TASK {_name(query.task)}"
    if query.within is not None:
        yield f"WITHIN {share_text(query.within)}"
    if query.on:
        yield f"ON {' AND '.join(map(bound_text, query.on))}"
    if query.where is not None:
        yield f"WHERE {condition_text(query.where)}"
    if query.segments:
        yield "SEGMENTS"
    if query.order:
        yield f"ORDER BY {', '.join(map(order_text, query.order))}"
    if query.limit is not None:
        yield f"LIMIT {query.limit}"
    if query.show:
        yield f"SHOW {', '.join(map(written, query.show))}"
    yield from _circumstances(query)


def _circumstances(query: Query) -> Iterator[str]:
    if query.exec:
        yield f"EXEC ({', '.join(f'{written(key)} = {_name(value)}' for key, value in query.exec)})"
    if query.confidence is not None:
        yield f"CONFIDENCE {share_text(query.confidence)}"
    if query.data is not None:
        yield f"DATA {_name(query.data)}"
    if query.bound != "on":
        yield f"BOUND {'OFF' if query.bound == 'off' else quoted(query.bound)}"
    if query.nearest:
        yield "ELSE NEAREST"


def _name(name: str) -> str:
    return name if is_bare(name) else quoted(name)


# --- quantities


def bound_text(bound: Bound) -> str:
    return f"{written(bound.metric)} {bound.comparison} {quantity_text(bound.quantity, bound.metric)}"


def quantity_text(quantity: Quantity, metric: str) -> str:
    """The quantity as text, in the unit in which it was given."""
    number = _in_unit(quantity.value, quantity.unit)
    text = f"{number}{quantity.unit}" if quantity.unit in ("", "%", "x") else f"{number} {quantity.unit}"
    implied = quantity.unit == "x" or (quantity.unit == "%" and not is_fraction(metric))
    return f"{text} OF REFERENCE" if quantity.relative and not implied else text


def share_text(share: float) -> str:
    return f"{_in_unit(share, '%')}%"


def _in_unit(value: float, unit: str) -> str:
    """The shortest number that is read back as exactly this value."""
    if not unit:
        return number_text(value)
    factor = UNITS[unit].factor
    number = _SHORT.divide(Decimal(value), factor)
    if float(_EXACT.multiply(number, factor)) != value:
        number = _ENOUGH.divide(Decimal(value), factor)
    return _decimal_text(number)


def _decimal_text(number: Decimal) -> str:
    short = number.normalize(_EXACT)
    return f"{short:f}" if short == 0 or -4 <= short.adjusted() < 16 else f"{short:e}".replace("e+", "e")


def number_text(value: float) -> str:
    """The number as text; a whole number has no decimal point."""
    if not math.isfinite(value):
        raise ValueError(f"{value} cannot be written in a query")
    return str(int(value)) if value == int(value) and abs(value) < 1e16 else repr(value)


# --- conditions


def condition_text(condition: Condition) -> str:
    match condition:
        case Comparison(attribute, comparison, value):
            return f"{written(attribute)} {comparison} {_value(value)}"
        case OneOf(attribute, values):
            return f"{written(attribute)} IN ({', '.join(map(_value, values))})"
        case Known(attribute):
            return f"{written(attribute)} IS KNOWN"
        case Not(Known(attribute)):
            return f"{written(attribute)} IS UNKNOWN"
        case Not(term):
            return f"NOT {_tight(term)}"
        case AllOf(terms):
            return " AND ".join(map(_tight, terms))
        case AnyOf(terms):
            return " OR ".join(_tight(part) if isinstance(part, AnyOf) else condition_text(part) for part in terms)


def _tight(condition: Condition) -> str:
    """The condition in parentheses where its parts would otherwise join with their surroundings."""
    text = condition_text(condition)
    return f"({text})" if isinstance(condition, AllOf | AnyOf) else text


def _value(value: str | float) -> str:
    return quoted(value) if isinstance(value, str) else number_text(value)


# --- expressions


def order_text(order: Order) -> str:
    return expression_text(order.expression) + (" DESC" if order.descending else "")


def expression_text(expression: Expression) -> str:
    match expression:
        case Number(value):
            return number_text(value)
        case Metric(name, reference):
            return f"REF.{written(name)}" if reference else written(name)
        case Negative(term):
            return f"-{_operand(term, least=2)}" if not isinstance(term, Number) else f"-({number_text(term.value)})"
        case FunctionCall(function, arguments):
            return f"{written(function)}({', '.join(map(expression_text, arguments))})"
        case Operation(operator, left, right):
            level = _level(expression)
            return f"{_operand(left, least=level)} {operator} {_operand(right, least=level + 1)}"


def _operand(expression: Expression, *, least: int) -> str:
    text = expression_text(expression)
    return f"({text})" if _level(expression) < least else text


def _level(expression: Expression) -> int:
    """How strongly it holds its parts together: sums 0, products 1, all else 2."""
    if not isinstance(expression, Operation):
        return 2
    return 0 if expression.operator in "+-" else 1
