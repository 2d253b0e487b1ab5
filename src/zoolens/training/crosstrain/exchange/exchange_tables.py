"""The documents and tables of a folder, read within limits and held against the schema: still only rows and numbers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from zoolens.base.engine.policy import Rights
from zoolens.base.engine.process import WorkerKind, WorkerProcess
from zoolens.base.errors import Circumstance, WorkerError
from zoolens.training.crosstrain.exchange import parquet_worker
from zoolens.training.crosstrain.exchange.contents import RECIPES, SCHEMA, STUDY, Answers, RecipeList, StudyFile
from zoolens.training.crosstrain.exchange.exchange_schema import (
    HYPERPARAMETER,
    MIXED,
    NUMBERS,
    TABLES,
    Column,
    description,
    hyperparameter_column,
    shortened,
)
from zoolens.training.crosstrain.exchange.files import FolderRefused
from zoolens.training.crosstrain.exchange.row_types import Row, read_rows, strict_json
from zoolens.training.crosstrain.training.recipe import Recipe

MAX_ROWS: Final = 1_000_000
MAX_NUMBERS: Final = 50_000_000  # rows of answers; values of any other table, entries of lists among them
MAX_TEXTS: Final = 1 << 29  # bytes of a table's texts once they are unpacked
MAX_ROW_JSON: Final = 1 << 28  # bytes of a table's rows as JSON, which this process holds
SECONDS: Final = 300.0  # that one table may take
_MODULE: Final = parquet_worker.__name__
_KIND: Final = WorkerKind(
    "process that reads tables",
    _MODULE,
    _MODULE,
    variables=(("ARROW_DEFAULT_MEMORY_POOL", "system"),),  # others reserve memory that they do not use
    rights=Rights(memory=parquet_worker.MEMORY),
)
T = TypeVar("T")


@dataclass(frozen=True)
class FolderTables:
    """`rows` by table; `answers` by side, `labels` by dataset, each in the order of the test samples."""

    study: StudyFile
    recipes: tuple[Recipe, ...]
    settings: tuple[Column, ...]
    rows: Mapping[str, list[Row]]
    answers: Mapping[int, Answers]
    labels: Mapping[int, Answers]


def read_tables(content: Mapping[str, bytes]) -> FolderTables:
    """Refused, with everything that is wrong."""
    problems: list[str] = []
    study = _document(content, STUDY, StudyFile.model_validate, problems)
    recipes = _document(content, RECIPES, RecipeList.validate_python, problems)
    unpacked = {name: _reader().read(name, content[f"{name}.parquet"]) for name in TABLES}
    settings = unpacked["trials"].settings
    if _document(content, SCHEMA, _as_it_is, problems) != json.loads(json.dumps(description(settings))):
        problems.append(f"{SCHEMA} does not describe these tables.")
    for name in TABLES:
        problems += unpacked[name].problems
    rows = {name: unpacked[name].rows for name in TABLES if name not in NUMBERS}
    numbers = {name: _by_owner(name, TABLES[name], unpacked[name].numbers, problems) for name in NUMBERS}
    if problems or study is None or recipes is None:
        raise FolderRefused(problems)
    return FolderTables(study, recipes, settings, rows, numbers["predictions"], numbers["labels"])


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


def _as_it_is(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class _Unpacked:
    """`settings`: the columns of hyperparameters. A table of numbers has `numbers` by column, any other `rows`, and
    what is wrong with them."""

    settings: tuple[Column, ...] = ()
    rows: list[Row] = field(default_factory=list)
    problems: Sequence[str] = ()
    numbers: Mapping[str, NDArray[Any]] = field(default_factory=dict)


class _TableReader:
    """Asks a process to unpack tables. The process is sandboxed, and stays for the next table."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: WorkerProcess | None = None

    def read(self, name: str, content: bytes) -> _Unpacked:
        numbers = name in NUMBERS
        limits = {
            "rows": MAX_NUMBERS if numbers else MAX_ROWS,
            "values": MAX_NUMBERS * (len(TABLES[name]) if numbers else 1),
            "texts": MAX_TEXTS,
            "json": MAX_ROW_JSON,
        }
        with self._lock:
            return self._asked(name, {"table": name, "limits": limits}, np.frombuffer(content, np.uint8))

    def _asked(self, name: str, request: Mapping[str, Any], content: NDArray[np.uint8]) -> _Unpacked:
        if self._process is None or not self._process.alive:
            self._process = _started()
        process, doing = self._process, f"reading {name}.parquet"
        try:
            answer = process.ask(request, doing, {"content": content}, timeout=SECONDS)
        except Circumstance:
            raise
        except WorkerError as error:
            hint = f" {error.hint}" if error.hint else ""
            raise FolderRefused([f"{name}.parquet cannot be read: {error.message}{hint}"]) from error
        with process.sensible(doing):
            if answer["problems"]:
                raise FolderRefused(map(str, answer["problems"]))
            tensors = process.outputs.read(answer["tensors"], _limit(name))
            return _unpacked(name, _settings(answer["settings"]), tensors)


def _started() -> WorkerProcess:
    """A process that answers. One that cannot start on this machine says nothing of any table: a Circumstance."""
    process = WorkerProcess(_KIND)
    try:
        process.ask({}, "starting", timeout=SECONDS)
    except WorkerError as error:
        process.stop()
        raise Circumstance(error.message, hint=error.hint) from error
    return process


def _limit(name: str) -> int:
    """The bytes that a table may have once it is unpacked."""
    return MAX_NUMBERS * len(TABLES[name]) * 4 if name in NUMBERS else MAX_ROW_JSON


def _settings(kinds: Mapping[str, str]) -> tuple[Column, ...]:
    """The columns of hyperparameters that the process names. ValueError: it found none of these in a table."""
    for name, kind in kinds.items():
        if kind not in (("json",) if name.startswith(MIXED) else ("int", "float", "text")):
            raise ValueError(f"a hyperparameter of the kind {shortened(str(kind))}")
        if not name.startswith((HYPERPARAMETER, MIXED)):
            raise ValueError(f"a hyperparameter {shortened(name)}")
    return tuple(hyperparameter_column(name, kind) for name, kind in kinds.items())


def _unpacked(name: str, settings: tuple[Column, ...], tensors: Mapping[str, NDArray[Any]]) -> _Unpacked:
    """Copies of what `tensors` hold, since the process could change them. ValueError or KeyError: they are not those
    of this table."""
    if name not in NUMBERS:
        if (written := tensors["rows"]).dtype != np.uint8:
            raise ValueError(f"rows of the type {written.dtype}")
        return _Unpacked(settings, *read_rows(name, (*TABLES[name], *settings), written.tobytes()))
    numbers = {column.name: tensors[column.name].copy() for column in TABLES[name]}
    if {column.dtype for column in numbers.values()} != {np.dtype(np.int32)}:
        raise ValueError("columns that are no numbers of 32 bits")
    if len({column.shape for column in numbers.values()}) > 1 or any(column.ndim != 1 for column in numbers.values()):
        raise ValueError("columns that differ in length")
    return _Unpacked(numbers=numbers)


@cache
def _reader() -> _TableReader:
    """The reader of this program; its process ends with the program."""
    return _TableReader()


def _by_owner(
    name: str, columns: Sequence[Column], numbers: Mapping[str, NDArray[Any]], problems: list[str]
) -> dict[int, Answers]:
    """The values of each side or dataset; its samples must come in order, from 0."""
    owner, sample, value = (numbers[column.name] for column in columns)
    if any((column < 0).any() for column in (owner, sample, value)):
        problems.append(f"{name}.parquet has numbers below 0.")
        return {}
    by_owner: dict[int, Answers] = {}
    for place in _stretches(owner):
        number = int(owner[place.start])
        expected = np.arange(place.stop - place.start, dtype=np.int32)
        if number in by_owner or not np.array_equal(sample[place], expected):
            problems.append(f"{name}.parquet: the samples of {columns[0].name} {number} are not in order from 0.")
            return {}
        by_owner[number] = value[place]
    return by_owner


def _stretches(owner: NDArray[np.int32]) -> Iterator[slice]:
    cuts = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), len(owner)]
    return (slice(start, stop) for start, stop in pairwise(cuts) if stop > start)
