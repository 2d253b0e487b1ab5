"""Trials trained into the store: what it has is not trained again, what is new is filed with all that belongs to it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from zoolens.base.engine.machine import gpu_names
from zoolens.base.errors import ZoolensError
from zoolens.base.store.store import Store
from zoolens.findings.measure.answers import keep_labels, kept_labels
from zoolens.training.crosstrain.study.stored_studies import (
    file_side,
    file_study,
    file_trial,
    read_study,
    side_done,
    study_names,
)
from zoolens.training.crosstrain.training.fanout import this_machine
from zoolens.training.crosstrain.training.job import Job, LoopKind, Outcome
from zoolens.training.crosstrain.training.kept_weights import filed_answers, has_weights, keep_weights
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.trainer_pool import Workers
from zoolens.training.crosstrain.training.trainer_process import OUTCOME, PREDICTIONS, WEIGHTS
from zoolens.training.crosstrain.training.trainers.registry import trainer_named
from zoolens.training.crosstrain.training.trial_runner import Report, apply, no_report, train_trial
from zoolens.training.crosstrain.training.trials import Hyperparameter, TrainedSide, Trial
from zoolens.training.crosstrain.training.weights import read_weights
from zoolens.training.pairs.data.prepared_data import PreparedData, load, prepared
from zoolens.training.pairs.semantics import Semantics

REPLICATES: Final = ".replicates"  # after a study's name: the study of its trials under other seeds
_SEEDS: Final = 1 << 31
_NAME: Final = re.compile(r"[\w.-]{1,140}")


@dataclass(frozen=True)
class Manner:
    """How to train, as far as it is no matter of the recipe. `loop`: None is each framework's usual one."""

    loop: LoopKind | None = None
    device: str = "cpu"
    threads: int | None = None
    concurrent: bool = False
    keep_weights: bool = False

    @property
    def conditions(self) -> dict[str, Any]:
        """What of it can change the numbers."""
        settings = {"loop": self.loop or "usual", "device": self.device, "threads": self.threads}
        gpus = {} if self.device == "cpu" else {"gpus": list(gpu_names())}
        return {**this_machine(), **settings, **gpus}


def begin_study(store: Store, name: str, frameworks: Sequence[str], details: Mapping[str, Any]) -> None:
    """Make it known, or go on with it: every trial of a study has the same sides. One without trials, whose first could
    not be trained, binds nobody."""
    if not _NAME.fullmatch(name):
        raise ZoolensError(f"A study cannot be named {name[:60]!r}.", hint="Use letters, digits, dots and dashes.")
    known = read_study(store, name) if name in study_names(store, hidden=True) else None
    if known and known.trials and known.frameworks != tuple(frameworks):
        raise ZoolensError(
            f"The study {name} is trained by {', '.join(known.frameworks)}, not by {', '.join(frameworks)}.",
            hint="Give this one a name of its own.",
        )
    file_study(store, name, frameworks, details)


def train_into(
    store: Store,
    study: str,
    recipe: Recipe,
    frameworks: Sequence[str],
    workers: Workers,
    *,
    trial_id: str,
    hyperparameters: Mapping[str, Hyperparameter],
    overrides: Mapping[str, Semantics] | None = None,
    manner: Manner | None = None,
    report: Report = no_report,
) -> Trial:
    """`train_trial` with the store as its memory; the trial that is returned is filed, with the runs of its sides."""
    how, data = manner or Manner(), prepared(recipe)
    conditions = how.conditions
    recipe_of = {name: (recipe, (overrides or {}).get(name, Semantics()).over(recipe.wanted)) for name in frameworks}
    with tempfile.TemporaryDirectory(prefix="zoolens-crosstrain-") as folder:
        trial = train_trial(
            recipe,
            frameworks,
            workers,
            trial_id=trial_id,
            hyperparameters=hyperparameters,
            work=Path(folder),
            overrides=overrides,
            loop=how.loop,
            device=how.device,
            threads=how.threads,
            concurrent=how.concurrent,
            keep_weights=how.keep_weights,
            known=lambda job: _known(store, job, data, conditions),
            keep=lambda side: _keep(
                store, side, recipe_of[side.framework], data, conditions, Path(folder) / trial_id / side.framework
            ),
            report=report,
        )
        if kept_labels(store, data.record) is None:
            keep_labels(store, data.record, np.array(load(data.folder).test_y))
        return file_trial(
            store,
            study,
            trial,
            recipe_of=recipe_of,
            dataset=data.record,
            versions={name: _versions(name, Path(folder) / trial_id / name) for name in frameworks},
            conditions=conditions,
        )


def train_with_replicates(
    store: Store,
    study: str,
    recipe: Recipe,
    frameworks: Sequence[str],
    workers: Workers,
    *,
    trial_id: str,
    hyperparameters: Mapping[str, Hyperparameter],
    count: int,
    manner: Manner,
    report: Report = no_report,
) -> tuple[Trial, ...]:
    """The trial, then the same with the next `count` seeds, filed in a study of its own beside `study`."""
    trials = []
    for number in range(count + 1):
        seed = (recipe.seed + number) % _SEEDS
        trial = train_into(
            store,
            f"{study}{REPLICATES}" if number else study,
            apply(recipe, {"seed": seed}),
            frameworks,
            workers,
            trial_id=f"{trial_id}.{number}" if number else trial_id,
            hyperparameters={**hyperparameters, "seed": seed} if number else hyperparameters,
            manner=replace(manner, keep_weights=False) if number else manner,
            report=report,
        )
        trials.append(trial)
    return tuple(trials)


def replicates(store: Store, study: str) -> dict[str, tuple[Trial, ...]]:
    """The filed replicates of a study's trials, by the trial's id, in the order of their seeds."""
    name = f"{study}{REPLICATES}"
    by_trial: dict[str, tuple[Trial, ...]] = {}
    for trial in read_study(store, name).trials if name in study_names(store) else ():
        of = trial.id.rpartition(".")[0]
        by_trial[of] = (*by_trial.get(of, ()), trial)
    return by_trial


def _known(store: Store, job: Job, data: PreparedData, conditions: Mapping[str, Any]) -> TrainedSide | None:
    """A side of the store, with its answers laid where the trial looks for them. One whose weights are wanted and were
    not kept is trained again."""
    side = side_done(
        store,
        framework=job.framework,
        recipe=job.recipe,
        semantics=job.semantics,
        dataset=data.record,
        versions=trainer_named(job.framework).versions(),
        conditions=conditions,
    )
    if side is None or (job.keep_weights and side.answered and not has_weights(store, str(side.run))):
        return None
    answers = filed_answers(store, str(side.run))
    if answers is not None:
        job.output.mkdir(parents=True)
        np.save(job.output / PREDICTIONS, answers)
    return side


def _keep(
    store: Store,
    side: TrainedSide,
    training: tuple[Recipe, Semantics],
    data: PreparedData,
    conditions: Mapping[str, Any],
    work: Path,
) -> None:
    """File a side as soon as it is trained: whoever is killed before the others are need not train it again."""
    outcome = _outcome(work)
    if outcome is None:  # it failed, which its trial tells
        return
    # what a side answered before it ran out of memory is no result of its
    answers = np.load(work / PREDICTIONS, allow_pickle=False) if side.answered else None
    run = file_side(store, side, training, data.record, outcome, answers=answers, conditions=conditions)
    if answers is not None and (work / WEIGHTS).is_file():
        keep_weights(store, run, read_weights(work / WEIGHTS), answers)


def _versions(framework: str, work: Path) -> Mapping[str, str]:
    outcome = _outcome(work)
    return trainer_named(framework).versions() if outcome is None else outcome.versions


def _outcome(work: Path) -> Outcome | None:
    """Returns the outcome of a side; None: it was not trained just now, or failed."""
    path = work / OUTCOME
    return Outcome.model_validate_json(path.read_text(encoding="utf-8")) if path.is_file() else None
