"""Traces a model in every runtime asked for, level by level; each level is a stage of a run, and is done once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

from zoolens.base.errors import ModelError, StoreError, UnsupportedAbility, WorkerError, ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.store.records import DatasetRecord, Observation, Run, RunKind, StackRecord, Stage, fingerprint
from zoolens.base.store.scopes import batch_scope
from zoolens.base.store.series import read_series, series_names, write_series
from zoolens.base.store.store import Store
from zoolens.findings.measure.device_time import device_observations
from zoolens.findings.measure.energy import GPU_SECONDS, SECONDS, energy_observations
from zoolens.findings.measure.generation_speed import writes
from zoolens.findings.measure.job_runner import SubjectOpener, open_data
from zoolens.findings.measure.jobs import Job, plan_jobs
from zoolens.findings.measure.plan import Outcome
from zoolens.findings.measure.subject import Subject
from zoolens.findings.tracing.measuring import (
    UNOBSERVED,
    Predictions,
    trace_model,
    trace_operators,
    trace_pipeline,
    trace_system,
)
from zoolens.findings.tracing.recorder import adopt
from zoolens.findings.tracing.spans import Level
from zoolens.findings.tracing.trace_layers import Timing, call_timing, observed_calls_of
from zoolens.findings.tracing.trace_plan import TracePlan
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.datasets.opening import absolute_spec
from zoolens.inventory.runtimes.outputs.noise_probe import said_of_made_up
from zoolens.inventory.runtimes.runtime import Runtime, shape_text
from zoolens.inventory.runtimes.runtime_names import installed_runtimes, runtime_named
from zoolens.inventory.zoos.zoo import Entry

if TYPE_CHECKING:
    import pyarrow as pa

PREFIX: Final = "trace:"  # before the runtime's name in the stack of a trace
BATCH: Final = "batch"  # in run.resolved
INPUTS: Final = "inputs"  # in run.resolved: what the model was fed
SHAPES: Final = "shapes"  # in run.resolved: shapes of made-up inputs that were asked for
_ABILITY: Final[Mapping[Level, str]] = {Level.LAYER: "profile", Level.LIBRARY: "kernels"}

_log = logging.getLogger(__name__)


def trace_entries(entries: Sequence[Entry], plan: TracePlan, store: Store, progress: Progress) -> Iterator[Outcome]:
    """One outcome for each way of running these models on this machine, as soon as it is stored."""
    with closing(open_data(plan.data, plan.limit, plan.seed)) as dataset:
        for entry in entries:
            jobs, skipped = plan_jobs([entry], plan.wanted, progress)
            for reason in skipped:
                if jobs:
                    yield Outcome(reason.title, skipped=reason.reason)
                else:
                    yield Outcome(reason.title, errors=(reason.reason,))
            for job in jobs:
                yield _trace_job(job, plan, dataset, store, progress)


def check_plan(plan: TracePlan) -> None:
    """Refuse what cannot be traced at all."""
    if plan.batch < 1:
        raise ZoolensError(f"A batch of {plan.batch} makes no sense.", hint="Batch sizes start at 1.")
    if plan.settings.repeats < 1 or plan.settings.seconds <= 0:
        raise ZoolensError("A trace repeats each level at least once.", hint="Give --repeats 1 or more.")
    if plan.data is None and (plan.limit is not None or plan.seed is not None):
        raise ZoolensError("No dataset given.", hint="Add --data, or leave --limit and --seed out.")
    if plan.data is not None and plan.extents:
        raise ZoolensError(
            "The inputs of a dataset have shapes of their own.", hint="Leave --shape out, or --data for made-up inputs."
        )


def _trace_job(job: Job, plan: TracePlan, dataset: Dataset, store: Store, progress: Progress) -> Outcome:
    try:
        job.runtime.check(job.files(), job.options)
        dataset = dataset.decoded_with(job.manifest.decoder)
        run = _begin(job, plan, dataset, store)
    except StoreError:
        raise
    except ZoolensError as error:
        return Outcome(job.title, errors=(str(error),))
    with closing(SubjectOpener(job, run, store, dataset)) as opener:
        return _Levels(job, plan, dataset, store, run, opener, progress).carry_out()


def _begin(job: Job, plan: TracePlan, dataset: Dataset, store: Store) -> Run:
    """The run that holds this trace. Its key has the model, its stack and machine, the data and the batch size. Of
    several attempts the newest one goes on. A trace that belongs to a caller's is always a new one: the spans of an
    earlier one belong to another caller."""
    inputs = dataset.name if len(dataset) else "made-up inputs"
    extents = {name: list(shape) for name, shape in sorted(plan.extents.items())}
    # Only where there are some: traces of before keep their keys.
    content = [PREFIX, dataset.fingerprint(), plan.batch, *([extents] if extents else [])]
    shapes = "".join(f" {name} {shape_text(shape)}".rstrip() for name, shape in extents.items())
    record = DatasetRecord(fingerprint(content), f"{PREFIX} {inputs}{shapes}, batch {plan.batch}", len(dataset))
    stack = traced_stack(job)
    if is_new_attempt(plan):
        run = store.begin_attempt(job.model, record, stack, kind=RunKind.TRACE)
    else:
        run = _newest_attempt(store.begin_run(job.model, record, stack, kind=RunKind.TRACE), store)
    facts = {
        BATCH: plan.batch,
        INPUTS: inputs if len(dataset) else said_of_made_up(plan.extents),
        **({SHAPES: extents} if extents else {}),
        "origin": {
            "ref": job.entry.full_ref,
            "manifest": job.manifest.model_dump(mode="json", exclude_defaults=True),
            "folder": str(job.entry.folder) if job.entry.folder else None,
            "data": None if plan.data is None else absolute_spec(plan.data),
            "limit": plan.limit,
            "seed": plan.seed,
        },
    }
    if any(run.resolved.get(name) != value for name, value in facts.items()):
        store.set_resolved(run.id, facts)
    return run


def traced_stack(job: Job) -> StackRecord:
    """What a trace of this job runs on."""
    return StackRecord(
        fingerprint([PREFIX, job.stack.fingerprint]), f"{PREFIX}{job.runtime.name}", job.stack.identity, job.stack.lock
    )


def is_new_attempt(plan: TracePlan) -> bool:
    """Whether nothing that was traced before counts."""
    return plan.fresh or plan.context.parent is not None


def _newest_attempt(first: Run, store: Store) -> Run:
    """The last of the runs with this model, data and stack: what `--fresh` traced counts, and what came before not."""
    content = first.key.model, first.key.dataset, first.key.stack
    runs = store.runs(kind=RunKind.TRACE, runtime=first.stack.runtime)
    return max(
        (run for run in runs if (run.key.model, run.key.dataset, run.key.stack) == content),
        key=lambda run: run.key.attempt,
        default=first,
    )


class _Levels:
    """Does the levels that are not done yet and keeps account."""

    def __init__(
        self,
        job: Job,
        plan: TracePlan,
        dataset: Dataset,
        store: Store,
        run: Run,
        opener: SubjectOpener,
        progress: Progress,
    ) -> None:
        self._job, self._plan, self._dataset = job, plan, dataset
        self._store, self._run, self._opener, self._progress = store, run, opener, progress
        self._measured: list[str] = []
        self._kept: list[str] = []
        self._errors: list[str] = []
        self._notes: list[str] = []

    def carry_out(self) -> Outcome:
        done = {name for name, state in self._store.stages(self._run.id).items() if state.done}
        for level in self._plan.level.included:
            if Stage.TRACE.of(level) in done:
                self._kept.append(str(level))
            else:
                self._trace(level)
        self._progress.end()
        if writes(self._job):
            self._notes.append(
                f"`zoolens trace write {self._job.entry.ref}` traces its prompt and further tokens apart."
            )
        return Outcome(
            self._job.title,
            run=self._store.run(self._run.id),
            measured=tuple(self._measured),
            kept=tuple(self._kept),
            errors=tuple(self._errors),
            notes=tuple(self._notes),
        )

    def _trace(self, level: Level) -> None:
        stage = Stage.TRACE.of(level)
        self._progress.begin(self._job.title, level, None)
        try:
            require_level(level, self._job)
            table = self._spans(level)
            observations = [*_figures(table, level, self._plan.batch), *self._hardware(level)]
            self._store.finish_stage(self._run.id, stage, observations, details=asdict(self._plan.settings))
        except StoreError:
            raise
        except ZoolensError as error:
            if isinstance(error, WorkerError):
                self._opener.close()
            self._fail(level, str(error), expected=isinstance(error, UnsupportedAbility))
        except Exception as error:
            _log.debug("level %s", level, exc_info=True)
            self._fail(level, f"The level {level} failed unexpectedly: {type(error).__name__}: {error}.")
        else:
            self._measured.append(str(level))

    def _fail(self, level: Level, reason: str, *, expected: bool = False) -> None:
        """A level that lies above the one that was asked for, and that the runtime cannot observe, is only noted."""
        if expected and level is not self._plan.level:
            self._notes.append(reason)
            return
        self._store.fail_stage(self._run.id, Stage.TRACE.of(level), reason)
        self._errors.append(reason)

    def _spans(self, level: Level) -> pa.Table:
        """The spans of this level: those that an interrupted command stored, or new ones."""
        name = series_name(level)
        if name in series_names(self._store, self._run.id):
            return read_series(self._store, self._run.id, name)
        table = self._observed(level)
        adopt(table)
        if write_series(self._store, self._run.id, name, table):
            return table
        # Another process was first: its spans count.
        return read_series(self._store, self._run.id, name)

    def _subject(self) -> Subject:
        subject = self._opener()
        return replace(subject, extents=self._plan.extents) if self._plan.extents else subject

    def _observed(self, level: Level) -> pa.Table:
        plan, subject = self._plan, self._subject()
        if level is Level.PIPELINE:
            return trace_pipeline(subject, self._dataset, plan.batch, plan.settings, plan.context)
        feeds = subject.feeds(self._dataset, plan.batch)
        by_level: Mapping[Level, Callable[[], pa.Table]] = {
            Level.MODEL: lambda: trace_model(Predictions(subject.session, feeds), plan.settings, plan.context),
            Level.SYSTEM: lambda: trace_system(subject.session, feeds, plan.settings, plan.context),
        }
        if level in by_level:
            return by_level[level]()
        table = trace_operators(Predictions(subject.session, feeds), level, plan.settings, plan.context)
        observed = observed_calls_of(table, level)
        if observed is None or not observed.layers:
            raise ModelError(
                f"The profiler of {self._job.runtime.name} reported nothing about the inside of the model."
            )
        return table

    def _hardware(self, level: Level) -> list[Observation]:
        """Energy of a call, and the times of its parts on an accelerator, at the level of the system."""
        if level is not Level.SYSTEM or not self._job.runtime.can("run_here"):
            return []
        subject = self._subject()
        feeds = subject.feeds(self._dataset, self._plan.batch)
        device = self._job.options.device
        seconds = SECONDS if device == "cpu" else GPU_SECONDS
        energy = energy_observations(
            lambda: subject.session.predict(feeds), self._plan.batch, seconds=seconds, device=device
        )
        return energy if device == "cpu" else [*energy, *device_observations(subject.session, feeds, self._plan.batch)]


_WORDS: Final = {"profile": "report the times of its operators", "kernels": "report the kernels below its operators"}


def require_level(level: Level, job: Job, *, writing: bool = False) -> None:
    """UnsupportedAbility where the runtime cannot be observed so deep, with those that can, and of a model that writes
    those that can do both."""
    ability = _ABILITY.get(level)
    if ability is not None and not job.runtime.can(ability):
        reason = job.runtime.cannot[ability].rstrip(".")
        writers = set(runtimes_with("extend", job)) if writing else None
        able = ", ".join(name for name in runtimes_with(ability, job) if writers is None or name in writers)
        raise UnsupportedAbility(
            job.runtime.name, _WORDS[ability], f"{reason}. {f'It works in: {able}.' if able else ''}".strip()
        )


def series_name(level: Level) -> str:
    """The series of a run that holds the spans of a level."""
    return f"spans-{level}"


def runtimes_with(ability: str, job: Job) -> list[str]:
    """Installed runtimes that have this ability and run the same model."""
    return [
        runtime.name
        for runtime in _installed()
        if runtime.can(ability) and runtime.asset_of(job.manifest) is not None and runtime.version() is not None
    ]


def _installed() -> Iterator[Runtime]:
    for name in installed_runtimes():
        try:
            yield runtime_named(name)
        except ZoolensError:
            # A plug-in that cannot be loaded is no help.
            continue


def _figures(table: pa.Table, level: Level, batch: int) -> Iterator[Observation]:
    """The call with this level observed, and by how much that slows it down."""
    if level is Level.PIPELINE:
        with_level, without = (call_timing(table, seen, name="request") for seen in (level, UNOBSERVED))
    else:
        with_level, without = call_timing(table, level), call_timing(table, Level.MODEL)
    if with_level is not None:
        yield _observation("traced_call", with_level, f"{level},{batch_scope(batch)}")
    if with_level is not None and without is not None and level is not Level.MODEL:
        yield Observation(
            "trace_overhead",
            with_level.median / without.median - 1,
            scope=str(level),
            unit="fraction",
            n=with_level.n,
            details={"without_seconds": without.median, "with_seconds": with_level.median},
        )


def _observation(metric: str, times: Timing, scope: str) -> Observation:
    return Observation(
        metric,
        times.median,
        scope=scope,
        unit="s",
        low=times.low,
        high=times.high,
        n=times.n,
        details={"raw_seconds": times.raw, **({"disturbed": True} if times.disturbed else {})},
    )
