"""What a model answered, input by input: its signature, from which every accuracy figure is derived.

Metrics and comparisons never run a model: they read this table, so a new one costs no inference. A model with several
outputs has the columns of each in the same row, so that a run that is killed never has half an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zoolens.base.errors import ModelError, StoreError, ZoolensError
from zoolens.inventory.preprocess.classes import Translation
from zoolens.inventory.tasks.task import DEFAULT_TASK, Answers, column, task_named

KIND: Final = "predictions"  # name of the bulk table in the store

_SHARED: Final = {"index": pa.int64(), "input": pa.string(), "label": pa.int32()}
_DIGEST: Final = {"digest": pa.uint64()}  # of the raw output bits: equal digests, equal answers


def prefix(output: int) -> str:
    """Returns what stands before the column names of an output: none for the main one, "out1." for the next."""
    return f"out{output}." if output else ""


def schema(tasks: Sequence[str] = (DEFAULT_TASK,)) -> pa.Schema:
    """One row an input: what it is, then the answers of every declared output."""
    fields = dict(_SHARED)
    for output, task in enumerate(tasks):
        columns = task_named(task).columns(main=not output)
        if taken := sorted({*_SHARED, *_DIGEST} & set(columns)):
            raise ZoolensError(
                f"The task {task} keeps columns called {', '.join(taken)}, which every table of answers has.",
                hint="Give the columns of the task other names.",
            )
        own = {**columns, **_DIGEST}
        fields |= {prefix(output) + name: kind for name, kind in own.items()}
    return pa.schema(list(fields.items()))


@dataclass(frozen=True)
class Predictions:
    """What a model answered to every input, in every output: the table as arrays.

    `labels` are the numbers of the true classes, −1 where an input has none; they are about the main output, the first.
    `classes` are the names of the dataset's classes. The properties are about a main output that answers with classes:
    `top` and `score` are n × min(5, classes). Where only classes were kept, as of networks that were trained here,
    scores are NaN and there is no digest.
    """

    inputs: NDArray[Any]
    labels: NDArray[np.int32]
    outputs: tuple[Answers, ...]
    classes: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def main(self) -> Answers:
        return self.outputs[0]

    @property
    def model(self) -> str:
        """What errors call the model."""
        return "The model"

    @property
    def labelled(self) -> bool:
        return bool((self.labels >= 0).any())

    @property
    def top(self) -> NDArray[np.int32]:
        return column(self.main, "top")

    @property
    def score(self) -> NDArray[np.float32]:
        kept: NDArray[np.float32] | None = self.main.columns.get("score")
        return self._unknown()[:, None] if kept is None else kept

    @property
    def label_score(self) -> NDArray[np.float32]:
        kept: NDArray[np.float32] = self.main.columns.get("label_score", self._unknown())
        return kept

    @property
    def sum_squares(self) -> NDArray[np.float32]:
        kept: NDArray[np.float32] = self.main.columns.get("sum_squares", self._unknown())
        return kept

    @property
    def digest(self) -> NDArray[np.uint64] | None:
        return self.main.digest

    @property
    def answers(self) -> NDArray[Any]:
        """The class that the main output answers to each input."""
        task = task_named(self.main.task)
        if not task.discrete:
            raise ZoolensError(
                f"{self.model} does {self.main.task}: it answers no class.", hint="Compare its vectors instead."
            )
        return task.signature(self.main)

    @property
    def scores(self) -> NDArray[np.float64] | None:
        """How right each answer of the main output is, between 0 and 1; None: labels cannot judge it."""
        return task_named(self.main.task).scores(self.main, self.labels)

    @property
    def correct(self) -> NDArray[np.bool_]:
        return np.asarray(self.answers == self.labels)

    @property
    def scored(self) -> bool:
        return not np.isnan(self.score).any()

    @property
    def ties(self) -> int:
        """Inputs whose two best classes have exactly the same score, as quantised scores often do: the class with the
        lower number is the answer then, and another order of the classes would give another."""
        return int(np.count_nonzero(self.score[:, 0] == self.score[:, 1])) if self.score.shape[1] > 1 else 0

    def class_name(self, index: int) -> str:
        return self.classes[index] if self.classes and index < len(self.classes) else str(index)

    def _unknown(self) -> NDArray[np.float32]:
        return np.full(len(self), np.nan, np.float32)


Some = TypeVar("Some", bound=Predictions)


def renumbered(predictions: Some, order: Translation | None) -> Some:
    """Return predictions with the classes of the main output in another order; None leaves them as they are.

    The probability of the true class was kept under its old number: it is known again where that class is among the
    best.
    """
    main = predictions.main
    top = main.columns.get("top")
    if order is None or top is None:
        return predictions
    if top.max(initial=0) >= len(order):
        raise ZoolensError(
            f"{predictions.model} answers class {int(top.max())} but names only {len(order)} classes.",
            hint="Correct the labels in its manifest.",
        )
    columns = {**main.columns, "top": order[top]}
    if "label_score" in columns:
        hits = columns["top"] == predictions.labels[:, None]
        label_score = np.where(hits.any(axis=1), (columns["score"] * hits).sum(axis=1), np.float32(np.nan))
        columns["label_score"] = label_score.astype(np.float32)
    return replace(predictions, outputs=(replace(main, columns=columns), *predictions.outputs[1:]))


# --- reading


def read_predictions(
    table: pa.Table,
    classes: tuple[str, ...] | None = None,
    declared: Sequence[Mapping[str, Any]] = (),
    whose: str = "a run",
) -> Predictions:
    """A table of answers as arrays. `declared`: what the run says of its outputs. `whose`: what errors call the run."""
    return Predictions(
        # Strings by to_numpy would import pandas.
        inputs=np.array(table["input"].to_pylist(), dtype=object),
        labels=numbers(table["label"]),
        outputs=tuple(_read_output(table, number, declared, whose) for number in range(_outputs(table))),
        classes=classes,
    )


def _outputs(table: pa.Table) -> int:
    number = 1
    while f"{prefix(number)}digest" in table.column_names:
        number += 1
    return number


def _read_output(table: pa.Table, number: int, declared: Sequence[Mapping[str, Any]], whose: str) -> Answers:
    about, before = declared[number] if number < len(declared) else {}, prefix(number)
    # Runs of before do not say which task they did.
    vectors = f"{before}vector" in table.column_names
    task = str(about.get("task") or ("other" if vectors else DEFAULT_TASK))
    columns = dict(_columns(table, before, task, whose, main=not number))
    width = columns["vector"].shape[1] if vectors else about.get("width")
    return Answers(
        output=str(about.get("name") or f"output {number + 1}"),
        task=task,
        columns=columns,
        width=None if width is None else int(width),
    )


def _columns(table: pa.Table, before: str, task: str, whose: str, *, main: bool) -> Iterator[tuple[str, NDArray[Any]]]:
    for name in (*task_named(task).columns(main=main), "digest"):
        if f"{before}{name}" in table.column_names:
            stored = table[f"{before}{name}"]
            yield name, _matrix(stored, whose) if pa.types.is_list(stored.type) else numbers(stored)


def _matrix(stored: pa.ChunkedArray, whose: str) -> NDArray[Any]:
    lists = stored.combine_chunks()
    values = np.from_dlpack(lists.values)
    if len(lists) and (len(values) % len(lists) or lists.null_count or _ragged(lists)):
        raise StoreError(
            f"The predictions of {whose} have rows of different lengths.",
            hint="Measure it again with `zoolens eval --fresh`.",
        )
    return values.reshape(len(lists), -1)


def _ragged(lists: pa.ListArray) -> bool:
    return bool(np.ptp(np.diff(np.from_dlpack(lists.offsets))))


def numbers(stored: pa.ChunkedArray) -> NDArray[Any]:
    """A column of numbers, without `to_numpy`, which imports pandas where there is one: half a second."""
    return np.from_dlpack(stored.combine_chunks())


# --- writing


@dataclass(frozen=True)
class AnswerBatch:
    """What one output answered: `values` are probabilities or vectors, `raw` the bits they were read from."""

    values: NDArray[np.float32]
    raw: NDArray[Any]


class PredictionBuffer:
    """Collects batches until they are written as one part."""

    def __init__(self, start: int = 0, tasks: Sequence[str] = (DEFAULT_TASK,)) -> None:
        self._parts: list[dict[str, Any]] = []
        self._next = start  # index of the input that comes next
        self._tasks = tuple(tasks)
        self._schema = schema(tasks)
        self.rows = 0

    def add(self, ids: Sequence[str], labels: NDArray[Any], answers: Sequence[AnswerBatch]) -> None:
        """The answers that follow, one batch for each output."""
        columns: dict[str, Any] = {
            "index": np.arange(self._next, self._next + len(labels)),
            "input": list(ids),
            "label": labels.astype(np.int32),
        }
        for output, (task, answer) in enumerate(zip(self._tasks, answers, strict=True)):
            _refuse_not_finite(ids, answer.values)
            own = task_named(task).keep(answer.values, None if output else labels)
            columns |= {prefix(output) + name: column for name, column in own.items()}
            columns[prefix(output) + "digest"] = bit_digest(answer.raw)
        self._parts.append(columns)
        self.rows += len(labels)
        self._next += len(labels)

    def take(self) -> pa.Table:
        """Everything collected since the last call, as a table."""
        parts, self._parts, self.rows = self._parts, [], 0
        columns: dict[str, Any] = {}
        for name in self._schema.names:
            pieces = [part[name] for part in parts]
            if name == "input":
                columns[name] = pa.array([input_id for piece in pieces for input_id in piece], pa.string())
                continue
            kind = self._schema.field(name).type
            stacked = np.concatenate(pieces)
            if stacked.ndim == 2:
                flat = pa.array(stacked.reshape(-1), kind.value_type)
                offsets = np.arange(0, stacked.size + 1, stacked.shape[1], dtype=np.int32)
                columns[name] = pa.ListArray.from_arrays(pa.array(offsets), flat)
            else:
                columns[name] = pa.array(stacked, kind)
        return pa.table(columns, schema=self._schema)


def _refuse_not_finite(ids: Sequence[str], values: NDArray[np.float32]) -> None:
    """Rows that are not finite make the model's figures meaningless."""
    with np.errstate(over="ignore"):
        # Quick; finite numbers may add up to infinity too.
        suspect = np.flatnonzero(~np.isfinite(values.sum(axis=1)))
    bad = suspect[~np.isfinite(values[suspect]).all(axis=1)]
    if len(bad):
        raise ModelError(
            f"The model answered NaN or infinity for {len(bad)} of {len(ids)} inputs, first for input {ids[bad[0]]}.",
            hint="Check the preprocessing in the manifest, and whether the file is intact.",
        )


def bit_digest(raw: NDArray[Any]) -> NDArray[np.uint64]:
    """64 bits per row of a raw output: equal bits give equal digests on every machine and in every version."""
    rows = np.ascontiguousarray(raw).reshape(len(raw), -1)
    octets = rows.view(np.uint8).reshape(len(raw), -1)
    width = -(-octets.shape[1] // 8) * 8
    padded = np.zeros((len(raw), width), np.uint8)
    padded[:, : octets.shape[1]] = octets
    words = padded.view("<u8")
    # Odd multipliers from a fixed Weyl sequence: position matters, and no bit is lost.
    multipliers = (np.arange(1, words.shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) | np.uint64(1)
    mixed = (words ^ (words >> np.uint64(29))) * multipliers
    return np.asarray((mixed ^ (mixed >> np.uint64(32))).sum(axis=1, dtype=np.uint64))
