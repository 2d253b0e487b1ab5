"""Figures of a study that fit in a table: how accurate each side is, how far apart they are, and the extreme trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.training.crosstrain.training.trials import Study, Trial

APART: Final = 0.05  # a Δ from which two sides count as apart
SHOWN: Final = 10
ROUNDING: Final = 1e-12  # of a difference of two shares: 0.15 − 0.10 is apart
_AS_PUBLISHED: Final = 1e-6  # a published Δ that is further from its accuracies is not theirs


@dataclass(frozen=True)
class Summary:
    """Summarises the values that are there; all fields are None where none is."""

    what: str
    count: int
    minimum: float | None = None
    maximum: float | None = None
    median: float | None = None
    mean: float | None = None


@dataclass(frozen=True)
class ThresholdShare:
    """`count` of `total` trials have a Δ of at least `threshold`. Trials without a Δ are not in `total`."""

    threshold: float
    count: int
    total: int

    @property
    def share(self) -> float:
        return self.count / self.total if self.total else 0.0


def summarise(what: str, values: NDArray[np.float64]) -> Summary:
    finite = values[np.isfinite(values)]
    if not len(finite):
        return Summary(what, 0)
    figures = (finite.min(), finite.max(), np.median(finite), finite.mean())
    return Summary(what, len(finite), *map(float, figures))


def accuracy_table(study: Study) -> tuple[Summary, ...]:
    """Each side's accuracy."""
    return tuple(summarise(name, study.accuracy(name)) for name in study.frameworks)


def deltas(study: Study) -> NDArray[np.float64]:
    """Δ of each trial, NaN where there is none; where one was published, that one: it has more digits than the
    accuracies it came from."""
    every_delta = [delta_of(trial) for trial in study.trials]
    return np.array([np.nan if value is None else value for value in every_delta], np.float64)


def delta_of(trial: Trial) -> float | None:
    """Returns Δ as it was published, where it was; a stranger's details may hold anything under that name."""
    delta, published = trial.delta, trial.details.get("published_delta")
    if delta is None or not isinstance(published, float) or not abs(published - delta) <= _AS_PUBLISHED:
        return delta
    return float(published)


def delta_table(studies: Sequence[Study]) -> tuple[Summary, ...]:
    """Δ of each study."""
    return tuple(summarise(study.name, deltas(study)) for study in studies)


def apart(studies: Sequence[Study], threshold: float = APART) -> ThresholdShare:
    """How many trials of these studies are at least so far apart."""
    every = np.concatenate([deltas(study) for study in studies]) if studies else np.zeros(0)
    finite = every[np.isfinite(every)]
    return ThresholdShare(threshold, int((finite >= threshold - ROUNDING).sum()), len(finite))


def most_apart(study: Study, count: int = SHOWN) -> tuple[Trial, ...]:
    """The trials with the largest Δ, largest first."""
    return tuple(study.trials[place] for place in _ranked(study)[::-1][:count])


def least_apart(study: Study, count: int = SHOWN) -> tuple[Trial, ...]:
    """The trials with the smallest Δ, smallest first."""
    return tuple(study.trials[place] for place in _ranked(study)[:count])


def _ranked(study: Study) -> list[int]:
    """Places of the trials that have a Δ, smallest first."""
    every_delta = deltas(study)
    return [int(place) for place in np.argsort(every_delta, kind="stable") if np.isfinite(every_delta[place])]
