"""Trainings of an explanation that are done, kept in the store as trials of a study, so that none is done twice.

A training is found again if everything that decides about it is the same: what decides about a seed of a paired
training (`kept_seeds`), the side, the settings that it was given, and its weights at the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from zoolens.base.store.records import fingerprint
from zoolens.base.store.store import Store
from zoolens.training.crosstrain.study.stored_studies import TrialFiling, file_study, file_trial
from zoolens.training.crosstrain.training.trials import Trial
from zoolens.training.pairs.data.sources import BatchSource
from zoolens.training.pairs.explanation.side_bench import Described
from zoolens.training.pairs.loop.single_run import Length, SingleRun
from zoolens.training.pairs.loop.trainable_sides import as_trainable
from zoolens.training.pairs.networks.framework import Array
from zoolens.training.pairs.semantics import Semantics
from zoolens.training.pairs.sides.open_pair import OpenPair
from zoolens.training.port.training.kept_seeds import (
    KeptRun,
    classes_of,
    dataset_of,
    decided_by,
    digest,
    trial_side,
    without_machine,
)


class _Kept(BaseModel):
    """What a trial's details say of one training; whoever wrote it may have written anything."""

    model_config = ConfigDict(extra="forbid")

    start: str
    given: str
    run: KeptRun


class KeptRuns:
    """The study of the explanation of one pair under one way of training."""

    def __init__(self, store: Store, pair: OpenPair, source: BatchSource, settings: Mapping[str, Any]) -> None:
        self._store, self._source, self._settings = store, source, settings
        self._sides = as_trainable(pair.a), as_trainable(pair.b)
        self.study = f"port-explain-{fingerprint(dict(settings))[:12]}"
        self._labels = [f"{side.framework} ({letter})" for side, letter in zip(self._sides, "ab", strict=True)]
        self._read: dict[str, Mapping[str, Any]] | None = None

    @classmethod
    def of(
        cls, store: Store, pair: OpenPair, source: BatchSource, length: Length, how: Mapping[str, Any]
    ) -> KeptRuns | None:
        """Returns None where a side is no function of a file or a module, so that nobody can say what it was."""
        settings = decided_by(pair, source, length, {**how, "explained": True})
        return None if settings is None else cls(store, pair, source, settings)

    def read(self, arm: Described, seed: int, weights: Mapping[str, Array]) -> SingleRun | None:
        """The training, if it was done before from the same weights with the same settings."""
        if self._read is None:
            self._read = {trial.name: trial.details for trial in self._store.trials(self.study)}
        start, given = digest(weights), _given(arm)
        try:
            kept = _Kept.model_validate(self._read.get(_name(arm, seed, start), {}).get("port"))
        except ValidationError:
            return None
        return SingleRun(**kept.run.model_dump()) if (kept.start, kept.given) == (start, given) else None

    def write(self, arm: Described, seed: int, weights: Mapping[str, Array], run: SingleRun) -> None:
        """Stores a training as a trial with one side, its figures and its answers."""
        label, start = self._labels[arm[0]], digest(weights)
        figures = {name: value for name, value in vars(run).items() if name != "answers"}
        trial = Trial(
            _name(arm, seed, start),
            {"seed": seed, "given": ", ".join(arm[1]) or "nothing"},
            (trial_side(label, run),),
            {},
            details={"architecture": "your own", "port": {"start": start, "given": _given(arm), "run": figures}},
        )
        file_study(self._store, self.study, self._labels, {"port": without_machine(self._settings)})
        file_trial(
            self._store,
            self.study,
            trial,
            TrialFiling(
                recipe_of={label: (None, Semantics())},
                dataset=dataset_of(self._source),
                versions={label: self._sides[arm[0]].facts.versions},
                predictions=classes_of([label], [run]),
            ),
        )


def _given(arm: Described) -> str:
    return fingerprint([arm[0], dict(arm[1])])


def _name(arm: Described, seed: int, start: str) -> str:
    return f"{'ab'[arm[0]]}-{_given(arm)[:8]}-seed-{seed}-{start[:8]}"
