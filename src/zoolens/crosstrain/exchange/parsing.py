"""A folder's documents and tables, read with bounds and held against the schema: still only rows and numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import ValidationError

from zoolens.crosstrain.exchange.contents import RECIPES, SCHEMA, STUDY, Answers, RecipeList, StudyFile
from zoolens.crosstrain.exchange.files import Refused
from zoolens.crosstrain.exchange.schema import TABLES, TRIALS, Column, description, found_hyperparameters
from zoolens.crosstrain.exchange.validating import column_problems, row_problems, strict_json
from zoolens.crosstrain.training.recipe import Recipe
from zoolens.datasets.parquetpages import extent

MAX_ROWS: Final = 1_000_000
MAX_NUMBERS: Final = 50_000_000  # rows of answers; values of any other table, entries of lists among them
MAX_UNPACKED: Final = 1 << 30  # bytes of a table's pages
MAX_TEXTS: Final = 1 << 29  # bytes of a table's texts once they are unpacked
_NUMBERS: Final = ("predictions", "labels")  # tables of numbers alone, which may be long
Row = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Parsed:
    """`rows` by table; `answers` by side, `labels` by dataset, each in the order of the test samples."""

    study: StudyFile
    recipes: tuple[Recipe, ...]
    settings: tuple[Column, ...]
    rows: Mapping[str, list[Row]]
    answers: Mapping[int, Answers]
    labels: Mapping[int, Answers]


def parse(content: Mapping[str, bytes]) -> Parsed:
    """Refused, with everything that is wrong."""
    problems: list[str] = []
    study = _document(content, STUDY, StudyFile.model_validate, problems)
    recipes = _document(content, RECIPES, RecipeList.validate_python, problems)
    opened = {name: _opened(name, content[f"{name}.parquet"]) for name in TABLES}
    settings = found_hyperparameters(opened["trials"].plain)
    columns = {**TABLES, "trials": (*TRIALS, *settings)}
    tables = {name: one.read(columns[name]) for name, one in opened.items()}
    if _document(content, SCHEMA, _as_it_is, problems) != json.loads(json.dumps(description(settings))):
        problems.append(f"{SCHEMA} does not describe these tables.")
    rows = {name: table.to_pylist() for name, table in tables.items() if name not in _NUMBERS}
    for name, found in rows.items():
        problems += row_problems(name, columns[name], found)
    numbers = {name: _by_owner(name, columns[name], tables[name], problems) for name in _NUMBERS}
    if problems or study is None or recipes is None:
        raise Refused(problems)
    return Parsed(study, recipes, settings, rows, numbers["predictions"], numbers["labels"])


def _document(content: Mapping[str, bytes], name: str, validate: Callable[[Any], T], problems: list[str]) -> T | None:
    try:
        return validate(strict_json(content[name]))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))[:120]
        problems.append(f"{name}{f', {place}' if place else ''}: {first['msg']}.")
    except ValueError as error:
        problems.append(f"{name} is not JSON: {error}.")
    return None


def _as_it_is(found: Any) -> Any:
    return found


@dataclass(frozen=True)
class _Opened:
    """Texts stay behind numbers when they are read, so that one long text is not unpacked a million times."""

    name: str
    file: pq.ParquetFile
    plain: pa.Schema

    def read(self, columns: Sequence[Column]) -> pa.Table:
        if problems := list(column_problems(self.name, columns, self.plain)):
            raise Refused(problems)
        try:
            table = self.file.read(use_threads=False)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise Refused([f"{self.name}.parquet cannot be read: {str(error).splitlines()[0]}."]) from error
        size = sum(_text_size(table[name]) for name in table.column_names)
        if size > MAX_TEXTS:
            raise Refused([f"{self.name}.parquet has more than {MAX_TEXTS >> 20} MiB of text."])
        return table


def _opened(name: str, content: bytes) -> _Opened:
    try:
        plain = pq.ParquetFile(pa.BufferReader(content)).schema_arrow
        texts = [field.name for field in plain if pa.types.is_string(field.type)]
        file = pq.ParquetFile(pa.BufferReader(content), read_dictionary=texts)
        found = extent(file.metadata, content)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Refused([f"{name}.parquet is not a Parquet file: {str(error).splitlines()[0]}."]) from error
    limit = MAX_NUMBERS if name in _NUMBERS else MAX_ROWS
    if found.rows > limit:
        raise Refused([f"{name}.parquet has more than {limit} rows."])
    most = MAX_NUMBERS * (len(TABLES[name]) if name in _NUMBERS else 1)
    if found.values > most:
        raise Refused([f"{name}.parquet has more than {most} values."])
    if found.size > MAX_UNPACKED:
        raise Refused([f"{name}.parquet is more than {MAX_UNPACKED >> 20} MiB when it is unpacked."])
    return _Opened(name, file, plain)


def _text_size(column: pa.ChunkedArray) -> int:
    if not pa.types.is_dictionary(column.type):
        return 0
    taken = (pc.take(pc.binary_length(chunk.dictionary), chunk.indices) for chunk in column.chunks)
    return sum(pc.sum(one).as_py() or 0 for one in taken)


def _by_owner(name: str, columns: Sequence[Column], table: pa.Table, problems: list[str]) -> dict[int, Answers]:
    """The values of each side or dataset; its samples must come in order, from 0."""
    if any(table[column.name].null_count for column in columns):
        problems.append(f"{name}.parquet has empty cells.")
        return {}
    owner, sample, value = (np.asarray(table[column.name].to_numpy(), np.int32) for column in columns)
    if min((int(one.min()) for one in (owner, sample, value) if len(one)), default=0) < 0:
        problems.append(f"{name}.parquet has numbers below 0.")
        return {}
    found: dict[int, Answers] = {}
    for place in _stretches(owner):
        number = int(owner[place.start])
        expected = np.arange(place.stop - place.start, dtype=np.int32)
        if number in found or not np.array_equal(sample[place], expected):
            problems.append(f"{name}.parquet: the samples of {columns[0].name} {number} are not in order from 0.")
            return {}
        found[number] = value[place]
    return found


def _stretches(owner: NDArray[np.int32]) -> Iterator[slice]:
    cuts = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), len(owner)]
    return (slice(start, stop) for start, stop in pairwise(cuts) if stop > start)
