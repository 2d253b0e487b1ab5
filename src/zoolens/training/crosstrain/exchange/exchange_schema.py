"""The tables of an exported study: their columns, units and ranges, which whoever writes and whoever checks share."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from zoolens.base.store.records import Provenance
from zoolens.training.crosstrain.training.trials import Hyperparameter

FORMAT: Final = "zoolens crosstrain study 1"
HYPERPARAMETER: Final = "hyperparameter."
MIXED: Final = (
    "hyperparameter-json."  # where a hyperparameter is true or false, or a number in one trial and a word in another
)
STATUSES: Final = ("finished", "non-finite", "out-of-memory", "failed")
MAX_TEXT: Final = 4096
MAX_NAME: Final = 200  # of a column
MAX_COLUMNS: Final = 2000
MAX_JSON: Final = 1 << 20
MAX_LIST: Final = 100_000
MAX_PROBLEMS: Final = 20  # of one table; the first ones tell enough
_AS_JSON: Final = {"type": "string", "contentMediaType": "application/json"}
# Texts are never in lists: a reader could not bound what a few bytes unpack to.
_KINDS: Final[Mapping[str, tuple[pa.DataType, Mapping[str, Any]]]] = {  # our name: Arrow's type, JSON Schema's
    "text": (pa.string(), {"type": "string"}),
    "object": (pa.string(), _AS_JSON),  # an object
    "remarks": (pa.string(), _AS_JSON),  # a list of texts
    "json": (pa.string(), _AS_JSON),  # a number, a text, true or false
    "int": (pa.int64(), {"type": "integer"}),
    "int32": (pa.int32(), {"type": "integer"}),
    "float": (pa.float64(), {"type": "number"}),
    "bool": (pa.bool_(), {"type": "boolean"}),
    "ints": (pa.list_(pa.int64()), {"type": "array", "items": {"type": "integer"}}),
    "floats": (pa.list_(pa.float64()), {"type": "array", "items": {"type": ["number", "null"]}}),
}


@dataclass(frozen=True)
class Column:
    """`low` and `high` hold for every number in it; `nullable`: it may be unknown."""

    name: str
    kind: str
    about: str
    unit: str = ""
    low: float = -math.inf
    high: float = math.inf
    nullable: bool = False
    choices: tuple[str, ...] = ()

    @property
    def arrow(self) -> pa.DataType:
        return _KINDS[self.kind][0]

    def json_schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {**_KINDS[self.kind][1], "description": self.about}
        if self.nullable:
            schema["type"] = [schema["type"], "null"]
        if self.unit:
            schema["unit"] = self.unit
        if self.choices:
            schema["enum"] = list(self.choices)
        limits = {"minimum": self.low, "maximum": self.high}
        schema |= {name: value for name, value in limits.items() if math.isfinite(value)}
        return schema


def _index(name: str, about: str, *, nullable: bool = False) -> Column:
    return Column(name, "int32", about, low=0, nullable=nullable)


TRIALS: Final = (
    Column("trial", "text", "name of the trial, unique in this study"),
    _index("dataset", "its place in study.json's list of datasets, counted from 0"),
    Column("notes", "remarks", "remarks of whoever ran it"),
    Column("details", "object", "what else is known: recipe, subspace, overrides"),
    Column("conditions", "object", "what else can change the numbers: machine, device, loop"),
    Column(
        "provenance",
        "text",
        "whether it was measured or is somebody's claim",
        choices=(Provenance.MEASURED, Provenance.CLAIMED),
    ),
)
PAIRS: Final = (
    Column("trial", "text", "the trial of both sides"),
    Column("framework_a", "text", "one side"),
    Column("framework_b", "text", "the other"),
    Column("churn", "float", "share of test samples that they answer differently", "fraction", low=0, high=1),
)
SIDES: Final = (
    _index("side", "number of this row, counted from 0; other tables refer to it"),
    Column("trial", "text", "the trial it belongs to"),
    Column("framework", "text", "who trained"),
    Column("status", "text", "how the training ended", choices=STATUSES),
    Column("message", "text", "why, where it did not finish"),
    Column("accuracy", "float", "share of test samples answered right", "fraction", low=0, high=1, nullable=True),
    Column("exact", "bool", "whether the accuracy is a quotient of counts"),
    Column("correct", "int", "test samples answered right", "samples", low=0, nullable=True),
    Column("total", "int", "test samples", "samples", low=1, nullable=True),
    Column("class_accuracy", "floats", "share answered right, for each class", "fraction", low=0, high=1),
    Column("answered", "ints", "how often each class was answered", "samples", low=0),
    Column("collapsed", "bool", "whether it always gave the same answer", nullable=True),
    Column("seconds", "float", "time to train and test", "s", low=0, nullable=True),
    Column("parameters", "int", "numbers that the optimizer learned", low=0, nullable=True),
    Column("steps", "int", "optimizer steps", low=0, nullable=True),
    _index("losses", "how many epochs have a loss in epochs.parquet"),
    _index("accuracies", "how many epochs have an accuracy there"),
    _index("recipe", "its place in recipes.json, counted from 0", nullable=True),
    Column("told", "object", "semantics that the framework was told; what is null was left to it"),
    Column("semantics", "object", "semantics that the live objects had"),
    Column("versions", "object", "distributions and their versions; the first one is the framework's"),
)
EPOCHS: Final = (
    _index("side", "row of sides.parquet"),
    Column("epoch", "int32", "counted from 1", low=1),
    Column("loss", "float", "mean over the training samples; null where it is not finite", nullable=True),
    Column("accuracy", "float", "on the test samples after it", "fraction", low=0, high=1, nullable=True),
    Column("seconds", "float", "training alone", "s", low=0, nullable=True),
)
PREDICTIONS: Final = (
    _index("side", "row of sides.parquet"),
    _index("sample", "test sample, counted from 0"),
    _index("answer", "the class that was answered"),
)
LABELS: Final = (
    _index("dataset", "place in study.json's list of datasets"),
    _index("sample", "test sample, counted from 0"),
    _index("label", "its true class"),
)
Tables = Mapping[str, tuple[Column, ...]]
TABLES: Final[Tables] = {
    "trials": TRIALS,
    "pairs": PAIRS,
    "sides": SIDES,
    "epochs": EPOCHS,
    "predictions": PREDICTIONS,
    "labels": LABELS,
}
NUMBERS: Final = ("predictions", "labels")  # tables of numbers alone, which may be long


# --- hyperparameters: columns that each study has for itself


def hyperparameter_columns(settings: Iterable[Mapping[str, Hyperparameter]]) -> tuple[Column, ...]:
    """One for each name that a trial has; its type holds the values exactly."""
    types: dict[str, set[type]] = {}
    for values in settings:
        for name, value in values.items():
            types.setdefault(name, set()).add(type(value))
    return tuple(_hyperparameter(name, value_types) for name, value_types in types.items())


def _hyperparameter(name: str, types: set[type]) -> Column:
    for kind, python in (("int", int), ("float", float), ("text", str)):
        if types == {python}:
            return hyperparameter_column(f"{HYPERPARAMETER}{name}", kind)
    return hyperparameter_column(f"{MIXED}{name}", "json")


def hyperparameter_column(name: str, kind: str) -> Column:
    """`name` is that of the column; what follows its first dot is the name of the hyperparameter."""
    about = f"the hyperparameter {name.partition('.')[2]}; null where a trial has none"
    return Column(name, kind, about, nullable=True)


def found_hyperparameters(schema: pa.Schema) -> tuple[Column, ...]:
    """Returns the columns of hyperparameters as somebody else wrote them; other columns are left out."""
    kinds = {_KINDS[kind][0]: kind for kind in ("int", "float", "text")}
    columns = []
    for field in schema:
        if field.name.startswith(HYPERPARAMETER) and field.type in kinds:
            columns.append(hyperparameter_column(field.name, kinds[field.type]))
        elif field.name.startswith(MIXED) and field.type == pa.string():
            columns.append(hyperparameter_column(field.name, "json"))
    return tuple(columns)


def setting_cells(settings: Mapping[str, Hyperparameter], columns: Iterable[Column]) -> dict[str, Any]:
    cells = {}
    for column in columns:
        name = column.name.partition(".")[2]
        if name in settings:
            cells[column.name] = json.dumps(settings[name]) if column.kind == "json" else settings[name]
    return cells


def settings_of(row: Mapping[str, Any], columns: Iterable[Column]) -> dict[str, Hyperparameter]:
    settings = {}
    for column in columns:
        if (value := row[column.name]) is not None:
            settings[column.name.partition(".")[2]] = json.loads(value) if column.kind == "json" else value
    return settings


# --- tables and their description


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    return pa.schema([pa.field(column.name, column.arrow, nullable=column.nullable) for column in columns])


def description(hyperparameters: Sequence[Column]) -> dict[str, Any]:
    """schema.json: one JSON Schema of a row for every table. `unit` is ours, beside the standard words."""
    tables = {**TABLES, "trials": (*TRIALS, *hyperparameters)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": FORMAT,
        "description": "Rows of NAME.parquet are objects of #/$defs/NAME.",
        "$defs": {name: _row_schema(columns) for name, columns in tables.items()},
    }


def _row_schema(columns: Iterable[Column]) -> dict[str, Any]:
    properties = {column.name: column.json_schema() for column in columns}
    return {
        "type": "object",
        "properties": properties,
        "required": [column.name for column in columns],
        "additionalProperties": False,
    }


def shortened(text: str) -> str:
    """A stranger's text in quotes, cut where it is long."""
    return repr(text if len(text) <= 60 else f"{text[:60]}…")
