"""The answers of a run on their way into the store: batches are collected until they are written as one part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.findings.measure.predictions import TRUTH, prefix, schema
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.tasks.ragged import Ragged, joined
from zoolens.inventory.tasks.task import DEFAULT_TASK, TRUTH_KNOWN, task_named

_MOST_VALUES: Final = (1 << 31) - 1  # in the lists of one column of a part: Arrow's offsets have 32 bits


@dataclass(frozen=True)
class AnswerBatch:
    """What one output answered: `values` are probabilities or vectors, or what the reader of a task with roles made;
    `raw` are the bits they were read from, one tensor or several by role."""

    values: Any
    raw: NDArray[Any] | Mapping[str, NDArray[Any]]

    @property
    def digest(self) -> NDArray[np.uint64]:
        """64 bits an input, equal where all tensors have equal bits."""
        if not isinstance(self.raw, Mapping):
            return bit_digest(self.raw)
        mixed = np.zeros(len(next(iter(self.raw.values()))), np.uint64)
        for role in sorted(self.raw):
            # An odd multiplier loses no bit, and makes the order of the tensors matter.
            mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + bit_digest(self.raw[role])
        return mixed


class PredictionBuffer:
    """Collects batches until they are written as one part."""

    def __init__(self, start: int = 0, tasks: Sequence[str] = (DEFAULT_TASK,)) -> None:
        self._parts: list[dict[str, Any]] = []
        self._next = start  # index of the input that comes next
        self._tasks = tuple(tasks)
        self._schema = schema(tasks)
        self.rows = 0

    def add(
        self,
        ids: Sequence[str],
        labels: NDArray[Any],
        answers: Sequence[AnswerBatch],
        truths: Sequence[Truth | None] | None = None,
    ) -> None:
        """The answers that follow, one batch for each output. `truths`: None: the dataset has none for the task."""
        columns: dict[str, Any] = {
            "index": np.arange(self._next, self._next + len(labels)),
            "input": list(ids),
            "label": labels.astype(np.int32),
        }
        for output, (task, answer) in enumerate(zip(self._tasks, answers, strict=True)):
            if not isinstance(answer.raw, Mapping):
                check_finite(ids, answer.values)
            own = task_named(task).keep(answer.values, None if output else labels)
            columns |= {prefix(output) + name: column for name, column in own.items()}
            columns[prefix(output) + "digest"] = answer.digest
        columns |= _kept_truths(self._tasks[0], truths or [None] * len(labels))
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
                columns[name] = _texts([input_id for piece in pieces for input_id in piece])
                continue
            columns[name] = _stored(pieces, self._schema.field(name).type)
        return pa.table(columns, schema=self._schema)


def _kept_truths(task: str, truths: Sequence[Truth | None]) -> dict[str, Any]:
    judged = task_named(task)
    if judged.truth is None:
        return {}
    known = np.array([truth is not None for truth in truths], np.int8)
    return {TRUTH + TRUTH_KNOWN: known, **{TRUTH + name: kept for name, kept in judged.keep_truth(truths).items()}}


def _stored(pieces: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The rows of all pieces as a column of a table."""
    if isinstance(pieces[0], Ragged):
        rows = joined(pieces)
        if rows.offsets[-1] > _MOST_VALUES:
            raise ModelError(f"The answers of {len(rows):,} inputs have more numbers than one part of a run can hold.")
        flat = _arrow(rows.values, kind.value_type)
        return pa.ListArray.from_arrays(_arrow(rows.offsets.astype(np.int32), pa.int32()), flat)
    stacked = np.concatenate(pieces)
    if stacked.ndim == 2:
        flat = _arrow(stacked.reshape(-1), kind.value_type)
        offsets = np.arange(0, stacked.size + 1, stacked.shape[1], dtype=np.int32)
        return pa.ListArray.from_arrays(_arrow(offsets, pa.int32()), flat)
    return _arrow(stacked, kind)


def _arrow(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Numbers as Arrow has them, without a copy. `pa.array` would import pandas where there is one: half a second."""
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if not numbers or values.dtype != kind.to_pandas_dtype():
        return pa.array(values, kind)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def _texts(texts: Sequence[str]) -> pa.Array:
    """Texts as Arrow has them, likewise."""
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    if ends[-1] > _MOST_VALUES:
        raise ModelError(f"The names of {len(texts):,} inputs are longer than one part of a run can hold.")
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)


def check_finite(ids: Sequence[str], values: NDArray[np.float32]) -> None:
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
