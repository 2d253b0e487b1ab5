"""Trials of a study as plain values. Everything that is reported is derived from these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import UnknownName
from zoolens.base.present.results import Result

Hyperparameter = float | int | str


@dataclass(frozen=True)
class TrainedSide:
    """What one framework made of a trial. `correct` and `total` are exact counts; a published figure that cannot be
    turned into counts has only `accuracy`, and `exact` is False. `answered`: how often each class was answered."""

    framework: str
    status: str = "finished"
    accuracy: float | None = None
    exact: bool = True
    correct: int | None = None
    total: int | None = None
    losses: tuple[float | None, ...] = ()  # per epoch
    accuracies: tuple[float | None, ...] = ()  # per epoch
    class_accuracy: tuple[float | None, ...] = ()
    answered: tuple[int, ...] = ()
    seconds: float | None = None
    semantics: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""
    run: str | None = None  # its run in the store

    @property
    def collapsed(self) -> bool:
        """Always the same answer: an accuracy that says nothing about learning."""
        return sum(1 for count in self.answered if count) == 1


@dataclass(frozen=True, repr=False)
class Trial(Result):
    """One setting of the hyperparameters, trained by every side. `churn`: share of test samples that a pair answers
    differently, by (framework, framework)."""

    id: str
    hyperparameters: Mapping[str, Hyperparameter]
    sides: tuple[TrainedSide, ...]
    churn: Mapping[tuple[str, str], float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)  # recipe, subspace, when, where

    def side(self, framework: str) -> TrainedSide:
        for trained in self.sides:
            if trained.framework == framework:
                return trained
        raise UnknownName(f"side of trial {self.id}", framework, (side.framework for side in self.sides))

    @property
    def pairs(self) -> Iterator[tuple[TrainedSide, TrainedSide]]:
        return combinations(self.sides, 2)

    @property
    def delta(self) -> float | None:
        """The largest |difference of accuracy| over all pairs that have both."""
        gaps = [
            abs(a.accuracy - b.accuracy) for a, b in self.pairs if a.accuracy is not None and b.accuracy is not None
        ]
        return max(gaps, default=None)


IMPORTING: Final = "importing"  # in a study's details until its import is finished: how many trials it will have


@dataclass(frozen=True, repr=False)
class Study(Result):
    """`frameworks` in the order of the sides. `details`: source, citation, base recipe, space, machine."""

    name: str
    frameworks: tuple[str, ...]
    trials: tuple[Trial, ...]
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def missing(self) -> str:
        """How many trials are missing, because the study is being imported, or that was interrupted; else empty."""
        return f"Not whole: {self.trial_count} trials were imported." if self.expected > len(self.trials) else ""

    @property
    def expected(self) -> int:
        """How many trials the study has when its import is finished."""
        expected = self.details.get(IMPORTING)
        return max(expected, len(self.trials)) if isinstance(expected, int) else len(self.trials)

    @property
    def trial_count(self) -> str:
        """How many trials there are; "64 of 400" where others are missing, so that a list does not hide it."""
        count = f"{len(self.trials):,}"
        return f"{count} of {self.expected:,}" if self.expected > len(self.trials) else count

    @property
    def source(self) -> str:
        """Where it comes from, and whether it is whole."""
        return " ".join(filter(None, (str(self.details.get("source", "")), self.missing)))

    @property
    def hyperparameters(self) -> tuple[str, ...]:
        """Names of those that differ between trials, in the order in which they are given."""
        seen: dict[str, set[Hyperparameter]] = {}
        for trial in self.trials:
            for name, value in trial.hyperparameters.items():
                seen.setdefault(name, set()).add(value)
        return tuple(name for name, values in seen.items() if len(values) > 1)

    def column(self, name: str) -> NDArray[Any]:
        """A hyperparameter over the trials; numbers as float64, NaN where a trial has none."""
        values = [trial.hyperparameters.get(name) for trial in self.trials]
        if any(isinstance(value, str) for value in values):
            return np.array(["" if value is None else str(value) for value in values])
        return np.array([np.nan if value is None else value for value in values], np.float64)

    def accuracy(self, framework: str) -> NDArray[np.float64]:
        """The accuracies of a framework's sides, NaN where a side has none."""
        accuracies = [trial.side(framework).accuracy for trial in self.trials]
        return np.array([np.nan if value is None else value for value in accuracies], np.float64)

    def deltas(self) -> NDArray[np.float64]:
        every_delta = [trial.delta for trial in self.trials]
        return np.array([np.nan if value is None else value for value in every_delta], np.float64)
