"""What one variant answered to some inputs, and how two variants compare on the same ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.statistics.intervals import Interval
from zoolens.base.statistics.significance import exact_mcnemar, mean_not_below_zero, sign_flip
from zoolens.findings.audit.doctor.evidence_figures import (
    Difference,
    Figure,
    JudgedAnswers,
    RightAnswers,
    difference,
    far_above_blind,
    gained,
    on_common_ground,
    p_above_blind,
)
from zoolens.findings.measure.predictions import Predictions
from zoolens.inventory.tasks.judgement import Metric
from zoolens.inventory.tasks.task import Task, taken_answers, task_named

ALPHA: Final = 0.05
WORTH_SEEING: Final = 0.1  # of accuracy: a fault in a manifest costs as much or more
FEWEST: Final = 20  # inputs: with fewer, guessing cannot be told from knowing
_FLOOR: Final = 1e-6  # a probability of 0 is rounding, and must not outweigh all other inputs


@dataclass(frozen=True)
class Evidence:
    """What one variant answered. `figure`: None where it cannot run, or where nothing can be said of its answers.

    `finer`: a number for each input that sees smaller faults than the figure does: the logarithm of the probability of
    the true class, or how right the answer is; None where the task has neither.
    `distance`: answered class − true class, of tasks that answer with a class. `one_answer`: every input is answered
    with the same class, although they are of several, or with the same numbers, although they differ.
    """

    run: str | None
    inputs: NDArray[Any]
    figure: Figure | None
    finer: NDArray[np.float64] | None = None
    distance: NDArray[np.int64] | None = None
    error: str | None = None
    one_answer: bool = False

    @property
    def n(self) -> int:
        return len(self.inputs)

    @property
    def value(self) -> float | None:
        return None if self.figure is None else self.figure.value

    @property
    def interval(self) -> Interval | None:
        return None if self.figure is None else self.figure.interval

    @property
    def right(self) -> NDArray[np.bool_]:
        """Which inputs are answered rightly, of a task whose answers are right or wrong."""
        assert isinstance(self.figure, RightAnswers)
        return self.figure.right

    @property
    def mean_finer(self) -> float:
        """Below any other where it is not known: a logarithm of a probability is below 0."""
        return -math.inf if self.finer is None else float(self.finer.mean())

    @property
    def rank(self) -> tuple[bool, float, float]:
        """Higher is better: runs at all, the figure, the finer numbers."""
        if self.figure is None:
            return False, 0.0, self.mean_finer
        return self.error is None, gained(self.figure.metric, self.figure.value), self.mean_finer

    def without(self, inputs: NDArray[Any]) -> Evidence:
        """Return the evidence without that of some inputs. It has no figure where the others define none."""
        kept = np.flatnonzero(~np.isin(self.inputs, inputs))
        figure = self.figure.of(kept) if self.figure is not None and len(kept) else None
        if figure is None or not math.isfinite(figure.value):
            return Evidence(self.run, self.inputs[kept], None, error=self.error or "These inputs define no figure.")
        return Evidence(
            self.run,
            self.inputs[kept],
            figure,
            None if self.finer is None else self.finer[kept],
            None if self.distance is None else self.distance[kept],
            self.error,
            self.one_answer,
        )


def from_predictions(run: str, predictions: Predictions, *, dead: bool = False) -> Evidence:
    """The evidence of those inputs that have a truth. `dead`: different inputs are answered with the same numbers."""
    task, known = task_named(predictions.main.task), np.flatnonzero(predictions.known)
    inputs = predictions.inputs[known]
    if not len(known):
        return failed(run, predictions.inputs, task, "None of these inputs has a truth that judges its answer.")
    if task.discrete:
        answers, labels = predictions.answers[known].astype(np.int64), predictions.labels[known]
        return Evidence(
            run,
            inputs,
            RightAnswers(right_metric(task), predictions.correct[known]),
            _log_score(predictions.label_score[known]),
            answers - labels,
            one_answer=len(np.unique(answers)) == 1 < len(np.unique(labels)),
        )
    figure = JudgedAnswers(taken_answers(predictions.main, known), predictions.labels[known])
    if not math.isfinite(figure.value):
        return failed(run, inputs, task, f"Its {figure.metric.name} is not defined on these inputs.")
    return Evidence(run, inputs, figure, figure.scores, one_answer=dead)


def _log_score(probability: NDArray[np.float32]) -> NDArray[np.float64] | None:
    """The logarithm of the probability of each true class; None where probabilities were not kept."""
    if np.isnan(probability).any():
        return None
    return np.log(np.maximum(probability.astype(np.float64), _FLOOR))


def right_metric(task: Task) -> Metric:
    """The share of right answers of a task."""
    return Metric(task.metric or "score")


def failed(run: str | None, inputs: NDArray[Any], task: Task, error: str) -> Evidence:
    """A variant that cannot run. Where answers are right or wrong, it got none right."""
    n = len(inputs)
    if not task.discrete:
        return Evidence(run, inputs, None, error=error)
    wrong = RightAnswers(right_metric(task), np.zeros(n, bool))
    return Evidence(run, inputs, wrong, np.full(n, math.log(_FLOOR)), np.zeros(n, np.int64), error)


@dataclass(frozen=True)
class Contrast:
    """How variant `other` compares with variant `base` on the same inputs."""

    base: Evidence
    other: Evidence

    @classmethod
    def of(cls, base: Evidence, other: Evidence) -> Contrast:
        """Compares the two by what both answer."""
        if isinstance(base.figure, JudgedAnswers) and isinstance(other.figure, JudgedAnswers):
            common = on_common_ground(base.figure, other.figure)
            base, other = (
                each if figure is each.figure else replace(each, figure=figure, finer=figure.scores)
                for each, figure in zip((base, other), common, strict=True)
            )
        return cls(base, other)

    @cached_property
    def difference(self) -> Difference:
        base, other = self.base.figure, self.other.figure
        if base is not None and other is not None:
            found = difference(other, base)
            # To answer everything with the commonest class is often right and proves nothing.
            helps = gained(other.metric, found.change) > 0
            return replace(found, p_metric=1.0, at_most=0.0) if self.other.one_answer and helps else found
        if base is None and isinstance(other, JudgedAnswers):
            # Any answer is better than none; whether there is more to it, the distance from answers that have nothing
            # to do with the inputs says. Scores of inputs are better than none too, where that is not known.
            p_value = p_above_blind(other)
            telling = other.metric.blind is None or far_above_blind(other)
            if p_value is None and other.scores is not None and telling:
                return Difference(other.value, p_inputs=sign_flip(other.scores)[0])
            return Difference(other.value, p_metric=p_value)
        return Difference(-math.inf if other is None and base is not None else 0.0)

    @property
    def change(self) -> float:
        return self.difference.change

    @property
    def known_change(self) -> float | None:
        """The change; None where one of the two has no figure."""
        return None if self.base.figure is None or self.other.figure is None else self.change

    @property
    def gain(self) -> float:
        """The change as an improvement."""
        figure = self.other.figure or self.base.figure
        if figure is None or self.base.figure is None:
            return 0.0 if self.other.figure is None else math.inf
        return self.change if self.other.figure is None else gained(figure.metric, self.change)

    @property
    def interval(self) -> Interval | None:
        return self.difference.interval

    @property
    def p_value(self) -> float:
        """1 where no test applies, which shows nothing."""
        return self.difference.p_value()

    @property
    def worse(self) -> bool:
        return self.gain < 0 and self.p_value < ALPHA

    @property
    def less_likely(self) -> bool:
        """Whether `other` is clearly worse in the finer numbers, which see much smaller faults than the figure does."""
        if self.other.finer is None or self.base.finer is None:
            return False
        return mean_not_below_zero(self.other.finer - self.base.finer) < ALPHA / 2


def could_tell(n: int, tests: int) -> bool:
    """Whether a difference worth seeing, won input by input with none lost, would be significant on n inputs."""
    return exact_mcnemar(0, math.ceil(WORTH_SEEING * n)) * tests < ALPHA


def rules_out_better(contrasts: Sequence[Contrast]) -> bool:
    """Whether each of these variants is known not to be better than its base by a difference worth seeing.

    A variant that is as much better would have to lie above the end of its own interval, of one in forty; that others
    were tried too does not make it likelier, so that nothing is adjusted for their number. Where none could be
    evaluated, nothing is known.
    """
    ends = [contrast.difference.at_most for contrast in contrasts if contrast.other.error is None]
    return bool(ends) and all(end is not None and end < WORTH_SEEING for end in ends)
