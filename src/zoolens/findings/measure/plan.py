"""What an evaluation is told, and what became of each of its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from zoolens.base.present.results import Result
from zoolens.base.store.records import Run, RunKind
from zoolens.findings.measure.latency import LatencySettings
from zoolens.inventory.catalog.lookup import Model
from zoolens.inventory.catalog.sessions import RunOptions
from zoolens.inventory.fleet.budget import Budget

CONTEXTS: Final = (128, 512)


@dataclass(frozen=True)
class EvaluationPlan:
    """Everything an evaluation is told. The same plan again does only what is not finished."""

    models: Sequence[Model]
    data: str | None  # None: only timing, with made-up inputs
    limit: int | None = None
    seed: int | None = None
    wanted: RunOptions = field(default_factory=RunOptions)
    batches: Sequence[int] = (1,)
    contexts: Sequence[int] = CONTEXTS  # tokens, at which language models are timed that write
    accuracy: bool = True
    task_metrics: bool = True  # False: answers are kept, and what takes seconds to resample is left to who asks for it
    cold: bool = True
    fresh: bool = False  # measure again, as a new attempt, although it is all there
    latency: LatencySettings = field(default_factory=LatencySettings)
    cold_repeats: int = 3
    decode_threads: int = 2
    kind: RunKind = RunKind.EVALUATION
    shards: int = 1  # slices of the dataset that other machines answer at the same time
    budget: Budget | None = None  # of jobs on other machines


@dataclass(frozen=True, repr=False)
class Outcome(Result):
    """What became of one job. `measured` and `kept` name stages done now and found done."""

    title: str
    run: Run | None = None
    measured: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # worth knowing, and no failure
    skipped: str | None = None
    guessed: tuple[str, ...] = ()  # what the manifest only assumes, where the accuracy rests on it
    not_done: str | None = None  # why a budget had no room for it

    @property
    def failed(self) -> bool:
        return bool(self.errors or self.warnings)
