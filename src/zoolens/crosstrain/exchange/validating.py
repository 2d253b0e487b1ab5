"""Rows of a stranger's table against the columns they should have; what is wrong is named by row and column."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from zoolens.crosstrain.exchange.schema import MAX_JSON, MAX_LIST, MAX_NAME, MAX_PROBLEMS, MAX_TEXT, Column

_JSON: Final[Mapping[str, tuple[type, ...]]] = {"object": (dict,), "remarks": (list,), "json": (str, int, float)}
_UNFIT: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")  # a terminal obeys some of these
_LARGEST: Final = 1 << 63  # of a whole number that stands for itself


def column_problems(table: str, columns: Sequence[Column], schema: pa.Schema) -> Iterator[str]:
    """Names and types, before anything is read."""
    wanted = {column.name: column.arrow for column in columns}
    there = Counter(schema.names)
    for name, count in sorted(there.items()):
        if count > 1:
            yield f"{table}.parquet has the column {_short(name)} {count} times."
        elif name not in wanted:
            yield f"{table}.parquet has a column {_short(name)}, which is not in the schema."
        elif not name.isprintable() or len(name) > MAX_NAME:
            yield f"{table}.parquet has a column {_short(name)}, which is no name."
        elif (found := schema.field(name).type) != wanted[name]:
            yield f"{table}.parquet, column {name}: its type is {_short(str(found))} and should be {wanted[name]}."
    yield from (f"{table}.parquet has no column {name}." for name in wanted if name not in there)


def row_problems(table: str, columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> list[str]:
    problems: list[str] = []
    for number, row in enumerate(rows):
        for column in columns:
            if wrong := _wrong(column, row[column.name]):
                problems.append(f"{table}.parquet, row {number}, column {column.name}: {wrong}.")
                if len(problems) >= MAX_PROBLEMS:
                    return problems
    return problems


def _wrong(column: Column, value: Any) -> str | None:
    if value is None:
        return None if column.nullable else "it is empty"
    if isinstance(value, list):
        if len(value) > MAX_LIST:
            return f"it has more than {MAX_LIST} entries"
        return next((wrong for one in value if (wrong := _wrong_entry(column, one))), None)
    return _wrong_value(column, value)


def _wrong_entry(column: Column, value: Any) -> str | None:
    if value is None:
        return None if column.kind == "floats" else "an entry is empty"
    return _wrong_value(column, value)


def _wrong_value(column: Column, value: Any) -> str | None:
    if isinstance(value, str):
        return _wrong_text(column, value)
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value} is not finite"
    if not column.low <= value <= column.high:
        return f"{value} is not between {column.low:g} and {column.high:g}"
    return None


def _wrong_text(column: Column, value: str) -> str | None:
    limit = MAX_TEXT if column.kind == "text" else MAX_JSON
    if len(value) > limit:
        return f"its text is longer than {limit} characters"
    if column.choices and value not in column.choices:
        return f"{_short(value)} is not one of {', '.join(column.choices)}"
    if _UNFIT.search(value):
        return "it holds characters that cannot be shown"
    if column.kind not in _JSON:
        return None
    try:
        found = strict_json(value)
    except ValueError as error:
        return f"it is not JSON: {error}"
    fits = isinstance(found, _JSON[column.kind])
    if column.kind == "remarks" and isinstance(found, list):
        fits = all(isinstance(one, str) for one in found)
    if column.kind == "json" and isinstance(found, int):
        fits = abs(found) < _LARGEST
    return None if fits else "it is JSON of another kind"


def strict_json(text: str | bytes) -> Any:
    """Anything that is not JSON is a ValueError, also NaN, what is nested too deeply, and texts or numbers that nobody
    can show or store."""
    try:
        found = json.loads(text, parse_constant=_refused)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    waiting = [found]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str) and _UNFIT.search(one):
            raise ValueError("a text holds characters that cannot be shown")
        if isinstance(one, float) and not math.isfinite(one):
            raise ValueError("a number is too large")
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            waiting += [*one, *one.values()]
    return found


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number of JSON")


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")
