"""What two sides answer to every input: their differences, and which answers flip."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.base.numerics.deviation import Deviation, Why, deviation_of_finite
from zoolens.base.progress import Progress, Silent
from zoolens.findings.divergence.sides import Side, real_output
from zoolens.findings.divergence.small_parts import SmallPart, worst_small_part
from zoolens.findings.graph.ir.model import Array
from zoolens.inventory.datasets.dataset import UNLABELLED, Dataset
from zoolens.inventory.runtimes.runtime import TensorSpec
from zoolens.inventory.tasks.task import TOLERANCE, task_named

Compared = Literal["raw outputs", "scores"]


@dataclass(frozen=True)
class AnswerPair:
    """Both answers to one input."""

    index: int
    name: str
    label: int
    a: int  # class; −1: no class
    b: int
    error: float  # largest absolute difference
    deviation: Deviation
    flips: bool  # another class, another whole number, or a vector off by more than a thousandth
    not_finite: str = ""  # label of the side whose answer has numbers that are not finite
    # Share of numbers that differ, of answers that are whole numbers such as the class of each pixel, between which no
    # distance means anything; None: they are quantities.
    differing: float | None = None


@dataclass(frozen=True)
class OtherOutput:
    """An output beside the main one, by its names in A and B, with its difference on the worst input."""

    a: TensorSpec
    b: TensorSpec
    error: float = 0.0
    relative_error: float = 0.0
    why: Why = "value"  # with an infinite error: what cannot be compared
    worst: int = 0

    @property
    def name(self) -> str:
        return self.a.name if self.a.name == self.b.name else f"{self.a.name} / {self.b.name}"


@dataclass(frozen=True)
class AnswerPairs:
    """The answers of both sides to every input."""

    rows: tuple[AnswerPair, ...]
    compared: Compared  # raw outputs where both give the same kind, else scores
    discrete: bool = True
    others: tuple[OtherOutput, ...] = ()  # further outputs that could be matched
    unmatched: tuple[str, ...] = ()  # names of outputs that could not
    small_part: SmallPart | None = None  # of the main output, in which the two differ most

    @property
    def flipped(self) -> tuple[AnswerPair, ...]:
        return tuple(row for row in self.rows if row.flips)

    @property
    def max_error(self) -> float:
        return max((row.error for row in self.rows), default=0.0)

    @property
    def relative_error(self) -> float:
        return max((row.deviation.error for row in self.rows), default=0.0)

    @property
    def not_finite(self) -> int:
        """Inputs to which at least one side answers with numbers that are not finite."""
        return sum(bool(row.not_finite) for row in self.rows)

    @property
    def other_shapes(self) -> bool:
        """Whether the answers to an input have other shapes."""
        return any(row.deviation.why == "shape" for row in self.rows)

    @property
    def first_of_other_shape(self) -> int:
        """The first input whose answers have other shapes; others may be worse, such as one without numbers."""
        return next(row.index for row in self.rows if row.deviation.why == "shape")

    @property
    def equal(self) -> bool:
        """Whether every number of every output that was compared is the same on both sides."""
        return not self.max_error and not any(other.error for other in self.others)

    @property
    def accuracy(self) -> tuple[float, float] | None:
        """Accuracy of each side; None where nothing is labelled or there are no classes."""
        judged = [row for row in self.rows if row.label != UNLABELLED]
        if not judged or not self.discrete:
            return None
        right_a = sum(row.a == row.label for row in judged)
        right_b = sum(row.b == row.label for row in judged)
        return right_a / len(judged), right_b / len(judged)


def compared_kind(a: Side, b: Side) -> Compared:
    """Raw outputs where both manifests declare the same output of one size, else scores, which only the main output
    has."""
    if a.focus is not None or b.focus is not None:
        return "raw outputs"
    ours, theirs = (side.job.manifest.outputs[0] for side in (a, b))
    same_kind = ours.scores == theirs.scores and ours.postprocess == theirs.postprocess
    same_size = _numbers(a.watched) == _numbers(b.watched)
    return "raw outputs" if same_kind and same_size else "scores"


def _numbers(output: TensorSpec) -> int:
    """Numbers of one answer; an extent that the file leaves open counts as 1."""
    return prod(extent or 1 for extent in output.shape[1:])


def compare_answers(a: Side, b: Side, dataset: Dataset, progress: Progress | None = None) -> AnswerPairs:
    """Run both sides on all inputs, one at a time."""
    kind = compared_kind(a, b)
    others, unmatched = _other_outputs(a, b)
    watcher = progress or Silent()
    watcher.begin("answers", "comparing", len(dataset))
    labels = dataset.labels()
    rows: list[AnswerPair] = []
    small: SmallPart | None = None
    try:
        for index in range(len(dataset)):
            fed = [side.feeds(index) for side in (a, b)]
            outputs = [side.outputs(feeds) for side, feeds in zip((a, b), fed, strict=True)]
            main_a = outputs[0][a.watched.name]
            main_b = outputs[1][b.watched.name]
            where = (index, dataset.read(index).id, int(labels[index]))
            if kind == "raw outputs" and main_a.shape != main_b.shape and other_token_counts(*fed):
                rows.append(AnswerPair(*where, -1, -1, math.inf, Deviation(math.inf, "shape"), True))
                watcher.advance(1)
                continue
            rows.append(_row(a, b, where, main_a, main_b, kind))
            others = [_farther(other, index, outputs) for other in others]
            part = worst_small_part(main_a, main_b)
            if part is not None and (small is None or part.error > small.error):
                small = part
            watcher.advance(1)
    finally:
        watcher.end()
    return AnswerPairs(tuple(rows), kind, _discrete(a, b), tuple(others), unmatched, small)


def other_token_counts(fed_a: Mapping[str, Array], fed_b: Mapping[str, Array]) -> bool:
    """Whether both take one tensor of whole numbers, such as those of tokens, and got different counts of them."""
    if len(fed_a) != 1 or len(fed_b) != 1:
        return False
    (ours,), (theirs,) = fed_a.values(), fed_b.values()
    whole = ours.dtype.kind in "iu" and theirs.dtype.kind in "iu"
    return whole and ours.ndim == theirs.ndim == 2 and ours.shape != theirs.shape


def _discrete(a: Side, b: Side) -> bool:
    return all(task_named(side.job.manifest.task).discrete for side in (a, b))


def _row(a: Side, b: Side, where: tuple[int, str, int], output_a: Array, output_b: Array, kind: Compared) -> AnswerPair:
    values = comparable(a, output_a, kind), comparable(b, output_b, kind)
    if values[0].size != values[1].size:
        raise ModelError(
            f"A answers with {values[0].size:,} numbers and B with {values[1].size:,}, which cannot be compared.",
            hint="Compare models of one task and the same classes.",
        )
    moved, error = _distance(values[1], values[0])
    broken = [label for label, value in zip("AB", values, strict=True) if not np.isfinite(value).all()]
    if _discrete(a, b):
        class_a = _class(a.scores(output_a))
        class_b = _class(b.scores(output_b))
        return AnswerPair(*where, class_a, class_b, error, moved, class_a != class_b, "".join(broken))
    if _is_counted(a, output_a) and _is_counted(b, output_b):
        differing = float(np.mean(values[0] != values[1])) if values[0].size else 0.0
        return AnswerPair(*where, -1, -1, error, moved, differing > 0, "".join(broken), differing)
    flips = not moved.error <= TOLERANCE  # also where the error is no number
    return AnswerPair(*where, -1, -1, error, moved, flips, "".join(broken))


def _is_counted(side: Side, output: Array) -> bool:
    """Whether the numbers of an answer are names of something, such as the class of each pixel, and not quantities."""
    by_parts = bool(task_named(side.job.manifest.task).roles)
    return by_parts and output.dtype.kind in "iub" and not side.watched.quantised


def _class(scores: Array) -> int:
    """The class with the highest score; −1 where a score is no number, so that no class is answered."""
    if np.isnan(scores[0]).any():
        return -1
    return int(scores[0].argmax())


def _distance(first: Array, second: Array) -> tuple[Deviation, float]:
    """Return the relative difference of two answers, and the largest difference of two numbers."""
    moved = deviation_of_finite(first, second)
    if np.isinf(moved.error):
        return moved, float("inf")
    finite = np.isfinite(first)
    return moved, float(np.max(np.abs(first[finite] - second[finite]), initial=0.0))


def _other_outputs(a: Side, b: Side) -> tuple[list[OtherOutput], tuple[str, ...]]:
    """Return the further outputs of both that could be matched, and the names of those that could not.

    They are matched by name, or by place where all shapes are the same.
    """
    ours, theirs = _unwatched(a), _unwatched(b)
    named = {spec.name: spec for spec in theirs}
    if {spec.name for spec in ours} == named.keys():
        return [OtherOutput(spec, named[spec.name]) for spec in ours], ()
    if [spec.shape[1:] for spec in ours] == [spec.shape[1:] for spec in theirs]:
        return [OtherOutput(spec, other) for spec, other in zip(ours, theirs, strict=True)], ()
    both = [OtherOutput(spec, named[spec.name]) for spec in ours if spec.name in named]
    known = {output.a.name for output in both}
    unmatched = [spec.name for spec in (*ours, *theirs) if spec.name not in known]
    return both, tuple(dict.fromkeys(unmatched))


def _unwatched(side: Side) -> list[TensorSpec]:
    return [spec for spec in side.subject.session.outputs if spec.name != side.watched.name]


def _farther(other: OtherOutput, index: int, outputs: Sequence[Mapping[str, Array]]) -> OtherOutput:
    """The output with this input, if it is the worst so far."""
    output_a = np.asarray(outputs[0][other.a.name])
    output_b = np.asarray(outputs[1][other.b.name])
    if output_a.dtype.kind not in "fiub" or output_b.dtype.kind not in "fiub":
        # Texts, such as names of classes, have no distance: all or nothing.
        error = 0.0 if np.array_equal(output_a, output_b) else 1.0
        moved = Deviation(error)
    else:
        moved, error = _distance(real_output(output_b, other.b), real_output(output_a, other.a))
    largest = replace(other, error=max(error, other.error))
    if moved.error <= other.relative_error:
        return largest
    return replace(largest, relative_error=moved.error, why=moved.why, worst=index)


def comparable(side: Side, answer: Array, kind: Compared) -> Array:
    """An answer as numbers that can be held against the other side's."""
    if kind == "raw outputs":
        return side.real_answer(answer)
    return np.asarray(side.scores(answer), np.float64).reshape(-1)
