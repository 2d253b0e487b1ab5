"""Outputs whose answers are no classes, compared between two runs: vectors, boxes, masks, tags."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from zoolens.base.statistics.intervals import CONFIDENCE, Interval
from zoolens.base.statistics.resampling import resampled_difference
from zoolens.findings.comparisons.behaviour import PairedAnswers, pair_answers
from zoolens.findings.comparisons.signatures import Signature
from zoolens.findings.measure.task_metrics import NOT_COVERED, judgement_of
from zoolens.inventory.tasks.pair_figures import NextTokenFigures
from zoolens.inventory.tasks.scoring.continuations import ContinuationFigures
from zoolens.inventory.tasks.scoring.sample_tests import SampleFigures
from zoolens.inventory.tasks.task import Answers, task_named

MOST_CONTESTED: Final = 20  # inputs whose two answers are told


@dataclass(frozen=True)
class ContestedInput:
    """An input on which two runs agree in part or not at all, with both answers in words."""

    input: str
    agreement: float
    a: str
    b: str


@dataclass(frozen=True)
class MetricChange:
    """The main metric of a task in both runs, on the inputs whose truth is known."""

    name: str
    unit: str
    a: float
    b: float
    difference: Interval | None  # B − A, by resampling the inputs of both alike; None: `no_interval` says why
    p_value: float | None  # two-sided, that there is no difference
    no_interval: str = ""


@dataclass(frozen=True)
class VectorChange:
    """How far apart an output is whose answers are no classes: vectors, boxes, masks, tags."""

    output: str
    task: str
    n: int
    agreeing: int | float  # the sum of agreements; of vectors how many are within a relative distance of `TOLERANCE`
    identical_outputs: float  # share of inputs with bit-equal raw outputs
    median_distance: float | None  # |a − b| / |a|; None where the task knows no distances
    max_distance: float | None
    cosine: float | None  # mean
    score_a: float | None = None  # mean of how right the answers are; None where labels cannot judge them
    score_b: float | None = None
    difference: Interval | None = None  # of the scores, B − A
    agreement_name: str = "mean agreement"
    graded: bool = False
    full: int = 0  # inputs on which the two agree fully
    silent: int = 0  # inputs to which neither answers anything, which counts as full agreement
    metric: MetricChange | None = None  # where truths judge the task
    next_tokens: NextTokenFigures | None = None  # of language models
    continuations: ContinuationFigures | None = None  # of texts that they write
    samples: SampleFigures | None = None  # of texts that were drawn
    unknown: str = ""  # why the agreement is not known
    incomparable: tuple[str, ...] = ()  # metrics that count something else in each of the two
    contested: tuple[ContestedInput, ...] = ()  # of a graded agreement, the lowest first

    @property
    def agreement(self) -> float:
        return self.agreeing / self.n

    @property
    def left_out(self) -> tuple[str, ...]:
        """Figures of runs that are not compared: the mean of scores is one too."""
        return (*self.incomparable, "score") if self.incomparable else ()


def compare_vectors(a: Signature, b: Signature) -> Iterator[VectorChange]:
    """Yields the change of every output that is of vectors on both sides."""
    for place in vector_places(a, b):
        ours, theirs = a.outputs[place], b.outputs[place]
        pair = pair_answers(ours, theirs, None if place else a.labels)
        figures, scores = pair.figures, pair.scores
        yield VectorChange(
            output=ours.output if len(a.outputs) == 1 else " with ".join(dict.fromkeys((ours.output, theirs.output))),
            task=ours.task,
            n=pair.n,
            agreeing=pair.agreeing,
            identical_outputs=np.nan if pair.identical is None else pair.identical,
            median_distance=figures.median_relative_l2,
            max_distance=figures.max_relative_l2,
            cosine=figures.cosine if task_named(ours.task).directional else None,
            score_a=None if scores is None else float(scores[0].mean()),
            score_b=None if scores is None else float(scores[1].mean()),
            difference=pair.difference(CONFIDENCE),
            agreement_name=task_named(ours.task).agreement_name(),
            graded=pair.graded,
            full=pair.full,
            silent=pair.silent,
            metric=None if place else _metric_change(a, b),
            next_tokens=figures.next_tokens,
            continuations=figures.continuations,
            samples=figures.samples,
            incomparable=() if place else pair.incomparable,
            unknown=task_named(ours.task).unknown_agreement(ours, theirs) if ours.task == theirs.task else "",
            contested=tuple(_contested(a, b, place, pair)) if task_named(ours.task).graded else (),
        )


def _contested(a: Signature, b: Signature, output: int, pair: PairedAnswers) -> Iterator[ContestedInput]:
    """Yields the inputs on which the two agree least."""
    names = (a.classes, b.classes) if output == 0 else (None, None)
    task = task_named(pair.a.task)
    for place in np.argsort(pair.agreement, kind="stable")[:MOST_CONTESTED].tolist():
        if pair.agreement[place] < 1:
            said = (task.show(side, place, known) for side, known in zip((pair.a, pair.b), names, strict=True))
            yield ContestedInput(str(a.inputs[place]), float(pair.agreement[place]), *said)


def _metric_change(a: Signature, b: Signature) -> MetricChange | None:
    if a.main.task != b.main.task or not np.array_equal(a.known, b.known):
        # Only the same inputs can be resampled alike.
        return None
    ours, theirs = judgement_of(a), judgement_of(b)
    if ours is None or theirs is None:
        return None
    main, inputs = ours.main, int(a.known.sum())
    everything = np.ones((1, inputs), np.int64)
    of_a, of_b = ours.of_main(), theirs.of_main()
    change = MetricChange(main.name, main.unit, float(of_a(everything)[0]), float(of_b(everything)[0]), None, None)
    if not (main.interval and theirs.main.interval):
        return replace(change, no_interval=NOT_COVERED)
    found = resampled_difference(of_a, of_b, inputs, main.limits)
    unknown = "" if found.unknown is None else found.unknown.value
    return replace(change, difference=found.interval, p_value=found.p_value, no_interval=unknown)


def vector_places(a: Signature, b: Signature) -> list[int]:
    """Returns the places of outputs that have the same width on both sides and are not classes."""
    pairs = enumerate(zip(a.outputs, b.outputs, strict=False))
    return [place for place, (ours, theirs) in pairs if _comparable(ours, theirs)]


def _comparable(ours: Answers, theirs: Answers) -> bool:
    tasks = task_named(ours.task), task_named(theirs.task)
    if any(task.discrete for task in tasks) or ours.width != theirs.width:
        return False
    # What a task with roles keeps only that task can read.
    return ours.task == theirs.task or not any(task.roles for task in tasks)
