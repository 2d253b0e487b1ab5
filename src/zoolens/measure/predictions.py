"""What a model answered, input by input: its signature, from which every accuracy figure is derived.

Metrics and comparisons never run a model: they read this table, so a new one costs no inference. A model with several
outputs has the columns of each in the same row, so that a run that is killed never has half an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zoolens.errors import ModelError, ZoolensError
from zoolens.tasks.base import DEFAULT_TASK, task_named

KIND: Final = "predictions"  # name of the bulk table in the store

_SHARED: Final = {"index": pa.int64(), "input": pa.string(), "label": pa.int32()}
_DIGEST: Final = {"digest": pa.uint64()}  # of the raw output bits: equal digests, equal answers


def prefix(output: int) -> str:
    """Before the column names of an output: none for the main one, "out1." for the next."""
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
    """A classifier's main output as arrays. `top` and `score` are n × min(5, classes). Where only classes were kept,
    as of networks that were trained here, scores are NaN and there is no digest."""

    inputs: NDArray[Any]
    labels: NDArray[np.int32]
    top: NDArray[np.int32]
    score: NDArray[np.float32]
    label_score: NDArray[np.float32]
    sum_squares: NDArray[np.float32]
    digest: NDArray[np.uint64] | None
    classes: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def correct(self) -> NDArray[np.bool_]:
        return np.asarray(self.top[:, 0] == self.labels)

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


def read_predictions(table: pa.Table, classes: tuple[str, ...] | None = None) -> Predictions:
    def matrix(name: str) -> NDArray[Any]:
        flat = table[name].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        return np.asarray(flat).reshape(table.num_rows, -1)

    def column(name: str) -> NDArray[Any]:
        return np.asarray(table[name].to_numpy())

    scored = "score" in table.column_names
    unknown = np.full(table.num_rows, np.nan, np.float32)
    return Predictions(
        inputs=np.array(table["input"].to_pylist(), dtype=object),  # strings by to_numpy would import pandas
        labels=column("label"),
        top=matrix("top"),
        score=matrix("score") if scored else unknown[:, None],
        label_score=column("label_score") if scored else unknown,
        sum_squares=column("sum_squares") if scored else unknown,
        digest=column("digest") if "digest" in table.column_names else None,
        classes=classes,
    )


@dataclass(frozen=True)
class Batch:
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

    def add(self, ids: Sequence[str], labels: NDArray[Any], answers: Sequence[Batch]) -> None:
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
                columns[name] = pa.array([one for piece in pieces for one in piece], pa.string())
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
        suspect = np.flatnonzero(~np.isfinite(values.sum(axis=1)))  # quick; finite numbers may add up to infinity too
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
