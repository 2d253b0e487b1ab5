"""ORDER BY: arithmetic over metrics, such as equivalence - 0.1 * memory / REF.memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Literal, cast

from zoolens.findings.queries.language.identifiers import folded, read_name, read_scope
from zoolens.findings.queries.language.quantities import Amount, read_unit
from zoolens.findings.queries.language.syntax import (
    Expression,
    FunctionCall,
    Metric,
    Negative,
    Number,
    Operation,
    Order,
)
from zoolens.findings.queries.language.tokens import Cursor, Token

Operator = Literal["+", "-", "*", "/"]
_EXAMPLE: Final = "Write a metric, a number or a function, as in equivalence - 0.1 * memory / REF.memory."


def read_orders(cursor: Cursor) -> tuple[Order, ...]:
    """Read `expression [ASC | DESC] (, expression [ASC | DESC])*`."""
    orders = [_read_order(cursor)]
    while cursor.accept(","):
        orders.append(_read_order(cursor))
    return tuple(orders)


def _read_order(cursor: Cursor) -> Order:
    expression = read_expression(cursor)
    if cursor.accept("DESC"):
        return Order(expression, descending=True)
    cursor.accept("ASC")
    return Order(expression)


def read_expression(cursor: Cursor) -> Expression:
    return _chain(cursor, ("+", "-"), _product)


def _product(cursor: Cursor) -> Expression:
    return _chain(cursor, ("*", "/"), _signed)


def _chain(cursor: Cursor, operators: tuple[str, str], operand: Callable[[Cursor], Expression]) -> Expression:
    left = operand(cursor)
    while cursor.token.keyword in operators:
        cursor.count_operation()
        operator = cast(Operator, cursor.next().text)
        left = Operation(operator, left, operand(cursor))
    return left


def _signed(cursor: Cursor) -> Expression:
    """A minus before a number belongs to the number."""
    if cursor.token.keyword == "-" and cursor.peek().kind == "number":
        cursor.next()
        return Number(-_read_number(cursor))
    if not cursor.accept("-"):
        return _operand(cursor)
    cursor.enter()
    term = _signed(cursor)
    cursor.leave()
    return Negative(term)


def _operand(cursor: Cursor) -> Expression:
    token = cursor.token
    if token.kind == "number":
        return Number(_read_number(cursor))
    if token.keyword == "(":
        return _in_parentheses(cursor)
    if token.keyword == "REF" or token.keyword.startswith("REF."):
        return _of_reference(cursor)
    name = read_name(cursor, "something to order by", _EXAMPLE)
    return _read_call(cursor, name) if cursor.token.keyword == "(" else Metric(name)


def _read_number(cursor: Cursor) -> float:
    """5, 5% or 5 ms, in the store's unit."""
    number = cursor.next()
    unit = read_unit(cursor) if cursor.token.keyword != "/" else None
    value = Amount(number.text.replace("_", ""), unit, of_reference=False, start=number.start, end=number.end).value
    if unit is not None and unit.name == "x":
        raise cursor.error("x is a share of the reference's figure.", "Write number * REF.metric.", number)
    if not math.isfinite(value):
        raise cursor.error("This number is too large.", "The largest is about 1e308.", number)
    return value


def _in_parentheses(cursor: Cursor) -> Expression:
    opened = cursor.next()
    cursor.enter()
    inside = read_expression(cursor)
    _close(cursor, opened)
    return inside


def _read_call(cursor: Cursor, function: str) -> FunctionCall:
    cursor.count_operation()
    opened = cursor.next()
    cursor.enter()
    arguments: list[Expression] = []
    if cursor.token.keyword != ")":
        arguments.append(read_expression(cursor))
        while cursor.accept(","):
            arguments.append(read_expression(cursor))
    _close(cursor, opened)
    return FunctionCall(function, tuple(arguments))


def _close(cursor: Cursor, opened: Token) -> None:
    close(cursor, opened, "+, -, *, /")
    cursor.leave()


def close(cursor: Cursor, opened: Token, continued_by: str) -> None:
    """The parenthesis that ends what `opened` began."""
    if cursor.accept(")"):
        return
    if cursor.token.kind == "end" or cursor.token.keyword == ";":
        raise cursor.error("This parenthesis is never closed.", "Write ) where it ends.", opened)
    raise cursor.error(f"Unexpected {cursor.token.shown} inside the parentheses.", f"Expected {continued_by} or ).")


def _of_reference(cursor: Cursor) -> Metric:
    """REF.memory or REF."odd name"."""
    token = cursor.next()
    hint = "Write REF.metric, as in REF.memory."
    if token.keyword != "REF":
        name = folded(token.text[4:]) + read_scope(cursor, token)
        cursor.places.setdefault(name, (token.start + 4, cursor.last_end))
        return Metric(name, reference=True)
    cursor.expect(".", f"Expected a dot behind REF, found {cursor.token.shown}.", hint)
    return Metric(read_name(cursor, "a metric of the reference", hint), reference=True)
