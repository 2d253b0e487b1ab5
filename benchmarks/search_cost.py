"""What a search costs beside training: ask the Gaussian process, file a trial in the store, tell the journal.

Everything is as in a study but for the training itself, which is replaced by answers drawn at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from zoolens.base.store.store import open_store
from zoolens.training.crosstrain.study.plan_runner import Trials, Unwatched, journal_path
from zoolens.training.crosstrain.study.search.journal import TrialResult
from zoolens.training.crosstrain.study.search.search_loop import run_search
from zoolens.training.crosstrain.study.search.search_state import SearchStatus
from zoolens.training.crosstrain.study.store_training import begin_study
from zoolens.training.crosstrain.study.study_plan import Dimension, Plan, Search
from zoolens.training.crosstrain.training.job import Epoch, Job, Outcome
from zoolens.training.crosstrain.training.manner import Manner
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.trainer_process import keep
from zoolens.training.crosstrain.training.trainers.registry import trainer_named
from zoolens.training.crosstrain.training.trainers.trainer import Trained
from zoolens.training.crosstrain.training.trials import Hyperparameter
from zoolens.training.pairs.data.prepared_data import load

SPACE = (
    Dimension(name="learning_rate", low=1e-4, high=3e-2, log=True),
    Dimension(name="batch_size", low=10, high=1000, integer=True),
    Dimension(name="optimizer.epsilon", low=1e-8, high=1e-1, log=True),
    Dimension(name="epochs", low=1, high=20, integer=True),
)
LAST = 10  # trials, of which each asks a process that knows all before it


class Untrained:
    """In the place of `Workers`: leaves what a training process leaves, without training."""

    def train(self, job: Job, report: Callable[[Epoch], None]) -> tuple[Outcome, np.ndarray]:
        told = job.recipe
        truth = load(job.data).test_y
        draw = np.random.default_rng([told.batch_size, told.epochs, len(job.framework)])
        right = draw.random(len(truth)) < 0.9 - 0.1 * abs(np.log10(told.learning_rate) + 2.5) * draw.random()
        answers = np.where(right, truth, draw.integers(0, 10, len(truth))).astype(np.int32)
        figures = {"correct": int((answers == truth).sum()), "total": len(truth), "seconds": 1.0}
        epochs = [Epoch(number=number, loss=1 / number, **figures) for number in range(1, told.epochs + 1)]
        for epoch in epochs:
            report(epoch)
        versions = trainer_named(job.framework).versions()
        outcome = Outcome(framework=job.framework, versions=versions, status="finished", epochs=tuple(epochs))
        job.output.mkdir(parents=True)
        keep(Trained(outcome, answers), job.output)
        return outcome, answers


@dataclass
class Costs:
    """Seconds by trial. `filing`: of `whole`, what is not asking and telling."""

    whole: list[float] = field(default_factory=list)
    filing: list[float] = field(default_factory=list)

    @property
    def last(self) -> float:
        return float(np.mean(self.whole[-LAST:]))


def search_costs(folder: Path, trials: int) -> Costs:
    recipe = Recipe(architecture="lenet", mode="library", learning_rate=1e-3, batch_size=128, epochs=1)
    plan = Plan(name="cost", recipe=recipe, space=SPACE, search=Search(trials=trials))
    costs = Costs()
    with open_store(folder / "cost.sqlite") as store:
        begin_study(store, plan.name, plan.frameworks, {"source": "benchmark"})
        untrained: Any = Untrained()
        filed = Trials(plan, store, untrained, Manner(), 1, Unwatched())

        def objective(trial: str, hyperparameters: Mapping[str, Hyperparameter]) -> TrialResult:
            began = time.perf_counter()
            told = filed(trial, hyperparameters)
            costs.filing.append(time.perf_counter() - began)
            return told

        since: list[float] = []

        def note(_: SearchStatus) -> None:
            since.append(time.perf_counter())

        found = run_search(plan, objective, journal_path(store, plan.name), progress=note)
    assert len(found.finished) == trials
    costs.whole = np.diff(since).tolist()
    return costs
