"""The metrics of a task on a whole dataset, as functions of how often each input counts.

A metric that is no mean over inputs (AP, F1, mIoU, AUC) gets its interval and its paired test by resampling inputs:
`base/statistics/resampling.py` calls `Judgement.aggregate` with the weights of each resample.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from zoolens.base.statistics.resampling import ROWS, SHARE, Aggregate, Counts, Floats, Limits

FRACTION: Final = "fraction"


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


def _none(_: str | int) -> float:
    return 0.0


@dataclass(frozen=True)
class ClassFigures:
    """One metric of each of some classes: from weights (resamples × inputs) to values (resamples × classes)."""

    metric: Metric
    classes: tuple[int, ...]
    aggregate: Callable[[Counts], Floats]
    optimism: Callable[[int], float] = _none  # as that of `Judgement`, by the place of a class

    def of(self, place: int) -> Aggregate:
        """The aggregate of one class, by its place in `classes`."""
        return lambda weights: self.aggregate(weights)[:, place]


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
    _remembered: dict[bytes, Floats] = field(default_factory=dict, repr=False, compare=False)

    @property
    def main(self) -> Metric:
        return self.metrics[0]

    def of(self, name: str) -> Aggregate:
        """The aggregate of one metric."""
        place = [metric.name for metric in self.metrics].index(name)
        return lambda weights: self._all(weights)[:, place]

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

    def _all(self, weights: Counts) -> Floats:
        """All metrics of some weights. They are remembered, since each metric is resampled with the same weights, and
        to sort the detections of a dataset again for each of twelve figures would take twelve times as long."""
        key = hashlib.sha256(weights.tobytes()).digest()
        if key not in self._remembered:
            self._remembered[key] = self.aggregate(weights)
        return self._remembered[key]


def each_resample(metrics: Callable[[Counts], Sequence[float]]) -> Callable[[Counts], Floats]:
    """The aggregate of metrics that are computed for the weights of one resample at a time."""
    return lambda weights: np.array([metrics(row) for row in weights], np.float64)
