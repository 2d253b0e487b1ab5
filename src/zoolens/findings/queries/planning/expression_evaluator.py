"""ORDER BY: expressions over metrics, for all rows at once, and the order that they give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base import plugins
from zoolens.findings.queries.language.errors import ClauseError, UnknownQueryName
from zoolens.findings.queries.language.syntax import (
    Expression,
    FunctionCall,
    Metric,
    Negative,
    Number,
    Operation,
    Order,
)

Values = NDArray[np.float64]
Function = Callable[..., Any]

_REAL: Final = "biuf"  # kinds of numpy's types
_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply,
}  # fmt: skip


def _least(*arguments: Any) -> Any:
    return np.minimum.reduce(np.broadcast_arrays(*arguments))


def _greatest(*arguments: Any) -> Any:
    return np.maximum.reduce(np.broadcast_arrays(*arguments))


# name -> function, least and most arguments
_BUILT_IN: Final[dict[str, tuple[Function, int, int]]] = {
    "min": (_least, 1, 99), "max": (_greatest, 1, 99), "abs": (np.abs, 1, 1), "log": (np.log, 1, 1),
    "sqrt": (np.sqrt, 1, 1),
}  # fmt: skip


def order_scores(
    orders: Sequence[Order], value_of: Callable[[Metric], Any], rows: int, functions: Mapping[str, Function]
) -> Values:
    """One score for each row, higher first: minus its place in the order. Unknown values come last, equal ones in the
    order of rows."""
    keys: list[Values] = [np.zeros(rows)]
    for order in orders:
        values = evaluate(order.expression, value_of, rows, functions)
        keys.append(-values if order.descending else values)
    places = np.empty(rows)
    # lexsort takes the first key last, and puts NaN at the end.
    places[np.lexsort(keys[::-1])] = np.arange(rows)
    return -places


def evaluate(
    expression: Expression, value_of: Callable[[Metric], Any], rows: int, functions: Mapping[str, Function]
) -> Values:
    """The expression's value for every row; NaN where something it reads is unknown."""
    with np.errstate(all="ignore"):
        values = _evaluate(expression, value_of, rows, functions)
    return np.array(np.broadcast_to(np.asarray(values, np.float64), rows))


def _evaluate(
    expression: Expression, value_of: Callable[[Metric], Any], rows: int, functions: Mapping[str, Function]
) -> Any:
    match expression:
        case Number(value):
            return value
        case Metric():
            return value_of(expression)
        case Negative(term):
            return -_evaluate(term, value_of, rows, functions)
        case Operation(operator, left, right):
            ours, theirs = (_evaluate(side, value_of, rows, functions) for side in (left, right))
            return _divided(ours, theirs) if operator == "/" else _OPERATORS[operator](ours, theirs)
        case FunctionCall(name, arguments):
            values = [_evaluate(argument, value_of, rows, functions) for argument in arguments]
            return _call(name, values, rows, functions)


def _divided(left: Any, right: Any) -> Any:
    """Unknown for rows whose divisor is zero; a divisor that is zero for all of them is a mistake."""
    if np.ndim(right) == 0 and right == 0:
        raise ClauseError("ORDER", "ORDER BY divides by zero.", hint="Divide by a figure or a number that is not zero.")
    return np.where(np.asarray(right) == 0, np.nan, np.divide(left, right))


def _call(name: str, arguments: list[Any], rows: int, functions: Mapping[str, Function]) -> Any:
    if name in functions:
        return _call_user(name, functions[name], arguments, rows)
    if name.lower() in _BUILT_IN:
        function, least, most = _BUILT_IN[name.lower()]
        if not least <= len(arguments) <= most:
            takes = "one argument" if most == 1 else "at least one argument"
            raise ClauseError(
                name, f"{name} takes {takes}, not {len(arguments)}.", hint=f"Write {name.lower()}(metric)."
            )
        return function(*arguments)
    return _call_user(name, _registered(name), arguments, rows)


def _registered(name: str) -> Function:
    known = plugins.registered(plugins.FUNCTIONS)
    if name not in known:
        raise UnknownQueryName("function for ORDER BY", name, [*_BUILT_IN, *known])
    function: Function = plugins.load(plugins.FUNCTIONS, name)
    return function


def _call_user(name: str, function: Function, arguments: list[Any], rows: int) -> Values:
    """Calls a user's function with whole columns if it takes them, else row by row. What is unknown stays so, whatever
    it makes of it."""
    columns = [np.broadcast_to(np.asarray(argument, np.float64), rows) for argument in arguments]
    try:
        result = np.asarray(function(*columns))
        if result.shape == (rows,) and result.dtype.kind in _REAL:
            unknown = np.isnan(columns).any(axis=0) if columns else False
            return np.asarray(np.where(unknown, np.nan, result), np.float64)
    except Exception:  # noqa: S110 - written for single numbers: asked again below, where a failure is told
        pass
    if not columns:
        return np.full(rows, _one(name, function, ()))
    return np.array([_one(name, function, values) for values in zip(*columns, strict=True)], np.float64)


def _one(name: str, function: Function, values: Sequence[Any]) -> float:
    asked = [float(value) for value in values]
    if any(np.isnan(asked)):
        return float("nan")
    try:
        result = function(*asked)
        return float("nan") if result is None else float(result)
    except Exception as error:
        shown = ", ".join(f"{value:g}" for value in asked)
        raise ClauseError(
            name,
            f"The function {name}({shown}) failed: {type(error).__name__}: {error}.",
            hint="It is called with one number for each argument, and returns one.",
        ) from error
