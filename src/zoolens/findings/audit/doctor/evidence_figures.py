"""How good the answers of one variant are, as one figure, and how two such figures on the same inputs compare.

The figure is the main metric of the model's task. Answers that are right or wrong have an exact test. Any other metric
(AP, mIoU, F1) has two tests on the same inputs, and two are needed:

- The metric itself is resampled. Its p-value rests on a t distribution with few degrees of freedom, so that it is never
  small enough to be divided among sixty variants where there are fifty inputs; and a class that is in a single image
  leaves mIoU without one.
- The scores of inputs (`Task.scores`: F1 of an image, pixel accuracy) are compared with signs flipped at random, which
  is exact. They do not see all that the metric sees: a score threshold is in them.

A variant is better where either test says so, the first adjusted for all variants; the second likewise, and then the
metric must have risen by more than noise of its own. Where nobody knows the noise of the metric, it must have risen by
`LEAST_GAIN`: the scores of inputs alone would decide by another number than the one that is shown.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from zoolens.base.statistics.intervals import Interval, paired_difference, wilson
from zoolens.base.statistics.resampling import (
    Aggregate,
    Counts,
    NoInterval,
    lowered,
    of_sums,
    resampled_difference,
    resampled_estimate,
)
from zoolens.base.statistics.significance import exact_mcnemar, sign_flip
from zoolens.inventory.tasks.judgement import FRACTION, Judgement, Metric
from zoolens.inventory.tasks.task import Answers, Judging, judged_at_once, taken_answers, task_named

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SCORE: Final = Metric("score")  # the mean of how right each answer is
MCNEMAR: Final = "exact McNemar"
RESAMPLING: Final = "paired resampling"
SIGN_FLIPS: Final = "sign flips of scores"
LEAST_GAIN: Final = 0.01  # of a metric whose noise is unknown: points of a share or correlation, else relative
_ROUNDING: Final = 1e-9
_FAR: Final = 0.1  # of the way from blind answers to the best, where no p-value can be had


@dataclass(frozen=True)
class Difference:
    """One figure less another one on the same inputs. None is what cannot be known of them.

    Both p-values are two-sided, for a single comparison. `p_inputs`: of the scores of inputs, 1 where they moved the
    other way than the metric did, or where the metric has no p-value and moved by less than `LEAST_GAIN`.
    """

    change: float  # in the metric's own unit and direction
    interval: Interval | None = None
    p_metric: float | None = None
    p_inputs: float | None = None
    exact: bool = False  # answers are right or wrong, which McNemar's test compares
    at_most: float | None = None  # how much better the first may be, at 95 % confidence: in points, or relative

    @property
    def test(self) -> str:
        """The tests that were made, in words."""
        if self.exact:
            return MCNEMAR
        made = [words for words, p in ((SIGN_FLIPS, self.p_inputs), (RESAMPLING, self.p_metric)) if p is not None]
        return " and ".join(made)

    @property
    def tested(self) -> bool:
        return self.p_metric is not None or self.p_inputs is not None

    def p_value(self, metric: float | None = None, inputs: float | None = None) -> float:
        """One p-value of both tests; 1 where neither applies. `metric`, `inputs`: each adjusted for all variants."""
        by_metric = self.p_metric if metric is None or self.p_metric is None else metric
        by_inputs = self.p_inputs if inputs is None or self.p_inputs is None else inputs
        if by_inputs is None:
            return 1.0 if by_metric is None else min(1.0, by_metric)
        if self.p_metric is None or by_metric is None:
            return min(1.0, by_inputs)
        if metric is None and inputs is None:
            return self.p_metric
        # Of two adjusted tests the better one counts: two chances to err.
        return min(1.0, 2 * min(by_metric, max(by_inputs, self.p_metric)))

    def adjusted(self, tests: int) -> float:
        """The p-value as one of many comparisons (Bonferroni)."""
        if tests == 1:
            return self.p_value()
        metric, inputs = (None if p is None else min(1.0, tests * p) for p in (self.p_metric, self.p_inputs))
        return self.p_value(metric, inputs)


class Figure(Protocol):
    """The main metric of the answers to some inputs."""

    @property
    def metric(self) -> Metric: ...

    @property
    def value(self) -> float: ...

    @property
    def interval(self) -> Interval | None: ...

    def of(self, places: Integers) -> Figure:
        """The figure of some of the inputs."""
        ...


@dataclass(frozen=True)
class RightAnswers:
    """The share of right answers of a task whose answers are right or wrong."""

    metric: Metric
    right: Flags

    @property
    def value(self) -> float:
        return int(np.count_nonzero(self.right)) / len(self.right)

    @property
    def interval(self) -> Interval:
        return wilson(int(np.count_nonzero(self.right)), len(self.right))

    def of(self, places: Integers) -> RightAnswers:
        return RightAnswers(self.metric, self.right[places])


@dataclass(frozen=True)
class JudgedAnswers:
    """The main metric of a task that judges all answers together. Every input has a truth."""

    answers: Answers
    labels: NDArray[np.int32]

    def of(self, places: Integers) -> JudgedAnswers:
        return JudgedAnswers(taken_answers(self.answers, places), self.labels[places])

    @property
    def metric(self) -> Metric:
        return SCORE if self.judgement is None else self.judgement.main

    @cached_property
    def _judging(self) -> Judging:
        return judged_at_once(self.answers, self.labels)

    @cached_property
    def judgement(self) -> Judgement | None:
        return self._judging.judgement()

    @cached_property
    def scores(self) -> Floats | None:
        """How right each answer is, between 0 and 1; None: the task says it of all answers together only."""
        fine = task_named(self.answers.task).fine_scores(self.answers)
        return self._judging.scores() if fine is None else fine

    @cached_property
    def aggregate(self) -> Aggregate:
        if self.judgement is not None:
            return remembered(self.judgement.of_main())
        return mean_of(np.zeros(len(self.labels)) if self.scores is None else self.scores)

    @cached_property
    def value(self) -> float:
        return float(self.aggregate(np.ones((1, len(self.labels)), np.int64))[0])

    @cached_property
    def interval(self) -> Interval | None:
        if not self.metric.interval:
            return None
        estimate = resampled_estimate(self.aggregate, len(self.labels), self.metric.limits)
        if estimate.interval is None or self.judgement is None:
            return estimate.interval
        return lowered(estimate, self.metric.limits, self.judgement.optimism(self.metric.name)).interval


def on_common_ground(first: JudgedAnswers, second: JudgedAnswers) -> tuple[JudgedAnswers, JudgedAnswers]:
    """The two without what only one of them answers."""
    answers = task_named(first.answers.task).on_common_ground(first.answers, second.answers)
    a, b = (
        figure if own is figure.answers else JudgedAnswers(own, figure.labels)
        for figure, own in zip((first, second), answers, strict=True)
    )
    return a, b


def remembered(aggregate: Aggregate) -> Aggregate:
    """An aggregate that computes each resample once: a figure is compared with many others on the same resamples."""
    known: dict[bytes, Floats] = {}

    def values(weights: Counts) -> Floats:
        key = hashlib.sha256(weights.tobytes()).digest()
        if key not in known:
            known[key] = aggregate(weights)
        return known[key]

    return values


def mean_of(scores: Floats) -> Aggregate:
    parts = np.column_stack([scores, np.ones(len(scores))])
    return of_sums(parts, lambda sums: sums[:, 0] / sums[:, 1])


def difference(first: Figure, second: Figure) -> Difference:
    """The first less the second."""
    if isinstance(first, RightAnswers) and isinstance(second, RightAnswers):
        return _of_right_answers(first.right, second.right)
    assert isinstance(first, JudgedAnswers)
    assert isinstance(second, JudgedAnswers)
    return _of_judged_answers(first, second)


def p_above_blind(figure: JudgedAnswers) -> float | None:
    """The p-value that a figure is that of answers which have nothing to do with the inputs; 1 where it is worse, None
    where it is not known."""
    metric = figure.metric
    blind = metric.blind
    if blind is None or not metric.interval:
        return None
    level: float = blind
    found = resampled_difference(
        lambda weights: np.full(len(weights), level), figure.aggregate, len(figure.labels), metric.limits
    )
    if found.p_value is None:
        return None
    return found.p_value if gained(metric, found.value) > 0 else 1.0


def is_above_blind(figure: JudgedAnswers, alpha: float) -> bool:
    """Whether a figure is better than that of answers which have nothing to do with the inputs: by more than noise, or
    by far where noise is not known."""
    p_value = p_above_blind(figure)
    return far_above_blind(figure) if p_value is None else p_value < alpha


def far_above_blind(figure: JudgedAnswers) -> bool:
    """Whether a figure is better than the blind one by a tenth of what is possible."""
    blind, metric = figure.metric.blind, figure.metric
    if blind is None:
        return False
    room = abs(metric.best - blind) if math.isfinite(metric.best) else abs(blind)
    return gained(metric, figure.value - blind) > _FAR * room


def gained(metric: Metric, change: float) -> float:
    """A change as an improvement."""
    return -change if metric.lower_is_better else change


def _of_right_answers(first: Flags, second: Flags) -> Difference:
    won, lost = int(np.count_nonzero(first & ~second)), int(np.count_nonzero(second & ~first))
    interval = paired_difference(lost, won, len(first))
    change = (won - lost) / len(first)
    return Difference(change, interval, exact_mcnemar(lost, won), exact=True, at_most=interval.high)


def _of_judged_answers(first: JudgedAnswers, second: JudgedAnswers) -> Difference:
    metric, n = first.metric, len(first.labels)
    change = first.value - second.value
    found = resampled_difference(second.aggregate, first.aggregate, n, metric.limits)
    known = metric.interval and found.interval is not None
    gain = gained(metric, change)
    moved = None if first.scores is None or second.scores is None else np.asarray(first.scores - second.scores)
    unmoved = found.unknown is NoInterval.NO_SPREAD if moved is None else not moved.any()
    if change == 0 and unmoved:
        # As many inputs may still move as where none of n did.
        return Difference(change, p_metric=1.0, at_most=wilson(0, n).high)
    return Difference(
        change,
        found.interval if known else None,
        found.p_value if known else None,
        None if moved is None else _flipped(moved, gain, 0.0 if known else _least_gain(metric, second.value)),
        at_most=_least_of(
            _at_most(metric, found.interval, second) if known else _mean_at_most(moved, gain),
            _room(second),
        ),
    )


def _flipped(moved: Floats, gain: float, least: float) -> float:
    """The p-value of the scores of inputs; 1 where they moved the other way than the metric, or where the metric moved
    by less than `least`: then neither is known."""
    p_value, _ = sign_flip(moved)
    together = np.sign(moved.sum()) == np.sign(gain)
    return p_value if together and abs(gain) >= least else 1.0


def _least_gain(metric: Metric, base: float) -> float:
    return LEAST_GAIN if metric.unit == FRACTION else LEAST_GAIN * abs(base)


def _least_of(*ends: float | None) -> float | None:
    return min((end for end in ends if end is not None), default=None)


def _room(figure: JudgedAnswers) -> float | None:
    """How much better than this a share or correlation can be at all, measured from the worse end of its interval: a
    figure is no better known than its interval says. One that cannot be better has none, and is as well known as a
    share of inputs of which all are right."""
    metric = figure.metric
    best = metric.best
    if metric.unit != FRACTION or math.isinf(best):
        return None
    if math.isclose(figure.value, best, abs_tol=_ROUNDING):
        return wilson(0, len(figure.labels)).high
    if figure.interval is None:
        return None
    return figure.interval.high - best if metric.lower_is_better else best - figure.interval.low


def _mean_at_most(moved: Floats | None, gain: float) -> float | None:
    """How much better it may be where resampling tells nothing of the metric: as much as the mean score may have risen,
    but no less than twice what the metric gained.

    DeepLab's images centred instead of at the top left cost 7 points of mIoU on 50 images, and the scores of
    images alone did not show it.
    """
    if moved is None:
        return None
    nothing = mean_of(np.zeros(len(moved)))
    interval = resampled_difference(nothing, mean_of(moved), len(moved)).interval
    return None if interval is None else max(interval.high, 2 * gain)


def _at_most(metric: Metric, interval: Interval | None, base: JudgedAnswers) -> float | None:
    """The better end of an interval: in points of a share or correlation, else relative to the figure of the base."""
    if interval is None:
        return None
    best = -interval.low if metric.lower_is_better else interval.high
    if metric.unit == FRACTION:
        return best
    return best / abs(base.value) if base.value else None
