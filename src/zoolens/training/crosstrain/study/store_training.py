"""Trials trained into the store: what it has is not trained again, what is new is filed with all that belongs to it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.store.store import Store
from zoolens.findings.measure.answers import keep_labels, kept_labels
from zoolens.training.crosstrain.study.stored_studies import (
    TrialFiling,
    file_side,
    file_study,
    file_trial,
    read_study,
    side_done,
    study_names,
)
from zoolens.training.crosstrain.training.job import Job, Outcome
from zoolens.training.crosstrain.training.kept_weights import filed_answers, has_weights, keep_weights
from zoolens.training.crosstrain.training.manner import Manner
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.trainer_pool import Workers
from zoolens.training.crosstrain.training.trainer_process import OUTCOME, PREDICTIONS, WEIGHTS
from zoolens.training.crosstrain.training.trainers.registry import trainer_named
from zoolens.training.crosstrain.training.trial_runner import (
    Memory,
    Report,
    TrialRequest,
    apply,
    no_report,
    train_trial,
)
from zoolens.training.crosstrain.training.trials import TrainedSide, Trial
from zoolens.training.crosstrain.training.weights import read_weights
from zoolens.training.pairs.data.prepared_data import PreparedData, load, prepared
from zoolens.training.pairs.semantics import Semantics

REPLICATES: Final = ".replicates"  # after a study's name: the study of its trials under other seeds
_SEEDS: Final = 1 << 31
_NAME: Final = re.compile(r"[\w.-]{1,140}")


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
    request: TrialRequest,
    workers: Workers,
    *,
    manner: Manner | None = None,
    report: Report = no_report,
) -> Trial:
    """`train_trial` with the store as its memory; the trial that is returned is filed, with the runs of its sides."""
    how, recipe, data = manner or Manner(), request.recipe, prepared(request.recipe)
    conditions = how.conditions
    recipe_of = {name: (recipe, request.told(name)) for name in request.frameworks}

    with tempfile.TemporaryDirectory(prefix="zoolens-crosstrain-") as folder:
        work = Path(folder)
        outputs = {name: work / request.trial_id / name for name in request.frameworks}

        def known(job: Job) -> TrainedSide | None:
            return _known(store, job, data, conditions)

        def keep(side: TrainedSide) -> None:
            _keep(store, side, recipe_of[side.framework], data, conditions, outputs[side.framework])

        trial = train_trial(request, workers, work, manner=how, memory=Memory(known, keep), report=report)
        if kept_labels(store, data.record) is None:
            keep_labels(store, data.record, np.array(load(data.folder).test_y))
        versions = {name: _versions(name, output) for name, output in outputs.items()}
        return file_trial(store, study, trial, TrialFiling(recipe_of, data.record, versions, conditions=conditions))


def train_with_replicates(
    store: Store,
    study: str,
    request: TrialRequest,
    workers: Workers,
    *,
    count: int,
    manner: Manner,
    report: Report = no_report,
) -> tuple[Trial, ...]:
    """The trial, then the same with the next `count` seeds, filed in a study of its own beside `study`."""
    trials = [train_into(store, study, _seeded(request, 0), workers, manner=manner, report=report)]
    without_weights = replace(manner, keep_weights=False)
    for number in range(1, count + 1):
        other = replace(_seeded(request, number), trial_id=f"{request.trial_id}.{number}")
        other = replace(other, hyperparameters={**request.hyperparameters, "seed": other.recipe.seed})
        beside = f"{study}{REPLICATES}"
        trials.append(train_into(store, beside, other, workers, manner=without_weights, report=report))
    return tuple(trials)


def _seeded(request: TrialRequest, number: int) -> TrialRequest:
    """The request with the seed that lies so many behind the recipe's own."""
    seed = (request.recipe.seed + number) % _SEEDS
    return replace(request, recipe=apply(request.recipe, {"seed": seed}))


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
