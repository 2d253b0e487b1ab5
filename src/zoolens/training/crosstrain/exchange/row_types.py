"""The types of the rows of a stranger's table, checked by pydantic; what is wrong is named by row and column."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from io import BytesIO
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from typing_extensions import TypedDict

from zoolens.training.crosstrain.exchange.exchange_schema import (
    MAX_JSON,
    MAX_LIST,
    MAX_PROBLEMS,
    MAX_TEXT,
    Column,
    shortened,
)

Row = Mapping[str, Any]
_JSON: Final[Mapping[str, Any]] = {"object": dict[str, Any], "remarks": list[str], "json": str | bool | int | float}
_UNFIT: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")  # a terminal obeys some of these
_LARGEST: Final = 1 << 63  # of a whole number that stands for itself


def read_rows(table: str, columns: Sequence[Column], lines: bytes) -> tuple[list[Row], list[str]]:
    """The rows of JSON `lines`, and what is wrong with them in one sentence each. A line that is no object of these
    columns is a ValueError: the process that unpacks tables writes none."""
    by_name = {column.name: column for column in columns}
    adapter = _adapter(table, tuple(columns))
    rows: list[Row] = []
    problems: list[str] = []
    for number, line in enumerate(BytesIO(lines)):
        try:
            rows.append(adapter.validate_json(line))
        except ValidationError as error:
            for detail in error.errors():
                name = str(next(iter(detail["loc"]), ""))
                if name not in by_name:
                    raise ValueError(f"line {number} is no row of {table}") from error
                problems.append(f"{table}.parquet, row {number}, column {name}: {_words(by_name[name], detail)}.")
            if len(problems) >= MAX_PROBLEMS:
                break
    return rows, problems[:MAX_PROBLEMS]


@lru_cache(maxsize=32)  # to make it takes three times as long as to check a small study; columns are a stranger's
def _adapter(table: str, columns: tuple[Column, ...]) -> TypeAdapter[Any]:
    types = {column.name: _type(column) for column in columns}
    typed = TypedDict(table, types)  # type: ignore[misc]
    typed.__pydantic_config__ = ConfigDict(strict=True, extra="forbid")  # type: ignore[attr-defined]
    return TypeAdapter(typed)


def _type(column: Column) -> Any:
    limits: dict[str, float] = {"ge": column.low} if math.isfinite(column.low) else {}
    limits |= {"le": column.high} if math.isfinite(column.high) else {}
    number = Annotated[float, Field(allow_inf_nan=False, **limits)]
    whole = Annotated[int, Field(**limits)]
    kinds: dict[str, Any] = {
        "int": whole,
        "int32": whole,
        "float": number,
        "bool": bool,
        "ints": Annotated[list[whole], Field(max_length=MAX_LIST)],
        "floats": Annotated[list[number | None], Field(max_length=MAX_LIST)],
        "text": Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(_shown)],
    }
    if column.choices:
        kinds["text"] = Literal[column.choices]
    for kind, content in _JSON.items():
        check = partial(_check_json, TypeAdapter(content, config=ConfigDict(strict=True)))
        kinds[kind] = Annotated[str, Field(max_length=MAX_JSON), AfterValidator(_shown), AfterValidator(check)]
    return kinds[column.kind] | None if column.nullable else kinds[column.kind]


def _words(column: Column, error: ErrorDetails) -> str:
    value = error["input"]
    if value is None:
        return "an entry is empty" if len(error["loc"]) > 1 else "it is empty"
    if error["type"] == "finite_number":
        return f"{value} is not finite"
    if error["type"] in ("greater_than_equal", "less_than_equal"):
        return f"{value} is not between {column.low:g} and {column.high:g}"
    if error["type"] == "string_too_long":
        return f"its text is longer than {error['ctx']['max_length']} characters"
    if error["type"] == "too_long":
        return f"it has more than {MAX_LIST} entries"
    if error["type"] == "literal_error":
        return f"{shortened(value)} is not one of {', '.join(column.choices)}"
    return error["msg"].removeprefix("Value error, ")


def _shown(text: str) -> str:
    if _UNFIT.search(text):
        raise ValueError("it holds characters that cannot be shown")
    return text


def _check_json(adapter: TypeAdapter[Any], text: str) -> str:
    try:
        parsed = strict_json(text)
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from error
    try:
        adapter.validate_python(parsed)
    except ValidationError:
        raise ValueError("it is JSON of another kind") from None
    if isinstance(parsed, int) and abs(parsed) >= _LARGEST:
        raise ValueError("it is JSON of another kind")
    return text


def strict_json(text: str | bytes) -> Any:
    """Anything that is not JSON is a ValueError, also NaN, what is nested too deeply, and texts or numbers that nobody
    can show or store."""
    try:
        parsed = json.loads(text, parse_constant=_refused)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    waiting = [parsed]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str) and _UNFIT.search(value):
            raise ValueError("a text holds characters that cannot be shown")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("a number is too large")
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += [*value, *value.values()]
    return parsed


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number of JSON")
