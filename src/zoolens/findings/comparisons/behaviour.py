"""How alike two runs behave on the same inputs, from their signatures alone: nothing is run.

How far two answers to one input agree is told by their task: classes are the same or not, vectors are where they lie
within a relative l2 distance (`tolerance`) of each other. Of several outputs the worst counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ZoolensError
from zoolens.base.statistics.anytime import bounded_mean_lower, is_all_or_nothing, paired_interval
from zoolens.base.statistics.binomial import binomial_lower
from zoolens.base.statistics.intervals import Interval, paired_difference
from zoolens.findings.comparisons.compatibility import Compatibility
from zoolens.findings.comparisons.signatures import Signature
from zoolens.findings.measure.predictions import renumbered
from zoolens.inventory.tasks.pair_figures import NextTokenFigures, PairFigures
from zoolens.inventory.tasks.scoring.continuations import ContinuationFigures
from zoolens.inventory.tasks.scoring.sample_tests import SampleFigures
from zoolens.inventory.tasks.task import TOLERANCE, Answers, Floats, known_truths, task_named


@dataclass(frozen=True)
class Accuracy:
    """How many inputs each side gets right. Differences are B − A."""

    right_a: int
    right_b: int
    only_a: int
    only_b: int
    n: int

    @property
    def a(self) -> float:
        return self.right_a / self.n

    @property
    def b(self) -> float:
        return self.right_b / self.n

    @property
    def difference(self) -> float:
        return (self.only_b - self.only_a) / self.n


@dataclass(frozen=True)
class Behaviour:
    """One output of the two. `l2` is the mean distance of their probability vectors or of their vectors: an interval
    that surely holds it where only the best scores were kept, one number twice where it is exact; NaN where no scores
    were kept."""

    output: str
    task: str
    n: int
    agreeing: int | float  # the sum of agreements, input by input
    identical: float  # share of inputs with bit-equal outputs; NaN where no raw outputs were kept
    l2: Interval
    top5_overlap: float | None = None  # mean share of common classes among the five best
    accuracy: Accuracy | None = None
    relative_l2: float | None = None  # mean of |a − b| / |a|
    cosine: float | None = None  # mean; embeddings only
    next_tokens: NextTokenFigures | None = None  # of language models
    continuations: ContinuationFigures | None = None  # of texts that they write
    samples: SampleFigures | None = None  # of texts that were drawn
    graded: bool = False  # an agreement may lie between 0 and 1, so that `agreeing` is no count
    full: int = 0  # inputs with an agreement of 1
    silent: int = 0  # inputs to which neither answers anything, which counts as full agreement

    @property
    def agreement(self) -> float:
        return self.agreeing / self.n

    def agreement_name(self, tolerance: float = TOLERANCE) -> str:
        """What the agreement is, in words before a percentage."""
        return task_named(self.task).agreement_name(tolerance)


@dataclass(frozen=True)
class PairedAnswers:
    """What two models answered in one output to the same inputs. `agreement`: how far they agree on each input, between
    0 and 1, as their task tells. `labels` are None where the data do not say what this output should answer."""

    a: Answers
    b: Answers
    agreement: Floats
    labels: NDArray[np.int32] | None = None
    tolerance: float = TOLERANCE

    @property
    def n(self) -> int:
        return len(self.agreement)

    @property
    def agreeing(self) -> int | float:
        """The sum of the agreements: a count where each is all or nothing."""
        total = self.agreement.sum()
        return float(total) if self.graded else int(total)

    @property
    def graded(self) -> bool:
        """Whether the agreement is more than a count, by what the task says of itself or by what it gives."""
        return task_named(self.a.task).graded or not is_all_or_nothing(self.agreement)

    @property
    def full(self) -> int:
        """Inputs on which the two agree fully."""
        return int(np.count_nonzero(self.agreement == 1))

    @property
    def silent(self) -> int:
        """Inputs to which neither answers anything: no boxes, no entities, no text."""
        task = task_named(self.a.task)
        if self.b.task != self.a.task:
            return 0
        ours, theirs = task.silent(self.a), task.silent(self.b)
        return 0 if ours is None or theirs is None else int(np.count_nonzero(ours & theirs))

    @cached_property
    def least(self) -> Floats:
        """What the agreement on each input is at least: `agreement` where that is known exactly."""
        task = task_named(self.a.task)
        if task.agreement_is_exact:
            return self.agreement
        return np.asarray(task.least_agreement(self.a, self.b, self.tolerance), np.float64)

    @property
    def mean(self) -> Interval:
        """Between which numbers the mean agreement lies."""
        if task_named(self.a.task).agreement_is_exact:
            middle = float(self.agreement.mean())
            return Interval(middle, middle)
        return task_named(self.a.task).mean_agreement(self.a, self.b, self.tolerance)

    def agreement_lower(self, alpha: float) -> float:
        """The true mean agreement is at least this, with confidence 1 − alpha; NaN where the agreement is not known.
        What is not known of an agreement counts as none."""
        if np.isnan(self.agreement).any():
            return float("nan")
        return bounded_mean_lower(self.least, alpha) if self.graded else binomial_lower(self.full, self.n, alpha)

    @property
    def bound_method(self) -> str:
        return "betting" if self.graded else "Clopper–Pearson"

    @property
    def identical(self) -> float | None:
        """The share of inputs with bit-equal raw outputs; None where these were not kept."""
        digests = self.a.digest, self.b.digest
        return None if digests[0] is None or digests[1] is None else float(np.mean(digests[0] == digests[1]))

    @property
    def figures(self) -> PairFigures:
        return task_named(self.a.task).figures(self.a, self.b)

    @cached_property
    def incomparable(self) -> tuple[str, ...]:
        """Metrics that cannot be subtracted, because they count something else in each of the two."""
        same = self.a.task == self.b.task
        return task_named(self.a.task).incomparable(self.a, self.b) if same else ()

    @cached_property
    def scores(self) -> tuple[Floats, Floats] | None:
        """How right the answers of both are; None where labels cannot judge them, or where that means something else in
        each of the two."""
        if self.labels is None or self.incomparable:
            return None
        known = known_truths(self.a, self.labels) & known_truths(self.b, self.labels)
        if not known.any():
            return None
        task = task_named(self.a.task)
        ours, theirs = task.scores(self.a, self.labels), task.scores(self.b, self.labels)
        if ours is None or theirs is None:
            return None
        return (ours, theirs) if task.truth is None else (ours[known], theirs[known])

    @property
    def accuracy(self) -> Accuracy | None:
        """Counts the right answers of both; None where answers are not simply right or wrong."""
        scores = self.scores
        graded = task_named(self.a.task).truth is not None
        if scores is None or graded or not all(map(is_all_or_nothing, scores)):
            return None
        right_a, right_b = (side == 1 for side in scores)
        return Accuracy(
            right_a=int(np.count_nonzero(right_a)),
            right_b=int(np.count_nonzero(right_b)),
            only_a=int(np.count_nonzero(right_a & ~right_b)),
            only_b=int(np.count_nonzero(right_b & ~right_a)),
            n=len(right_a),
        )

    def difference(self, confidence: float) -> Interval | None:
        """The interval of how much more often B is right than A. Where answers are simply right or wrong, it is that of
        two accuracies; else it is the one of sequences, which holds for any scores between 0 and 1."""
        if (accuracy := self.accuracy) is not None:
            return paired_difference(accuracy.only_a, accuracy.only_b, accuracy.n, confidence)
        scores = self.scores
        return None if scores is None else paired_interval(scores[1] - scores[0], 1 - confidence)


def pair_answers(
    a: Answers, b: Answers, labels: NDArray[np.int32] | None = None, tolerance: float = TOLERANCE
) -> PairedAnswers:
    agreement = np.asarray(task_named(a.task).agreement(a, b, tolerance), np.float64)
    outside = agreement[(agreement < 0) | (agreement > 1)]
    if len(outside):
        raise ZoolensError(
            f"The task {a.task} gives an agreement of {float(outside[0]):g} for an input: it must lie between 0 and 1.",
            hint="`zoolens.testing.task_contract` has the tests that a task must pass.",
        )
    return PairedAnswers(a, b, agreement, labels, tolerance)


def pair_outputs(
    a: Signature, b: Signature, fit: Compatibility, *, tolerance: float = TOLERANCE
) -> tuple[PairedAnswers, ...]:
    """Every output that both have, the classes of the main one brought into one order."""
    check_paired(a, b)
    a, b = renumbered(a, fit.translation_a), renumbered(b, fit.translation_b)
    theirs = b.outputs if fit.places is None else tuple(b.outputs[place] for place in fit.places)
    shared = zip(a.outputs[: fit.outputs], theirs[: fit.outputs], strict=False)
    return tuple(
        pair_answers(of_a, of_b, None if number else a.labels, tolerance) for number, (of_a, of_b) in enumerate(shared)
    )


def behaviour(a: Signature, b: Signature, fit: Compatibility, *, tolerance: float = TOLERANCE) -> tuple[Behaviour, ...]:
    """One Behaviour an output that both have."""
    return tuple(map(behaviour_of, pair_outputs(a, b, fit, tolerance=tolerance)))


def behaviour_of(pair: PairedAnswers) -> Behaviour:
    figures, identical = pair.figures, pair.identical
    return Behaviour(
        output=pair.a.output,
        task=pair.a.task,
        n=pair.n,
        agreeing=pair.agreeing,
        identical=np.nan if identical is None else identical,
        l2=figures.l2,
        top5_overlap=figures.top5_overlap,
        accuracy=pair.accuracy,
        relative_l2=figures.relative_l2,
        cosine=figures.cosine if task_named(pair.a.task).directional else None,
        next_tokens=figures.next_tokens,
        continuations=figures.continuations,
        samples=figures.samples,
        graded=pair.graded,
        full=pair.full,
        silent=pair.silent,
    )


def worst(behaviours: Sequence[Behaviour]) -> Behaviour:
    """The output on which the two agree least; one whose agreement is not known goes before all others."""
    return min(behaviours, key=lambda behaviour: unknown_first(behaviour.agreement))


def unknown_first(agreement: float) -> float:
    """A key to sort by. NaN is neither less nor more than any number, so that it would be passed over."""
    return -np.inf if np.isnan(agreement) else agreement


def agreement_of(a: Signature, b: Signature, fit: Compatibility, *, tolerance: float = TOLERANCE) -> float:
    """The agreement on the worst output and no more: a few microseconds a pair, for one against many."""
    return min(
        (float(np.mean(pair.agreement)) for pair in pair_outputs(a, b, fit, tolerance=tolerance)), key=unknown_first
    )


def check_paired(a: Signature, b: Signature) -> None:
    """Raises an error unless both answered the same inputs in the same order: only those can be paired."""
    same_data = a.run.dataset.fingerprint == b.run.dataset.fingerprint
    if not same_data or not len(a) or not np.array_equal(a.labels, b.labels):
        raise ZoolensError(
            f"Run {a.run.id[:8]} ({a.run.ref}) and run {b.run.id[:8]} ({b.run.ref}) are not about the same inputs.",
            hint="Evaluate both on the same dataset, with the same --limit and --seed.",
        )
