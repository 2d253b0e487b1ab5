"""WHERE: which rows a condition on attributes and figures holds for.

What is unknown neither holds nor fails (`zoo = 'x'` and `NOT zoo = 'x'` both pass over a row without a zoo), as in
SQL; `IS KNOWN` asks for it. Text is compared without regard to case, and numbers inside it as numbers: version 1.10
comes after 1.9. A number is compared as a number, unless both sides are text.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache, reduce
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoolens.findings.index.tables.dictionary_column import DictionaryColumn
from zoolens.findings.index.tables.row_table import RowTable
from zoolens.findings.index.tables.rows import Attribute
from zoolens.findings.queries.language.errors import ClauseError
from zoolens.findings.queries.language.syntax import AllOf, AnyOf, Comparison, Condition, Known, Not, OneOf

_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


# What may be asked of any model, even where no row of this index tells: `license IS KNOWN` is no typing mistake.
COMMON: Final = frozenset({
    "zoo", "name", "version", "ref", "format", "task", "runtime", "runtime_version", "device", "precision", "threads",
    "element_type", "license", "framework", "dataset", "description", "twin_of", "donor",
})  # fmt: skip


class Attributes:
    """Columns of attributes; names in any case. `ref` is an attribute like the others."""

    def __init__(self, rows: RowTable) -> None:
        self._rows = rows

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset({"ref", *self._rows.attributes})

    @cached_property
    def _spelled(self) -> dict[str, str]:
        return {name.casefold(): name for name in sorted(self.names)}

    def __contains__(self, name: str) -> bool:
        return name in self.names or name.casefold() in self._spelled

    def column(self, name: str) -> DictionaryColumn:
        spelled = name if name in self.names else self._spelled.get(name.casefold(), name)
        return self._rows.columns["ref"] if spelled == "ref" else self._rows.attribute(spelled)


class Truth(NamedTuple):
    """Where a condition holds, and where it fails; neither: unknown."""

    holds: NDArray[np.bool_]
    fails: NDArray[np.bool_]


Figures = Callable[[str], NDArray[np.float64] | None]  # the values of a metric; None: it is an attribute


def rows_where(condition: Condition, attributes: Attributes, figures: Figures = lambda name: None) -> NDArray[np.bool_]:
    return _truth(condition, attributes, figures).holds


def attributes_of(condition: Condition) -> Iterator[str]:
    """Every attribute a condition reads."""
    match condition:
        case Comparison(attribute) | OneOf(attribute) | Known(attribute):
            yield attribute
        case Not(term):
            yield from attributes_of(term)
        case AllOf(terms) | AnyOf(terms):
            for term in terms:
                yield from attributes_of(term)


def _truth(condition: Condition, attributes: Attributes, figures: Figures) -> Truth:
    match condition:
        case Comparison(name) | OneOf(name) | Known(name) if (values := figures(name)) is not None:
            return _by_figure(condition, values)
        case Comparison(attribute, comparison, value):
            return _by_value(attributes, attribute, lambda known: compare(known, comparison, value))
        case OneOf(attribute, values):
            return _by_value(attributes, attribute, lambda known: any(compare(known, "=", value) for value in values))
        case Known(attribute):
            known = attributes.column(attribute).codes >= 0
            return Truth(known, ~known)
        case Not(term):
            holds, fails = _truth(term, attributes, figures)
            return Truth(fails, holds)
        case AllOf(terms):
            return reduce(_both, (_truth(term, attributes, figures) for term in terms))
        case AnyOf(terms):
            return reduce(_either, (_truth(term, attributes, figures) for term in terms))


def _by_figure(condition: Comparison | OneOf | Known, values: NDArray[np.float64]) -> Truth:
    """The condition on numbers; what is unknown neither holds nor fails."""
    known = ~np.isnan(values)
    match condition:
        case Known():
            return Truth(known, ~known)
        case OneOf(name, several):
            holds = np.isin(values, [_as_number(name, value) for value in several])
        case Comparison(name, comparison, wanted):
            if comparison == "LIKE":
                raise ClauseError(
                    name, f"{name} is a number, and LIKE compares text.", hint=f"Write {name} <= … instead."
                )
            holds = np.asarray(_COMPARE[comparison](values, _as_number(name, wanted)))
    return Truth(holds & known, ~holds & known)


def _as_number(name: str, value: str | float) -> float:
    number = _number(value)
    if number is None:
        raise ClauseError(
            name, f"{name} is compared with a number; {value!r} is not one.", hint=f"Write {name} <= 200, say."
        )
    return number


def _both(a: Truth, b: Truth) -> Truth:
    return Truth(a.holds & b.holds, a.fails | b.fails)


def _either(a: Truth, b: Truth) -> Truth:
    return Truth(a.holds | b.holds, a.fails & b.fails)


def _by_value(attributes: Attributes, name: str, test: Callable[[Attribute], bool]) -> Truth:
    column = attributes.column(name)
    holds = [test(value) for value in column.values]
    return Truth(column.rows_where(holds), column.rows_where([not held for held in holds]))


def compare(known: Attribute, comparison: str, asked: str | float) -> bool:
    """One attribute against one value."""
    if comparison == "LIKE":
        return _pattern(str(asked)).fullmatch(_text(known)) is not None
    # Version '1.10' is not '1.1'.
    text = isinstance(known, str) and isinstance(asked, str)
    a, b = (None, None) if text else (_number(known), _number(asked))
    if a is not None and b is not None:
        return bool(_COMPARE[comparison](a, b))
    # 1.07 and 1.7 are not the same text.
    key = _text if comparison in ("=", "!=") else _natural
    return bool(_COMPARE[comparison](key(known), key(asked)))


@lru_cache(maxsize=100)
def _pattern(text: str) -> re.Pattern[str]:
    """What stands between two stars is taken where it comes first, for good: trying others would take for ever."""
    first, *rest = (_piece(part) for part in re.split(r"[*%]+", text.casefold()))
    if not rest:
        return re.compile(first, re.DOTALL)
    *middle, last = rest
    return re.compile(first + "".join(f"(?>.*?{part})" for part in middle) + f".*{last}", re.DOTALL)


def _piece(text: str) -> str:
    return "".join("." if letter in "?_" else re.escape(letter) for letter in text)


def _text(value: Attribute) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return (f"{value:g}" if isinstance(value, float) else str(value)).casefold()


def _number(value: Attribute) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        # A manifest may hold whole numbers of any length.
        return None
    # A model may be called Infinity.
    return number if math.isfinite(number) else None


def _natural(value: Attribute) -> list[tuple[int, str]]:
    """Text and the whole numbers in it by turns, so that they can be put in order: longer numbers are greater."""
    pieces = re.split(r"(\d+)", _text(value))
    digits = [piece.lstrip("0") if i % 2 else piece for i, piece in enumerate(pieces)]
    return [(len(piece) if i % 2 else 0, piece) for i, piece in enumerate(digits)]
