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

from zoolens.base.errors import StoreError, ZoolensError
from zoolens.inventory.preprocess.classes import Translation
from zoolens.inventory.tasks.ragged import Ragged
from zoolens.inventory.tasks.task import DEFAULT_TASK, TRUTH_KNOWN, Answers, column, known_truths, task_named

KIND: Final = "predictions"  # name of the bulk table in the store

TRUTH: Final = "truth."  # before the column names of what the dataset says is right, where that is no class
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
    fields |= {TRUTH + name: kind for name, kind in truth_columns_of(tasks[0]).items()}
    return pa.schema(list(fields.items()))


def truth_columns_of(task: str) -> dict[str, pa.DataType]:
    """The columns of truths that judge answers of a task, by name without `TRUTH`."""
    judged = task_named(task)
    return {} if judged.truth is None else {TRUTH_KNOWN: pa.int8(), **judged.truth_columns()}


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
    def known(self) -> NDArray[np.bool_]:
        """Which inputs have a truth that can judge the main output's answers."""
        return known_truths(self.main, self.labels)

    @property
    def labelled(self) -> bool:
        return bool(self.known.any())

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
        """What the dataset calls a class, or its number in words where it has no name."""
        return self.classes[index] if self.classes and index < len(self.classes) else f"class {index}"

    def class_details(self, index: int) -> dict[str, str]:
        """What is stored beside a figure of a class: its name, where it has one."""
        return {"class": self.classes[index]} if self.classes and index < len(self.classes) else {}

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
    names = (*task_named(task).columns(main=not number), "digest")
    columns: dict[str, Any] = dict(_columns(table, before, names, task, whose))
    width = columns["vector"].shape[1] if vectors else about.get("width")
    return Answers(
        output=str(about.get("name") or f"output {number + 1}"),
        task=task,
        columns=columns,
        width=None if width is None else int(width),
        truths={} if number else _truths(table, task, whose),
    )


def _truths(table: pa.Table, task: str, whose: str) -> dict[str, Any]:
    known = f"{TRUTH}{TRUTH_KNOWN}"
    if known in table.column_names and table[known].null_count:
        # A run that was begun before its task had truths, and finished since: its first parts have none.
        return {}
    return dict(_columns(table, TRUTH, tuple(truth_columns_of(task)), task, whose))


def _columns(
    table: pa.Table, before: str, names: Sequence[str], task: str, whose: str
) -> Iterator[tuple[str, NDArray[Any] | Ragged]]:
    ragged = task_named(task).ragged
    later = task_named(task).later
    for name in names:
        if f"{before}{name}" in table.column_names:
            stored = table[f"{before}{name}"]
            if name in later and stored.null_count:
                # A run that was begun before this was kept, and finished since: its first parts do not have it.
                continue
            yield name, _ragged_rows(stored) if name in ragged else _rows(stored, whose)


def _rows(stored: pa.ChunkedArray, whose: str) -> NDArray[Any]:
    return _matrix(stored, whose) if pa.types.is_list(stored.type) else numbers(stored)


def _ragged_rows(stored: pa.ChunkedArray) -> Ragged:
    lists = stored.combine_chunks()
    # Of a table that was cut, the offsets do not begin at 0, and the values hold more than these rows.
    offsets = np.from_dlpack(lists.offsets).astype(np.int64)
    return Ragged(offsets, numbers(lists.values))


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


def numbers(stored: pa.ChunkedArray | pa.Array) -> NDArray[Any]:
    """A column of numbers, texts or bytes. `to_numpy` would import pandas where there is one: half a second."""
    if pa.types.is_string(stored.type) or pa.types.is_binary(stored.type):
        texts = np.empty(len(stored), object)
        texts[:] = stored.to_pylist()
        return texts
    return np.from_dlpack(stored.combine_chunks() if isinstance(stored, pa.ChunkedArray) else stored)
