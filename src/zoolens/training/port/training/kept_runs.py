"""Trainings of an explanation that are done, kept in the store as trials of a study, so that none is done twice.

A training is found again if everything that decides about it is the same: what decides about a seed of a paired
training (`kept_seeds`), the side, the settings that it was given, and its weights at the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from zoolens.base.store.records import fingerprint
from zoolens.base.store.store import Store
from zoolens.training.crosstrain.training.trials import Trial
from zoolens.training.pairs.data.sources import BatchSource
from zoolens.training.pairs.explanation.side_bench import Described
from zoolens.training.pairs.loop.single_run import SingleRun
from zoolens.training.pairs.networks.framework import Array
from zoolens.training.pairs.networks.tensor_digest import digest_of_tensors
from zoolens.training.pairs.sides.open_pair import OpenPair
from zoolens.training.port.training.kept_seeds import (
    KeptRun,
    KeptStudy,
    trial_side,
)


class _Kept(BaseModel):
    """What a trial's details say of one training; whoever wrote it may have written anything."""

    model_config = ConfigDict(extra="forbid")

    start: str
    given: str
    run: KeptRun


class KeptRuns(KeptStudy):
    """Trainings of the explanation of one pair."""

    prefix: ClassVar[str] = "port-explain"
    lettered: ClassVar[bool] = True
    own: ClassVar[Mapping[str, Any]] = {"explained": True}

    def __init__(self, store: Store, pair: OpenPair, source: BatchSource, settings: Mapping[str, Any]) -> None:
        super().__init__(store, pair, source, settings)
        self._read: dict[str, Mapping[str, Any]] | None = None

    def read(self, arm: Described, seed: int, weights: Mapping[str, Array]) -> SingleRun | None:
        """The training, if it was done before from the same weights with the same settings."""
        if self._read is None:
            self._read = {trial.name: trial.details for trial in self.store.trials(self.study)}
        start, given = digest_of_tensors(weights), _given(arm)
        try:
            kept = _Kept.model_validate(self._read.get(_name(arm, seed, start), {}).get("port"))
        except ValidationError:
            return None
        return SingleRun(**kept.run.model_dump()) if (kept.start, kept.given) == (start, given) else None

    def write(self, arm: Described, seed: int, weights: Mapping[str, Array], run: SingleRun) -> None:
        """Stores a training as a trial with one side, its figures and its answers."""
        label, start = self.labels[arm[0]], digest_of_tensors(weights)
        figures = {name: value for name, value in vars(run).items() if name != "answers"}
        trial = Trial(
            _name(arm, seed, start),
            {"seed": seed, "given": ", ".join(arm[1]) or "nothing"},
            (trial_side(label, run),),
            {},
            details={"architecture": "your own", "port": {"start": start, "given": _given(arm), "run": figures}},
        )
        self.file(trial, {arm[0]: run})


def _given(arm: Described) -> str:
    return fingerprint([arm[0], dict(arm[1])])


def _name(arm: Described, seed: int, start: str) -> str:
    return f"{'ab'[arm[0]]}-{_given(arm)[:8]}-seed-{seed}-{start[:8]}"
