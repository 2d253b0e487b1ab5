"""What two sides answer to every input: how far apart, and which answers flip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from zoolens.datasets.base import UNLABELLED, Dataset
from zoolens.divergence.sides import Side
from zoolens.errors import ModelError
from zoolens.graph.model import Array
from zoolens.numerics.deviation import Deviation, deviation
from zoolens.progress import Progress, Silent
from zoolens.tasks.base import TOLERANCE, task_named

_TOGETHER: Final = 8  # inputs of one batch

Compared = Literal["raw outputs", "scores"]


@dataclass(frozen=True)
class Answer:
    """Both answers to one input. `error`: the largest absolute difference; `a` and `b`: classes, −1 where the task has
    none. `flips`: another class, or a vector that is off by more than a thousandth."""

    index: int
    name: str
    label: int
    a: int
    b: int
    error: float
    deviation: Deviation
    flips: bool
    not_finite: bool = False  # in both answers, and in the same places


@dataclass(frozen=True)
class Answers:
    """`compared`: raw outputs where both sides give the same kind, else scores, which both can be turned into."""

    rows: tuple[Answer, ...]
    compared: Compared

    @property
    def flipped(self) -> tuple[Answer, ...]:
        return tuple(row for row in self.rows if row.flips)

    @property
    def max_error(self) -> float:
        return max((row.error for row in self.rows), default=0.0)

    @property
    def relative_error(self) -> float:
        return max((row.deviation.error for row in self.rows), default=0.0)

    @property
    def accuracy(self) -> tuple[float, float] | None:
        """Shares of inputs that each side answers rightly; None where nothing is labelled or there are no classes."""
        judged = [row for row in self.rows if row.label != UNLABELLED and row.a >= 0]
        if not judged:
            return None
        return tuple(float(np.mean([getattr(row, side) == row.label for row in judged])) for side in "ab")  # type: ignore[return-value]


def compared_kind(a: Side, b: Side) -> Compared:
    """Raw outputs where both manifests declare the same output of one size, else scores."""
    outputs = [side.job.manifest.outputs[0] for side in (a, b)]
    same = outputs[0].scores == outputs[1].scores and outputs[0].postprocess == outputs[1].postprocess
    sizes = [int(np.prod([extent or 1 for extent in side.subject.outputs[0].tensor.shape[1:]])) for side in (a, b)]
    return "raw outputs" if same and sizes[0] == sizes[1] else "scores"


def compare_answers(a: Side, b: Side, dataset: Dataset, progress: Progress | None = None) -> Answers:
    """Run both sides on all inputs; only one batch is held at a time."""
    kind = compared_kind(a, b)
    watcher = progress or Silent()
    watcher.begin("answers", "comparing", len(dataset))
    rows: list[Answer] = []
    try:
        for start in range(0, len(dataset), _TOGETHER):
            some = range(start, min(len(dataset), start + _TOGETHER))
            rows += _rows(a, b, dataset, some, kind)
            watcher.advance(len(some))
    finally:
        watcher.end()
    return Answers(tuple(rows), kind)


def _rows(a: Side, b: Side, dataset: Dataset, indices: Sequence[int], kind: Compared) -> Iterator[Answer]:
    answers = [side.answers([side.feeds(index) for index in indices]) for side in (a, b)]
    labels = dataset.labels()
    for index, one, other in zip(indices, *answers, strict=True):
        yield _row(a, b, (index, dataset.read(index).id, int(labels[index])), one, other, kind)


def _row(a: Side, b: Side, where: tuple[int, str, int], one: Array, other: Array, kind: Compared) -> Answer:
    values = comparable(a, one, kind), comparable(b, other, kind)
    if values[0].size != values[1].size:
        raise ModelError(
            f"A answers with {values[0].size:,} numbers and B with {values[1].size:,}, which cannot be compared.",
            hint="Compare models of one task and the same classes.",
        )
    moved, error, broken = _distance(values[1], values[0])
    if task_named(a.job.manifest.task).discrete and task_named(b.job.manifest.task).discrete:
        classes = int(a.scores(one)[0].argmax()), int(b.scores(other)[0].argmax())
        return Answer(*where, *classes, error, moved, classes[0] != classes[1], broken)
    return Answer(*where, -1, -1, error, moved, not moved.error <= TOLERANCE, broken)


def _distance(one: Array, other: Array) -> tuple[Deviation, float, bool]:
    """How far two answers are apart, the largest difference, and whether both are not finite in the same way."""
    finite = bool(np.isfinite(one).all() and np.isfinite(other).all())
    if not finite and np.array_equal(one, other, equal_nan=True):
        return Deviation(0.0), 0.0, True
    error = float(np.max(np.abs(one - other), initial=0.0)) if finite else float("inf")
    return deviation(one, other), error, False


def comparable(side: Side, answer: Array, kind: Compared) -> Array:
    """An answer as numbers that can be held against the other side's."""
    if kind == "raw outputs":
        return side.real_answer(answer)
    return np.asarray(side.scores(answer), np.float64).reshape(-1)
