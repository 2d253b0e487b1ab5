"""WHERE: conditions on what is known of a model, such as zoo = 'torchvision' AND NOT format LIKE 'tf%'."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Literal, cast

from zoolens.findings.queries.language.bound_parser import read_comparison
from zoolens.findings.queries.language.expression_parser import close
from zoolens.findings.queries.language.identifiers import read_name
from zoolens.findings.queries.language.quantities import read_amount
from zoolens.findings.queries.language.syntax import AllOf, AnyOf, Comparison, Condition, Known, Not, OneOf
from zoolens.findings.queries.language.tokens import Cursor, Token, is_number
from zoolens.findings.queries.language.units import kind_of

_EXAMPLE: Final = "Write an attribute, a comparison and a value, as in zoo = 'torchvision'."
Sorted = Literal["=", "!=", "<", "<=", ">", ">="]


def read_condition(cursor: Cursor) -> Condition:
    terms = _joined(cursor, "OR", _conjunction)
    return terms[0] if len(terms) == 1 else AnyOf(terms)


def _conjunction(cursor: Cursor) -> Condition:
    terms = _joined(cursor, "AND", _negation)
    return terms[0] if len(terms) == 1 else AllOf(terms)


def _joined(cursor: Cursor, word: str, term: Callable[[Cursor], Condition]) -> tuple[Condition, ...]:
    terms = [term(cursor)]
    while cursor.accept(word):
        terms.append(term(cursor))
    if cursor.token.keyword in ("&&", "||"):
        raise cursor.error(f"{cursor.token.text} joins nothing here.", "Write AND or OR.")
    return tuple(terms)


def _negation(cursor: Cursor) -> Condition:
    if cursor.token.keyword != "NOT":
        return _test(cursor)
    cursor.next()
    cursor.enter()
    term = _negation(cursor)
    cursor.leave()
    return Not(term)


def _test(cursor: Cursor) -> Condition:
    if cursor.token.keyword == "(":
        return _in_parentheses(cursor)
    attribute = read_name(cursor, "an attribute", _EXAMPLE)
    if cursor.accept("NOT"):
        if cursor.token.keyword not in ("IN", "LIKE", "BETWEEN"):
            raise cursor.error(f"Expected IN, LIKE or BETWEEN, found {cursor.token.shown}.", "NOT else stands first.")
        return Not(_worded(cursor, attribute))
    if cursor.token.keyword in ("IN", "LIKE", "IS", "BETWEEN"):
        return _worded(cursor, attribute)
    comparison = cast(Sorted, read_comparison(cursor, attribute))
    return Comparison(attribute, comparison, _value(cursor, attribute, ordered=comparison not in ("=", "!=")))


def _in_parentheses(cursor: Cursor) -> Condition:
    opened = cursor.next()
    cursor.enter()
    inside = read_condition(cursor)
    close(cursor, opened, "AND, OR")
    cursor.leave()
    return inside


def _worded(cursor: Cursor, attribute: str) -> Condition:
    """Read the rest of a condition after its attribute: `IN (…)`, `LIKE …`, `IS …` or `BETWEEN … AND …`."""
    word = cursor.next().keyword
    if word == "LIKE":
        return Comparison(attribute, "LIKE", _text(cursor).text)
    if word == "IN":
        return _one_of(cursor, attribute)
    if word == "IS":
        return _known(cursor, attribute)
    low = _value(cursor, attribute, ordered=True)
    cursor.expect("AND", f"Expected AND, found {cursor.token.shown}.", "Write BETWEEN low AND high.")
    high = _value(cursor, attribute, ordered=True)
    return AllOf((Comparison(attribute, ">=", low), Comparison(attribute, "<=", high)))


def _known(cursor: Cursor, attribute: str) -> Condition:
    negated = cursor.accept("NOT")
    unknown = cursor.token.keyword in ("UNKNOWN", "NULL")
    if not cursor.accept("KNOWN", "UNKNOWN", "NULL"):
        raise cursor.error(f"Expected KNOWN or UNKNOWN, found {cursor.token.shown}.", "A value is compared by =.")
    return Known(attribute) if negated == unknown else Not(Known(attribute))


def _one_of(cursor: Cursor, attribute: str) -> OneOf:
    opened = cursor.token
    cursor.expect("(", f"Expected ( behind IN, found {opened.shown}.", "Write IN ('a', 'b').")
    values = [_value(cursor, attribute)]
    while cursor.accept(","):
        values.append(_value(cursor, attribute))
    close(cursor, opened, "a comma")
    return OneOf(attribute, tuple(values))


def _value(cursor: Cursor, attribute: str, *, ordered: bool = False) -> str | float:
    """A number where it looks like one, else text. Behind < and its like a number may have a unit."""
    signed = cursor.token.keyword == "-" and cursor.peek().kind == "number"
    if ordered and (signed or cursor.token.kind == "number"):
        return _sorted_number(cursor, attribute)
    token = _text(cursor)
    number = token.text.removesuffix("%")
    if token.kind == "string" or not is_number(number):
        return token.text
    return _finite(cursor, float(number) / (1 if number == token.text else 100), token)


def _sorted_number(cursor: Cursor, attribute: str) -> float:
    at = cursor.token
    amount = read_amount(cursor)
    share = amount.unit is not None and amount.unit.name == "%" and kind_of(attribute) not in (None, "fraction")
    if share or amount.of_reference or (amount.unit is not None and amount.unit.name == "x"):
        raise cursor.error("WHERE does not look at the reference.", "Shares of its figures go to ON.", cursor.since(at))
    return _finite(cursor, amount.value, at)


def _finite(cursor: Cursor, value: float, at: Token) -> float:
    if not math.isfinite(value):
        raise cursor.error("This number is too large.", "Put it into quotes if it is a name.", at)
    return value


def _text(cursor: Cursor) -> Token:
    if cursor.token.keyword in ("AND", "OR", "NOT") or cursor.begins_clause():
        raise cursor.error(f"Expected a value, found {cursor.token.shown}.", "A value like a keyword needs quotes.")
    token = cursor.bare()
    if token is None:
        raise cursor.error(f"Expected a value, found {cursor.token.shown}.", _EXAMPLE)
    return token
