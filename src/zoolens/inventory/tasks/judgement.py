"""The metrics of a task on a whole dataset, as functions of how often each input counts.

A metric that is no mean over inputs (AP, F1, mIoU, AUC) gets its interval and its paired test by resampling inputs:
`base/statistics/resampling.py` calls `Judgement.aggregate` with the weights of each resample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from zoolens.base.statistics.resampling import ROWS, SHARE, Aggregate, Counts, Floats, Limits

FRACTION: Final = "fraction"
# Between blind answers and the best value: twice what `eval` and `doctor` call hardly better. With less, a perfect
# model cannot be told from one that does not look at its inputs.
LEAST_ROOM: Final = 0.02


@dataclass(frozen=True)
class Metric:
    """One metric of a task: its name in the store, its unit (empty: that of the data), and the range it lies in."""

    name: str
    unit: str = FRACTION
    limits: Limits = SHARE
    lower_is_better: bool = False
    interval: bool = True  # False: none is given, because resampling does not cover what it should
    blind: float | None = None  # what answers get that have nothing to do with the inputs; None: not known

    @property
    def best(self) -> float:
        """The best value there is, which may be infinite."""
        return self.limits[0] if self.lower_is_better else self.limits[1]

    def above_blind(self, value: float) -> float | None:
        """How much better a value is than that of blind answers: in points of a share or correlation, else relative to
        theirs. None where theirs is not known."""
        if self.blind is None or math.isnan(self.blind):
            return None
        gain = self.blind - value if self.lower_is_better else value - self.blind
        if self.unit == FRACTION or not gain:
            return gain
        return gain / abs(self.blind) if self.blind else math.copysign(math.inf, gain)

    @property
    def tells(self) -> bool:
        """Whether the best value is clearly better than that of blind answers. Where it is not, such as where every
        input has the same label, the data do not show whether a model looks at its inputs."""
        room = self.above_blind(self.best)
        return room is None or room > LEAST_ROOM

    def is_hardly_better(self, value: float, than: float) -> bool:
        """Whether a value is better than that of blind answers by at most `than`, as `above_blind` counts, and by at
        most half of what is possible. False where that is not known."""
        gain, room = self.above_blind(value), self.above_blind(self.best)
        return gain is not None and room is not None and gain <= min(than, room / 2)


def _none(_: str | int) -> float:
    return 0.0


@dataclass(frozen=True)
class ClassFigures:
    """One metric of each of some classes: from weights (resamples × inputs) to values (resamples × classes)."""

    metric: Metric
    classes: tuple[int, ...]
    aggregate: Callable[[Counts], Floats]
    optimism: Callable[[int], float] = _none  # as that of `Judgement`, by the place of a class


@dataclass(frozen=True)
class Judgement:
    """What a dataset's truths say of a model's answers. `aggregate` gives one column for each metric, the main one
    first: from weights (resamples × inputs) to values (resamples × metrics), NaN where one is not defined."""

    metrics: tuple[Metric, ...]
    aggregate: Callable[[Counts], Floats]
    notes: tuple[str, ...] = ()  # what a reader should know of the figures, such as how many classes enter them
    by_class: ClassFigures | None = None
    # The main metric alone, of a task where that takes a fraction of the time of all metrics.
    main_alone: Aggregate | None = None
    # All metrics and then that of each class, of a task that gets both from the same sums.
    together: Callable[[Counts], Floats] | None = None
    rows: int = ROWS  # resamples that are computed at once
    # By how much a metric of so few inputs is above that of many on average, by its name.
    optimism: Callable[[str], float] = _none

    @property
    def main(self) -> Metric:
        return self.metrics[0]

    def of(self, name: str) -> Aggregate:
        """The aggregate of one metric."""
        place = [metric.name for metric in self.metrics].index(name)
        return lambda weights: self.aggregate(weights)[:, place]

    def of_main(self) -> Aggregate:
        """The aggregate of the main metric, for who needs no other."""
        return self.main_alone or self.of(self.main.name)

    @property
    def limits(self) -> list[Limits]:
        """The ranges of all columns of `with_classes`."""
        of_classes = () if self.by_class is None else [self.by_class.metric.limits] * len(self.by_class.classes)
        return [*(metric.limits for metric in self.metrics), *of_classes]

    def with_classes(self, weights: Counts) -> Floats:
        """All metrics, and then that of each class: resamples × columns."""
        if self.together is not None:
            return self.together(weights)
        found = self.aggregate(weights)
        return found if self.by_class is None else np.concatenate([found, self.by_class.aggregate(weights)], axis=1)


def each_resample(metrics: Callable[[Counts], Sequence[float]]) -> Callable[[Counts], Floats]:
    """The aggregate of metrics that are computed for the weights of one resample at a time."""
    return lambda weights: np.array([metrics(row) for row in weights], np.float64)
