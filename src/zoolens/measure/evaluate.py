"""Evaluate models: the plan, and the loop that turns it into stored observations.

import zoolens
outcomes = zoolens.evaluate(["demo:*"], "demo", runtimes=["onnxruntime", "litert"])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zoolens import plugins
from zoolens.datasets.base import Dataset
from zoolens.datasets.opening import open_dataset
from zoolens.errors import ZoolensError
from zoolens.manifests.locations import resolve_asset
from zoolens.measure.jobs import Job, Skipped, Wanted, plan_jobs
from zoolens.measure.latency import LatencySettings
from zoolens.measure.progress import Progress, Silent
from zoolens.measure.stages import (
    Context,
    compute_metric,
    measure_batch_latency,
    measure_cold_start,
    measure_size,
    predict_all,
    stored_predictions,
    suspicions,
)
from zoolens.measure.subject import Subject, prepare_subject
from zoolens.runtimes.base import Options
from zoolens.runtimes.draft import find_models
from zoolens.store.records import DatasetRecord, Run
from zoolens.store.store import Store, open_store


@dataclass(frozen=True)
class EvaluationPlan:
    """Everything an evaluation is told. The same plan again does only what is not finished."""

    models: Sequence[str]
    data: str
    limit: int | None = None
    seed: int | None = None
    wanted: Wanted = field(default_factory=Wanted)
    batches: Sequence[int] = (1,)
    accuracy: bool = True
    cold: bool = True
    fresh: bool = False  # measure again, as a new attempt, although it is all there
    latency: LatencySettings = field(default_factory=LatencySettings)
    cold_repeats: int = 3
    decode_threads: int = 1


@dataclass(frozen=True)
class Outcome:
    """What became of one job. `measured` and `kept` name stages done now and found done."""

    title: str
    run: Run | None = None
    measured: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    skipped: str | None = None

    @property
    def failed(self) -> bool:
        return bool(self.errors or self.warnings)


def evaluate(
    models: Sequence[str] | str,
    data: str | Path,
    *,
    runtimes: Sequence[str] = (),
    environments: Sequence[str] = (),
    require: str = "",
    batches: Sequence[int] = (1,),
    threads: int | None = None,
    precision: str = "default",
    mode: str = "default",
    limit: int | None = None,
    seed: int | None = None,
    accuracy: bool = True,
    cold: bool = True,
    fresh: bool = False,
    isolate: bool = False,
    allow_code: bool = False,
    store: Store | str | Path | None = None,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Measure every model in every runtime asked for (default: every installed one that can run it)."""
    plan = EvaluationPlan(
        models=[models] if isinstance(models, str) else list(models),
        data=str(data),
        limit=limit,
        seed=seed,
        wanted=Wanted(
            runtimes=tuple(runtimes),
            environments=tuple(environments),
            require=require,
            options=Options(threads=threads, precision=precision, mode=mode),
            isolate=isolate,
            allow_code=allow_code,
        ),
        batches=tuple(batches),
        accuracy=accuracy,
        cold=cold,
        fresh=fresh,
    )
    opened = store if isinstance(store, Store) else open_store(store)
    return list(carry_out(plan, opened, progress or Silent()))


def carry_out(plan: EvaluationPlan, store: Store, progress: Progress) -> Iterator[Outcome]:
    """Outcomes one by one, as they are stored."""
    store.sweep()
    entries = find_models(plan.models)
    dataset = open_dataset(plan.data, limit=plan.limit, seed=plan.seed)
    jobs, skipped = plan_jobs(entries, plan.wanted, progress)
    planned = {job.entry.ref for job in jobs}
    for one in skipped:
        yield _passed_over(one, failed=one.title not in planned)
    for job in jobs:
        yield run_job(job, plan, dataset, store, progress)


def _passed_over(one: Skipped, *, failed: bool) -> Outcome:
    return Outcome(one.title, errors=(one.reason,)) if failed else Outcome(one.title, skipped=one.reason)


def run_job(
    job: Job, plan: EvaluationPlan, dataset: Dataset, store: Store, progress: Progress, attempt: int | None = None
) -> Outcome:
    """All stages of one job. A failing stage is recorded and reported; the others still run."""
    with ExitStack() as stack:
        try:
            _fetch(job, progress)
            run = _begin(job, plan, dataset, store, attempt)
            context = Context(
                job=job,
                run=run,
                dataset=dataset,
                store=store,
                subject=_opened_once(job, run, store, stack),
                progress=progress,
                latency=plan.latency,
                cold_repeats=plan.cold_repeats,
                decode_threads=plan.decode_threads,
            )
        except ZoolensError as error:
            return Outcome(job.title, errors=(str(error),))
        return _Stages(context).carry_out(plan)


def _fetch(job: Job, progress: Progress) -> None:
    """Download what is not here yet, with a bar; files that are here cost nothing."""
    seen = 0

    def downloaded(done: int, total: int | None) -> None:
        nonlocal seen
        if not seen:
            progress.begin(job.title, "download", total)
        progress.advance(done - seen)
        seen = done

    resolve_asset(job.asset, job.entry.folder, fetch=True, progress=downloaded)
    if seen:
        progress.end()


def _begin(job: Job, plan: EvaluationPlan, dataset: Dataset, store: Store, attempt: int | None) -> Run:
    record = DatasetRecord(
        dataset.fingerprint(),
        dataset.name,
        len(dataset),
        {"spec": plan.data, "limit": plan.limit, "seed": plan.seed, "classes": dataset.classes},
    )
    if attempt is None:
        key = (job.model.fingerprint, record.fingerprint, job.stack.fingerprint)
        attempt = store.next_attempt(*key) if plan.fresh else 0
    # The folder lets `reproduce` find files that the manifest names relative to itself.
    origin = {"folder": str(job.entry.folder) if job.entry.folder else None}
    return store.begin_run(job.model, record, job.stack, attempt=attempt, resolved=origin)


def _opened_once(job: Job, run: Run, store: Store, stack: ExitStack) -> Callable[[], Subject]:
    opened: list[Subject] = []

    def subject() -> Subject:
        if not opened:
            session = stack.enter_context(job.open())
            effective = session.effective()
            store.set_resolved(
                run.id,
                {
                    "provider": effective.provider,
                    "precision": effective.precision,
                    "threads": effective.threads,
                    "details": dict(effective.details),
                },
            )
            opened.append(prepare_subject(job, session))
        return opened[0]

    return subject


class _Stages:
    """Runs stages that are not done yet and keeps account."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._before = context.store.stages(context.run.id)
        self._measured: list[str] = []
        self._kept: list[str] = []
        self._errors: list[str] = []

    def carry_out(self, plan: EvaluationPlan) -> Outcome:
        context = self._context
        warnings: list[str] = []
        if plan.accuracy and self._stage("predictions", lambda: predict_all(context)):
            predictions = stored_predictions(context.store, context.run, context.dataset)
            for name in plugins.names(plugins.METRICS):
                self._stage(f"metric:{name}", lambda name=name: compute_metric(context, name, predictions))  # type: ignore[misc]
            warnings += suspicions(predictions)
        if not self._errors:  # a model that cannot answer has no speed worth knowing
            self._stage("size", lambda: measure_size(context))
            for batch in plan.batches:
                self._stage(f"latency:batch={batch}", lambda batch=batch: measure_batch_latency(context, batch))  # type: ignore[misc]
            if plan.cold:
                self._stage("cold", lambda: measure_cold_start(context))
        return Outcome(
            context.job.title,
            run=context.store.run(context.run.id),
            measured=tuple(self._measured),
            kept=tuple(self._kept),
            errors=tuple(self._errors),
            warnings=tuple(warnings),
        )

    def _stage(self, name: str, work: Callable[[], Any]) -> bool:
        """True if the stage is done, now or before."""
        context = self._context
        if name in self._before and self._before[name].done:
            self._kept.append(name)
            return True
        try:
            observations = list(work())
            context.store.finish_stage(context.run.id, name, observations)
        except ZoolensError as error:
            context.progress.end()
            context.store.fail_stage(context.run.id, name, str(error))
            self._errors.append(str(error))
            return False
        self._measured.append(name)
        return True
