"""The runs of an explanation: one side each, independent of each other, with the store as their memory."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np

from zoolens.base.engine.executors.current_executor import current_executor
from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.statistics.student import Values
from zoolens.base.store.records import fingerprint
from zoolens.base.store.store import Store
from zoolens.training.crosstrain.study.explanation.contest import Arm
from zoolens.training.crosstrain.study.store_training import train_into
from zoolens.training.crosstrain.training.job import Epoch
from zoolens.training.crosstrain.training.manner import Manner
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.trainer_pool import Workers
from zoolens.training.crosstrain.training.trial_runner import TrialRequest, apply
from zoolens.training.crosstrain.training.trials import Hyperparameter, TrainedSide

SEEDS = 1 << 31


class ExplanationBench:
    """Every run is a trial with one side in `study`. `at_once`: how many are trained beside each other."""

    def __init__(
        self, store: Store, study: str, workers: Workers, manner: Manner, at_once: int | None, progress: Progress
    ) -> None:
        self._store, self._study, self._workers, self._manner = store, study, workers, manner
        executor = current_executor()
        self._at_once = at_once or (executor.capacity if executor.elsewhere else 1)
        self._progress = progress
        self._sides: dict[tuple[str, Arm, int], TrainedSide] = {}
        self.trained = 0
        self.known = 0

    def accuracies(self, stage: str, recipe: Recipe, arms: Sequence[Arm], seeds: Sequence[int]) -> Values:
        """Seeds × arms."""
        sides = self.sides(stage, recipe, arms, seeds)
        return np.array([[_accuracy(sides[arm, seed]) for arm in arms] for seed in seeds], np.float64)

    def sides(
        self, stage: str, recipe: Recipe, arms: Sequence[Arm], seeds: Sequence[int]
    ) -> dict[tuple[Arm, int], TrainedSide]:
        """`seeds` are counted from the recipe's. What this bench had before is no run and no progress."""
        asked = [(arm, seed) for seed in seeds for arm in arms]
        new = [cell for cell in dict.fromkeys(asked) if (recipe.fingerprint, *cell) not in self._sides]
        if new:
            self._run(stage, recipe, new)
        return {cell: self._sides[recipe.fingerprint, *cell] for cell in asked}

    @property
    def unconfirmed(self) -> tuple[str, ...]:
        """What was told and read from no live object, as "FRAMEWORK: SEMANTIC"; what was read as something else is an
        error of `train_trial`."""
        wanted = {
            (arm.framework, name, arm) for _, arm, _ in self._sides for name in arm.told.model_dump(exclude_none=True)
        }
        read = {(arm, name) for (_, arm, _), side in self._sides.items() for name in side.semantics}
        return tuple(sorted({f"{framework}: {name}" for framework, name, arm in wanted if (arm, name) not in read}))

    def _run(self, stage: str, recipe: Recipe, new: Sequence[tuple[Arm, int]]) -> None:
        """The threads are not waited for when one fails: the runs that they are in end with the workers."""
        self._progress.begin(stage, "runs", len(new))
        threads = ThreadPoolExecutor(self._at_once)
        try:
            coming = {threads.submit(self._train, recipe, arm, seed): (arm, seed) for arm, seed in new}
            known = 0
            for future in as_completed(coming):
                side, trained = future.result()
                self._sides[recipe.fingerprint, *coming[future]] = side
                known += not trained
                self._progress.advance(1)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            self._progress.end()
        self.known += known
        self.trained += len(new) - known

    def _train(self, recipe: Recipe, arm: Arm, number: int) -> tuple[TrainedSide, bool]:
        """Returns the side of an arm, and whether it was trained just now."""
        seed = (recipe.seed + number) % SEEDS
        switched = arm.told.model_dump(exclude_none=True)
        identity = [arm.framework, switched, recipe.mode]
        settings: dict[str, Hyperparameter] = {f"semantics.{name}": value for name, value in switched.items()}
        request = TrialRequest(
            apply(recipe, {"seed": seed}),
            (arm.framework,),
            f"{arm.framework}-{fingerprint(identity)[:8]}-seed{seed}",
            {"seed": seed, **settings},
            {arm.framework: arm.told},
        )
        epochs: list[int] = []

        def report(_framework: str, epoch: Epoch) -> None:
            epochs.append(epoch.number)

        trial = train_into(self._store, self._study, request, self._workers, manner=self._manner, report=report)
        return trial.sides[0], bool(epochs)


def _accuracy(side: TrainedSide) -> float:
    if side.accuracy is None:
        switched = ", ".join(f"{name} {value}" for name, value in side.semantics.items())
        raise ZoolensError(
            f"A run of {side.framework}{f' ({switched})' if switched else ''} has no accuracy: "
            f"{side.message or side.status}",
            hint="The finished runs are kept: try again, or explain another trial.",
        )
    return side.accuracy
