"""Rows of a stranger's table against the columns they should have; what is wrong is named by row and column."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from zoolens.crosstrain.exchange.schema import MAX_JSON, MAX_LIST, MAX_PROBLEMS, MAX_TEXT, Column

_JSON: Final[Mapping[str, tuple[type, ...]]] = {"object": (dict,), "remarks": (list,), "json": (str, int, float)}


def column_problems(table: str, columns: Sequence[Column], schema: pa.Schema) -> Iterator[str]:
    """Names and types, before anything is read."""
    wanted = {column.name: column.arrow for column in columns}
    there = list(schema.names)
    for name in sorted(set(there)):
        if there.count(name) > 1:
            yield f"{table}.parquet has the column {_short(name)} {there.count(name)} times."
        elif name not in wanted:
            yield f"{table}.parquet has a column {_short(name)}, which is not in the schema."
        elif (found := schema.field(name).type) != wanted[name]:
            yield f"{table}.parquet, column {name}: its type is {found} and should be {wanted[name]}."
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
    if column.kind not in _JSON:
        return None
    try:
        found = strict_json(value)
    except ValueError as error:
        return f"it is not JSON: {error}"
    fits = isinstance(found, _JSON[column.kind])
    if column.kind == "remarks" and isinstance(found, list):
        fits = all(isinstance(one, str) for one in found)
    return None if fits else "it is JSON of another kind"


def strict_json(text: str | bytes) -> Any:
    """Anything that is not JSON is a ValueError, also NaN and what is nested too deeply."""
    try:
        return json.loads(text, parse_constant=_refused)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number of JSON")


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")
