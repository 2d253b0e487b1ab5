"""Runs that stop after a few steps, with what they computed at chosen ones, and how far rounding moves it.

A few runs in float32, whose first weights are disturbed by some roundings, train along the same batches: how far they
get from the reference in float64 is what rounding can do. The runs compute in float32, since a reference with disturbed
weights would not show all: torch's batch norm sums a variance naively and is 1000 roundings off; and a bias before a
norm has a gradient of nothing but rounding, which Adam turns into whole steps.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from zoolens.base.errors import ModelError, WorkerError
from zoolens.base.numerics import rounding
from zoolens.base.numerics.deviation import Deviation, deviation
from zoolens.training.crosstrain.training.architectures import build, is_statistic
from zoolens.training.crosstrain.training.job import Job, Outcome
from zoolens.training.crosstrain.training.network import Network
from zoolens.training.crosstrain.training.recipe import MAX_EPOCHS, Recipe
from zoolens.training.crosstrain.training.trainer_pool import Workers
from zoolens.training.crosstrain.training.trainers.registry import reference_trainer, trainer_named
from zoolens.training.crosstrain.training.trainers.trainer import Trainer
from zoolens.training.crosstrain.training.trial_runner import first_weights
from zoolens.training.crosstrain.training.weights import read_weights, write_weights
from zoolens.training.pairs.data.epoch_order import steps as steps_of
from zoolens.training.pairs.data.prepared_data import PreparedData, prepared
from zoolens.training.pairs.lockstep.floors import RUNS, Floors, raise_floors
from zoolens.training.pairs.lockstep.quantities import Array, Capture, Key, captured_key
from zoolens.training.pairs.semantics import Semantics

MAX_STEPS: Final = 100  # to capture: each of them is a file with everything a step computed


@dataclass(frozen=True)
class LockstepRun:
    """One run with everything that its captured steps computed."""

    outcome: Outcome
    semantics: Semantics  # what the run was told, or resolved to where it was told nothing
    network: Network  # what the run trained, as far as its layers and tensors go
    start: Mapping[str, Array]  # the first weights
    folder: Path

    def at(self, step: int) -> dict[str, Array] | None:
        """What the step computed (see `Job`); tensors and statistics as what they moved by since the start. None: the
        run ended before it.

        A port compares the tensors themselves. Here that would hide small differences of an update beside the weights:
        another `adam_rule` would show in the shift of a norm first, and not in the kernel that is updated before it.
        """
        path = self.folder / f"capture-{step}.safetensors"
        return {key: self._moved(key, value) for key, value in read_weights(path).items()} if path.is_file() else None

    def _moved(self, key: str, value: Array) -> Array:
        kind, _, name = key.partition("/")
        return value - self.start[name].astype(np.float64) if kind in ("tensor", "statistic") else value


@dataclass(frozen=True)
class Course:
    """What all runs of a comparison have in common. `reference` is the trainer that the sides are compared with.

    The search for causes comes back to the same references: `references` has those that were run, by their semantics
    and steps, and `measured_floors` what was measured of each, by the numbers of the disturbed runs."""

    recipe: Recipe
    data: PreparedData
    steps: tuple[int, ...]
    folder: Path
    workers: Workers
    threads: int | None
    reference: type[Trainer]
    references: dict[tuple[Semantics, tuple[int, ...]], LockstepRun] = field(
        default_factory=dict, compare=False, repr=False
    )
    measured_floors: dict[tuple[Path, range], Floors] = field(default_factory=dict, compare=False, repr=False)

    @property
    def samples(self) -> int:
        return int(self.data.record.details["train"])

    def network(self, semantics: Semantics) -> Network:
        """What a side builds. Where it decides itself, it has the same tensors as the reference."""
        resolved = semantics.over(self.reference.habits)
        return build(self.recipe.architecture, resolved, self.data.input_shape, self.data.classes)

    def first_weights(self, network: Network) -> dict[str, Array]:
        """Tensors of the same name are the same for every network of the architecture."""
        return first_weights(network, self.recipe.wanted, self.recipe.seed)

    def run_reference(self, semantics: Semantics) -> LockstepRun:
        """The run of the reference in the precision that it declares; none is made twice."""
        question = (semantics, self.steps)
        if question not in self.references:
            name = f"reference-{len(self.references)}"
            precision = self.reference.reference_precision
            self.references[question] = self.run(name, self.reference.name, semantics, precision=precision)
        return self.references[question]

    def floors(self, reference: LockstepRun, runs: range = range(RUNS)) -> Floors:
        """How far rounding moves each quantity of the reference; infinitely where a run did not get so far. `runs`:
        their numbers, each of them another disturbance. None is measured twice."""
        question = reference.folder, runs
        if question not in self.measured_floors:
            self.measured_floors[question] = self._measured(reference, runs)
        return self.measured_floors[question]

    def _measured(self, reference: LockstepRun, runs: range) -> Floors:
        floors: Floors = {}
        for number in runs:
            start = disturbed(reference.start, number)
            run = self.run(
                f"noise-{number}", self.reference.name, reference.semantics, precision="float32", start=start
            )
            for step in self.steps:
                raise_floors(floors, step, _moved_by_rounding(reference.at(step), run.at(step)))
            shutil.rmtree(run.folder)
        return floors

    def run(
        self,
        name: str,
        framework: str,
        semantics: Semantics,
        *,
        precision: str | None = None,
        device: str = "cpu",
        start: Mapping[str, Array] | None = None,
    ) -> LockstepRun:
        """`precision`: None is the recipe's; `start`: None are the first weights."""
        network = self.network(semantics)
        given = self.first_weights(network) if start is None else start
        output = self.folder / name
        write_weights(output / "start.safetensors", given)
        job = Job(
            recipe=self.recipe.model_copy(update={"precision": precision or self.recipe.precision}),
            framework=framework,
            semantics=semantics,
            data=self.data.folder,
            output=output,
            weights=output / "start.safetensors",
            loop=trainer_named(framework).usual_loop(device),
            device=device,
            threads=self.threads,
            capture=self.steps,
        )
        outcome, _ = self.workers.train(job)
        if outcome.status in ("failed", "out-of-memory"):
            raise WorkerError(f"{framework} did not get to step {max(self.steps)}: {outcome.message}")
        return LockstepRun(outcome, _resolved(outcome, semantics), network, given, output)


def _resolved(outcome: Outcome, semantics: Semantics) -> Semantics:
    """Initial weights are the same for all, and so none of the framework's rules."""
    return outcome.semantics.model_copy(update={"init": None, "bias_init": None}).over(semantics)


def disturbed(weights: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """Every learned number by up to so many roundings, up or down."""
    generator = np.random.default_rng(seed)
    moved_weights = {}
    for name, array in weights.items():
        moved = rounding.disturbed(array, generator)  # also of a statistic, so that each number draws what it drew
        moved_weights[name] = array.astype(np.float32) if is_statistic(name) else moved
    return moved_weights


def _moved_by_rounding(exact: Capture | None, noisy: Capture | None) -> dict[Key, Deviation]:
    if exact is None:
        return {}
    return {
        captured_key(name): Deviation(math.inf) if noisy is None else deviation(noisy[name], values)
        for name, values in exact.items()
    }


def course(
    recipe: Recipe, steps: tuple[int, ...], folder: Path, workers: Workers, threads: int | None = None
) -> Course:
    """Prepares the course with the same batches and first weights for all, and as many epochs as the last step
    needs."""
    if recipe.shipped:
        raise ModelError(
            "A network as its library ships it has no layers in common with another framework's.",
            hint="Use mode: aligned to compare layer by layer.",
        )
    data = prepared(recipe)
    epochs = math.ceil(max(steps, default=0) / steps_of(recipe, int(data.record.details["train"])))
    if not steps or min(steps) < 1 or len(steps) > MAX_STEPS or epochs > MAX_EPOCHS:
        raise ModelError(
            "The steps to compare must be between 1 and "
            f"{MAX_STEPS} numbers, counted from 1, within {MAX_EPOCHS} epochs.",
            hint="For example 1, 2, 10.",
        )
    schedule = recipe.schedule
    if schedule.name == "cosine":  # which ends where it did, however few steps are trained
        schedule = schedule.model_copy(update={"epochs": schedule.epochs or recipe.epochs})
    same = recipe.model_copy(update={"weights": "shared", "order": "shared", "epochs": epochs, "schedule": schedule})
    return Course(same, data, tuple(sorted(set(steps))), folder, workers, threads, reference_trainer())
