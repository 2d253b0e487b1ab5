"""Trials trained into the store: what it has is not trained again, what is new is filed with all that belongs to it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens import plugins
from zoolens.crosstrain.data import Prepared, load, prepared
from zoolens.crosstrain.exchange.labels import keep_labels, kept_labels
from zoolens.crosstrain.filing import (
    Told,
    file_study,
    file_trial,
    read_study,
    side_done,
    study_names,
    this_machine,
)
from zoolens.crosstrain.job import Job, Outcome
from zoolens.crosstrain.loading import filed_answers, has_weights, keep_weights
from zoolens.crosstrain.pairing import LoopKind, Report, apply, no_report, train_trial
from zoolens.crosstrain.recipe import Recipe
from zoolens.crosstrain.semantics import Semantics
from zoolens.crosstrain.study import Hyperparameter, Side, Trial
from zoolens.crosstrain.weights import read_weights
from zoolens.crosstrain.worker import OUTCOME, PREDICTIONS, WEIGHTS
from zoolens.crosstrain.workers import Workers
from zoolens.errors import ZoolensError
from zoolens.runtimes.base import installed_version
from zoolens.store.store import Store

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
        return {**this_machine(), "loop": self.loop or "usual", "device": self.device, "threads": self.threads}


@cache
def trainer_versions(framework: str) -> Mapping[str, str]:
    """The installed packages that change a trainer's numbers, as its outcomes name them."""
    names = plugins.load(plugins.TRAINERS, framework).distributions
    found = {name: installed_version(name) or installed_version(f"{name}-cpu") for name in names}
    return {name: version for name, version in found.items() if version}


def begin_study(store: Store, name: str, frameworks: Sequence[str], details: Mapping[str, Any]) -> None:
    """Make it known, or go on with it: every trial of a study has the same sides."""
    if not _NAME.fullmatch(name):
        raise ZoolensError(f"A study cannot be named {name[:60]!r}.", hint="Use letters, digits, dots and dashes.")
    if name in study_names(store) and (known := read_study(store, name)).frameworks != tuple(frameworks):
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
            report=report,
        )
        told = {name: (recipe, (overrides or {}).get(name, Semantics()).over(recipe.wanted)) for name in frameworks}
        return _file(store, study, trial, told, data, conditions, Path(folder) / trial_id)


def train_replicates(
    store: Store,
    study: str,
    recipe: Recipe,
    frameworks: Sequence[str],
    workers: Workers,
    *,
    trial_id: str,
    hyperparameters: Mapping[str, Hyperparameter],
    count: int,
    manner: Manner | None = None,
    report: Report = no_report,
) -> tuple[Trial, ...]:
    """The same trial with the next `count` seeds, filed in a study of its own beside `study`."""
    found = []
    for number in range(1, count + 1):
        seed = (recipe.seed + number) % _SEEDS
        trial = train_into(
            store,
            f"{study}{REPLICATES}",
            apply(recipe, {"seed": seed}),
            frameworks,
            workers,
            trial_id=f"{trial_id}.{number}",
            hyperparameters={**hyperparameters, "seed": seed},
            manner=None if manner is None else replace(manner, keep_weights=False),
            report=report,
        )
        found.append(trial)
    return tuple(found)


def replicates(store: Store, study: str) -> dict[str, tuple[Trial, ...]]:
    """The filed replicates of a study's trials, by the trial's id, in the order of their seeds."""
    name = f"{study}{REPLICATES}"
    found: dict[str, tuple[Trial, ...]] = {}
    for one in read_study(store, name).trials if name in study_names(store) else ():
        of = one.id.rpartition(".")[0]
        found[of] = (*found.get(of, ()), one)
    return found


def _known(store: Store, job: Job, data: Prepared, conditions: Mapping[str, Any]) -> Side | None:
    """A side of the store, with its answers laid where the trial looks for them. One whose weights are wanted and were
    not kept is trained again."""
    side = side_done(
        store,
        framework=job.framework,
        recipe=job.recipe,
        semantics=job.semantics,
        dataset=data.record,
        versions=trainer_versions(job.framework),
        conditions=conditions,
    )
    if side is None or (job.keep_weights and side.answered and not has_weights(store, str(side.run))):
        return None
    answers = filed_answers(store, str(side.run))
    if answers is not None:
        job.output.mkdir(parents=True)
        np.save(job.output / PREDICTIONS, answers)
    return side


def _file(
    store: Store,
    study: str,
    trial: Trial,
    told: Mapping[str, Told],
    data: Prepared,
    conditions: Mapping[str, Any],
    work: Path,
) -> Trial:
    outcomes = _outcomes(work, told)
    answers = _answers(work, told)
    if kept_labels(store, data.record) is None:
        keep_labels(store, data.record, np.array(load(data.folder).test_y))
    filed = file_trial(
        store,
        study,
        trial,
        recipe_of=told,
        dataset=data.record,
        versions={name: outcomes[name].versions if name in outcomes else trainer_versions(name) for name in told},
        predictions=answers,
        outcomes=outcomes,
        conditions=conditions,
    )
    for name, found in answers.items():
        if (work / name / WEIGHTS).is_file():
            keep_weights(store, str(filed.side(name).run), read_weights(work / name / WEIGHTS), found)
    return filed


def _outcomes(work: Path, frameworks: Iterable[str]) -> dict[str, Outcome]:
    """Of the sides that were trained just now."""
    paths = {name: path for name in frameworks if (path := work / name / OUTCOME).is_file()}
    return {name: Outcome.model_validate_json(path.read_text(encoding="utf-8")) for name, path in paths.items()}


def _answers(work: Path, frameworks: Iterable[str]) -> dict[str, NDArray[np.int32]]:
    """Of the sides that have any."""
    paths = {name: path for name in frameworks if (path := work / name / PREDICTIONS).is_file()}
    return {name: found for name, path in paths.items() if len(found := np.load(path, allow_pickle=False))}
