"""Seeds of a paired training that are done, kept in the store as trials of a study, so that none is trained twice.

A seed is found again if everything that decides about it is the same: the text of the user's files that were loaded,
the function, the versions of packages, what can be read from the live objects, the data, the length, and both sides'
weights at the start. What a user's loss or layers read from elsewhere while they compute is not seen. The store has the
names of the sides and a digest of their code, nothing that could be run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, ClassVar, Final, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from zoolens.base.store.records import DatasetRecord, fingerprint
from zoolens.base.store.store import Store
from zoolens.training.crosstrain.study.stored_studies import TrialFiling, file_study, file_trial
from zoolens.training.crosstrain.training.fanout import this_machine
from zoolens.training.crosstrain.training.trials import TrainedSide, Trial
from zoolens.training.pairs.data.sources import BatchSource
from zoolens.training.pairs.loop.seed_pairs import SeedPair
from zoolens.training.pairs.loop.single_run import Length, SingleRun
from zoolens.training.pairs.loop.trainable_sides import TrainableSide, as_trainable
from zoolens.training.pairs.networks.framework import Array
from zoolens.training.pairs.semantics import Semantics
from zoolens.training.pairs.sides.open_pair import OpenPair

PROTOCOL: Final = 2  # raise it when a step, or how its outcome is judged, changes what a kept figure means


class KeptRun(BaseModel):
    """One side's training as a trial's details have it."""

    model_config = ConfigDict(extra="forbid")

    first_loss: float
    losses: tuple[float, ...]
    steps: int = Field(ge=1)
    seconds: float
    not_finite: int | None = None
    correct: int | None = Field(default=None, ge=0)
    total: int | None = Field(default=None, ge=0)


class _Kept(BaseModel):
    """What a trial's details say of one seed; whoever wrote it may have written anything."""

    model_config = ConfigDict(extra="forbid")

    start: str
    runs: tuple[KeptRun, KeptRun]
    held_out_losses: tuple[float, float] | None = None
    churn: float | None = None


class KeptStudy:
    """A study of the store that holds trainings of one pair under one way of training."""

    prefix: ClassVar[str]  # of the study's name
    lettered: ClassVar[bool]  # whether sides are told apart by letters also where their frameworks differ
    own: ClassVar[Mapping[str, Any]] = {}  # what tells its settings from those of another kind of study

    def __init__(self, store: Store, pair: OpenPair, source: BatchSource, settings: Mapping[str, Any]) -> None:
        self.store, self._source, self._settings = store, source, settings
        self._sides = as_trainable(pair.a), as_trainable(pair.b)
        self.study = f"{self.prefix}-{fingerprint(dict(settings))[:12]}"
        frameworks = [side.framework for side in self._sides]
        letters = self.lettered or frameworks[0] == frameworks[1]
        lettered = [f"{name} ({letter})" for name, letter in zip(frameworks, "ab", strict=True)]
        self.labels = lettered if letters else frameworks

    @classmethod
    def of(
        cls, store: Store, pair: OpenPair, source: BatchSource, length: Length, how: Mapping[str, Any]
    ) -> Self | None:
        """Returns None where a side is no function of a file or a module, so that nobody can say what it was. `how`:
        what else decides about the training."""
        settings = decided_by(pair, source, length, {**how, **cls.own})
        return None if settings is None else cls(store, pair, source, settings)

    def file(self, trial: Trial, runs: Mapping[int, SingleRun]) -> None:
        """Store a trial with the runs of its sides, by the side, 0 or 1."""
        labels = [self.labels[side] for side in runs]
        filing = TrialFiling(
            recipe_of={label: (None, Semantics()) for label in labels},
            dataset=dataset_of(self._source),
            versions={self.labels[side]: self._sides[side].facts.versions for side in runs},
            predictions=classes_of(labels, list(runs.values())),
        )
        file_study(self.store, self.study, self.labels, {"port": without_machine(self._settings)})
        file_trial(self.store, self.study, trial, filing)


class KeptSeeds(KeptStudy):
    """Seeds of a paired training."""

    prefix: ClassVar[str] = "port"
    lettered: ClassVar[bool] = False

    def read(self, seed: int, start: str) -> SeedPair | None:
        """The seed, if it was trained from the same weights; `start`: their digest."""
        details = next(
            (trial.details for trial in self.store.trials(self.study) if trial.name == _name(seed, start)), {}
        )
        try:
            kept = _Kept.model_validate(details.get("port"))
        except ValidationError:
            return None
        if kept.start != start:
            return None
        a, b = (SingleRun(**run.model_dump()) for run in kept.runs)
        return SeedPair(seed, (a, b), kept.held_out_losses, kept.churn, kept=True)

    def write(self, pair: SeedPair, start: str) -> None:
        """Stores a seed as a trial with both sides, their figures and their answers."""
        sides = tuple(trial_side(label, run) for label, run in zip(self.labels, pair.runs, strict=True))
        figures = [{name: value for name, value in vars(run).items() if name != "answers"} for run in pair.runs]
        kept = {"start": start, "runs": figures, "held_out_losses": pair.held_out_losses, "churn": pair.churn}
        churn = {} if pair.churn is None else {(self.labels[0], self.labels[1]): pair.churn}
        trial = Trial(
            _name(pair.seed, start),
            {"seed": pair.seed},
            sides,
            churn,
            details={"architecture": "your own", "port": kept},
        )
        self.file(trial, dict(enumerate(pair.runs)))


def decided_by(pair: OpenPair, source: BatchSource, length: Length, how: Mapping[str, Any]) -> dict[str, Any] | None:
    """All that decides about a training beside the seed and the weights, with `how`; None where nobody can say."""
    sides = as_trainable(pair.a), as_trainable(pair.b)
    codes = [side.code() for side in sides]
    if None in codes:
        return None
    return {
        "protocol": PROTOCOL,
        "sides": [_side(side, str(code)) for side, code in zip(sides, codes, strict=True)],
        "inputs": [[given.kind, *given.shape] for given in pair.inputs],
        "data": source.fingerprint,
        "epochs": length.epochs,
        "most_steps": length.most_steps,
        "machine": this_machine(),
        **how,
    }


def _name(seed: int, start: str) -> str:
    """Other weights make another training, which has a trial of its own."""
    return f"seed-{seed}-{start[:8]}"


def _side(side: TrainableSide, code: str) -> dict[str, Any]:
    """A user's code may read its settings from the environment or a file, so that they are not in its text."""
    return {
        "name": _without_folders(side.text), "code": code, "versions": dict(side.facts.versions),
        "settings": side.settings(),
    }  # fmt: skip


def _without_folders(name: str) -> str:
    """The name of a file and its function, or of two of them, without the folders, which are nobody's business."""
    return " and ".join(PurePath(part).name if ".py:" in part else part for part in name.split(" and "))


def dataset_of(source: BatchSource) -> DatasetRecord:
    """Returns what a trial was trained and tested on, as the store records it."""
    sizes = {"train": source.samples, "test": source.held_out_samples, "classes": source.classes}
    return DatasetRecord(
        fingerprint(["port", source.fingerprint]), _without_folders(source.name), source.held_out_samples, sizes
    )


def trial_side(label: str, run: SingleRun) -> TrainedSide:
    """A run as a side of a trial."""
    lost = run.not_finite is not None
    return TrainedSide(
        label,
        status="non-finite" if lost else "finished",
        accuracy=run.accuracy,
        correct=run.correct,
        total=run.total,
        losses=tuple(loss if math.isfinite(loss) else None for loss in run.losses),
        seconds=run.seconds,
        message=f"The loss or the answers became no finite number at step {run.not_finite}." if lost else "",
    )


def classes_of(labels: Sequence[str], runs: Sequence[SingleRun]) -> dict[str, Array]:
    """The classes that each run names for the held-out samples."""
    return {
        label: run.answers.argmax(-1).astype(np.int32)
        for label, run in zip(labels, runs, strict=True)
        if run.answers is not None and run.correct is not None
    }


def without_machine(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a study says of how it was trained."""
    return {name: value for name, value in settings.items() if name != "machine"}
