"""A plan carried out: its search asks for trials, each is trained into the store, and the journal remembers which.

The journal lies beside the store's bulk facts. A search that was killed goes on where it was: a trial that was told is
not run again, and of one that was not, whatever sides the store has are not trained again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Final, Literal, Protocol

from zoolens.base.engine.executors.current_executor import current_executor, running_on
from zoolens.base.present.results import Result
from zoolens.base.store.store import Store, borrowed_store
from zoolens.training.crosstrain.study.search.budget import Budget
from zoolens.training.crosstrain.study.search.journal import Journal, TrialResult, writing_lock
from zoolens.training.crosstrain.study.search.search_loop import SearchResult, run_search
from zoolens.training.crosstrain.study.search.search_state import SearchStatus
from zoolens.training.crosstrain.study.store_training import REPLICATES, begin_study, train_with_replicates
from zoolens.training.crosstrain.study.stored_studies import read_study
from zoolens.training.crosstrain.study.study_plan import Plan
from zoolens.training.crosstrain.study.yaml_files import check_plan
from zoolens.training.crosstrain.training.job import Epoch, Status
from zoolens.training.crosstrain.training.manner import Manner
from zoolens.training.crosstrain.training.trainer_pool import Workers
from zoolens.training.crosstrain.training.trial_runner import TrialRequest, apply
from zoolens.training.crosstrain.training.trials import Hyperparameter, Study, Trial

Backend = Literal["auto", "local", "ray"]

_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_WORST_FIRST: Final[tuple[Status, ...]] = ("failed", "out-of-memory", "non-finite", "finished")


class Watch(Protocol):
    """What a running study tells. `epoch` and `trial` come from the threads that train; from other
    machines epochs come when the training is done."""

    def epoch(self, trial: str, framework: str, epoch: Epoch, of: int) -> None: ...

    def trial(self, trial: Trial) -> None: ...

    def search(self, status: SearchStatus) -> None: ...


class Unwatched:
    def epoch(self, trial: str, framework: str, epoch: Epoch, of: int) -> None: ...

    def trial(self, trial: Trial) -> None: ...

    def search(self, status: SearchStatus) -> None: ...


@dataclass(frozen=True, repr=False)
class Studied(Result):
    """`best`: name of the trial with the largest Δ, in the study; None: no trial has one."""

    study: str
    journal: Path
    search: SearchResult
    best: str | None


def run_plan(
    plan: Plan,
    store: Store | str | Path | None = None,
    *,
    budget: Budget | None = None,
    workers: int | None = None,
    backend: Backend = "auto",
    fresh: bool = False,
    manner: Manner | None = None,
    watch: Watch | None = None,
) -> Studied:
    """Begin the study, or go on with it. `workers`: trials at once; None: one, or on a cluster as many as it can run.
    `fresh`: set the journal aside and search anew; the trials of the old search stay in the study. `backend`: "ray"
    trains on Ray as `running_on("ray")` does; "auto": so where RAY_ADDRESS names a cluster."""
    check_plan(plan)
    watching = watch or Unwatched()
    with _running_on(backend), borrowed_store(store) as opened, Workers() as processes:
        executor = current_executor()
        path = journal_path(opened, plan.name)
        if fresh and path.exists():
            _begin_anew(opened, plan, path)
        else:
            Journal(path, plan).check()  # a study is not told of a plan that is not its own
            _begin(opened, plan)
        search = len(_old_journals(path)) + 1
        objective = Trials(plan, opened, processes, manner or Manner(), search, watching)
        result = run_search(
            plan,
            objective,
            path,
            budget=budget,
            workers=workers if workers is not None else executor.capacity if executor.elsewhere else 1,
            progress=watching.search,
            first=first_free(read_study(opened, plan.name), objective.name("")),
        )
    best = objective.name(result.best.trial) if result.best else None
    return Studied(plan.name, path, result, best)


def _running_on(backend: Backend) -> AbstractContextManager[None]:
    """What is chosen already stays chosen."""
    named = backend == "ray" or (backend == "auto" and bool(os.environ.get("RAY_ADDRESS")))
    return running_on("ray") if named and not current_executor().elsewhere else nullcontext()


def journal_path(store: Store, study: str) -> Path:
    return store.local_dir / "journals" / f"{study}.jsonl"


class Trials:
    """The objective of the search: a trial is trained into the store. `search`: which search of this study it is."""

    def __init__(self, plan: Plan, store: Store, workers: Workers, manner: Manner, search: int, watch: Watch) -> None:
        self._plan, self._store, self._workers = plan, store, workers
        self._manner, self._search, self._watch = manner, search, watch

    def name(self, trial: str) -> str:
        """Returns the name of a trial in the study; a second search has names of its own."""
        return trial if self._search == 1 else f"{self._search}-{trial}"

    def __call__(self, trial: str, hyperparameters: Mapping[str, Hyperparameter]) -> TrialResult:
        store, workers = self._store, self._workers
        plan, name = self._plan, self.name(trial)
        recipe = apply(plan.recipe, hyperparameters)

        def report(framework: str, epoch: Epoch) -> None:
            self._watch.epoch(name, framework, epoch, recipe.epochs)

        request = TrialRequest(recipe, plan.frameworks, name, hyperparameters)
        trials = train_with_replicates(
            store, plan.name, request, workers, count=plan.replicates, manner=self._manner, report=report
        )
        self._watch.trial(trials[0])
        return told_by(trials)


def told_by(trials: Sequence[Trial]) -> TrialResult:
    """What the search is told of a trial and its replicates: accuracies and differences are means over the seeds, so
    that it does not climb on noise."""
    accuracies: dict[str, float | None] = {}
    for side in trials[0].sides:
        accuracies[side.framework] = _mean([trial.side(side.framework).accuracy for trial in trials])
    statuses = {side.status for trial in trials for side in trial.sides}
    return TrialResult(
        delta=mean_delta(trials),
        status=next((status for status in _WORST_FIRST if status in statuses), "failed"),
        accuracies=accuracies,
        message=" ".join(trials[0].notes),
    )


def mean_delta(trials: Sequence[Trial]) -> float | None:
    """The largest |mean difference over the seeds| of any pair; None: no pair has both accuracies."""
    deltas = []
    for a, b in combinations([side.framework for side in trials[0].sides], 2):
        pairs = [(trial.side(a).accuracy, trial.side(b).accuracy) for trial in trials]
        mean = _mean([first - second for first, second in pairs if first is not None and second is not None])
        if mean is not None:
            deltas.append(abs(mean))
    return max(deltas, default=None)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _begin(store: Store, plan: Plan) -> None:
    details = {"source": "zoolens crosstrain run", **plan.model_dump(mode="json", exclude={"name", "frameworks"})}
    begin_study(store, plan.name, plan.frameworks, details)
    if plan.replicates:
        begin_study(store, f"{plan.name}{REPLICATES}", plan.frameworks, {"source": f"replicates of {plan.name}"})


def _begin_anew(store: Store, plan: Plan, path: Path) -> None:
    """Sets the journal aside, unless the study refuses the plan or a search is writing the journal."""
    with writing_lock(path):
        _begin(store, plan)
        path.rename(f"{path}.{len(_old_journals(path)) + 1}.old")


def first_free(study: Study, prefix: str) -> int:
    """The number after those of the study's trials: what others submitted, or a journal that was lost had found, is not
    replaced by a trial of the same name."""
    names = (trial.id.removeprefix(prefix) for trial in study.trials if trial.id.startswith(prefix))
    return max((int(name) for name in names if _NUMBER.fullmatch(name)), default=0) + 1


def _old_journals(path: Path) -> list[Path]:
    return list(path.parent.glob(f"{path.stem}.jsonl.*.old"))
