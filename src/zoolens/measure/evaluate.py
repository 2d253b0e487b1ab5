"""Evaluate models: the plan, and the loop that turns it into stored observations.

import zoolens
outcomes = zoolens.evaluate(["demo:*"], "demo", runtimes=["onnxruntime", "litert"])
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from zoolens import plugins
from zoolens.catalog.lookup import find_all
from zoolens.datasets.base import Dataset
from zoolens.datasets.noinputs import NoInputs
from zoolens.datasets.opening import absolute_spec, open_dataset
from zoolens.datasets.subset import Subset
from zoolens.engine.executors.base import Executor, current_executor
from zoolens.engine.sandbox import trusting
from zoolens.errors import StoreError, WorkerError, ZoolensError
from zoolens.manifests.locations import resolve_asset
from zoolens.measure.carryover import METRIC, metric_settings, with_current_metrics
from zoolens.measure.classorder import CLASSES, class_order, matched_by_name, with_class_order
from zoolens.measure.jobs import Job, Skipped, Wanted, plan_jobs
from zoolens.measure.latency import LatencySettings
from zoolens.measure.stages import (
    TIMED_WITH,
    Context,
    compute_metric,
    doubled_softmax,
    measure_batch_latency,
    measure_cold_start,
    measure_score,
    measure_size,
    predict_all,
    remarks,
    stored_predictions,
    suspicions,
)
from zoolens.measure.subject import Subject, prepare_subject
from zoolens.progress import Progress, Silent, count_bytes
from zoolens.runtimes.base import Effective, Options
from zoolens.store.records import DatasetRecord, Provenance, Run, RunKind
from zoolens.store.store import Store, borrowed_store
from zoolens.tasks.base import task_named
from zoolens.zoos.base import Entry

_log = logging.getLogger("zoolens")


@dataclass(frozen=True)
class EvaluationPlan:
    """Everything an evaluation is told. The same plan again does only what is not finished."""

    models: Sequence[str]
    data: str | None  # None: only timing, with made-up inputs
    limit: int | None = None
    seed: int | None = None
    wanted: Wanted = field(default_factory=Wanted)
    batches: Sequence[int] = (1,)
    accuracy: bool = True
    cold: bool = True
    fresh: bool = False  # measure again, as a new attempt, although it is all there
    latency: LatencySettings = field(default_factory=LatencySettings)
    cold_repeats: int = 3
    decode_threads: int = 2
    kind: RunKind = RunKind.EVALUATION


@dataclass(frozen=True)
class Outcome:
    """What became of one job. `measured` and `kept` name stages done now and found done."""

    title: str
    run: Run | None = None
    measured: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # worth knowing, and no failure
    skipped: str | None = None

    @property
    def failed(self) -> bool:
        return bool(self.errors or self.warnings)


def evaluate(
    models: Sequence[str | Path] | str | Path,
    data: str | Path | None = None,
    *,
    runtimes: Sequence[str] | str = (),
    environments: Sequence[str] | str = (),
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
    trust: bool = False,
    store: Store | str | Path | None = None,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Measure every model in every runtime asked for (default: every installed one that can run it).

    `data` may be left out where `accuracy` is False: models are then timed with made-up inputs. `trust`: open them in
    this process, without the sandbox.
    """
    plan = EvaluationPlan(
        models=_several(models),
        data=None if data is None else str(data),
        limit=limit,
        seed=seed,
        wanted=Wanted(
            runtimes=_several(runtimes),
            environments=_several(environments),
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
    with trusting(trust), borrowed_store(store) as opened:
        return list(carry_out(plan, opened, progress or Silent()))


def _several(given: Any) -> Sequence[str]:
    """One name or path may be given where several are expected."""
    return (str(given),) if isinstance(given, (str, Path)) else tuple(map(str, given))


def carry_out(plan: EvaluationPlan, store: Store, progress: Progress) -> Iterator[Outcome]:
    """Outcomes one by one, as they are stored."""
    if not plan.models:
        raise ZoolensError("No model is named.", hint="Give zoo:name, a pattern such as 'demo:*', or a path.")
    if any(batch < 1 for batch in plan.batches):
        raise ZoolensError(f"A batch size of {min(plan.batches)} makes no sense.", hint="Batch sizes start at 1.")
    if plan.data is None and (plan.accuracy or plan.limit is not None or plan.seed is not None):
        raise ZoolensError(
            "No data are named.", hint="Add --data; only timing (--no-accuracy, without --limit or --seed) needs none."
        )
    store.sweep()
    entries, executor = find_all(plan.models), current_executor()
    if executor.elsewhere:
        yield from _carry_out_elsewhere(executor, entries, plan, store, progress)
    else:
        yield from carry_out_entries(entries, plan, store, progress)


def carry_out_entries(
    entries: Sequence[Entry], plan: EvaluationPlan, store: Store, progress: Progress, *, asked: bool = True
) -> Iterator[Outcome]:
    """Evaluate these models on this machine. `asked`: see `run_job`."""
    with closing(open_data(plan.data, plan.limit, plan.seed)) as dataset:
        # Entry by entry: two of them may have one name, and one that runs does not excuse the other.
        planned = [plan_jobs([entry], plan.wanted, progress) for entry in entries]
        for jobs, skipped in planned:
            yield from (_passed_over(reason, failed=not jobs) for reason in skipped)
        for job in (job for jobs, _ in planned for job in jobs):
            yield run_job(job, plan, dataset, store, progress, asked=asked)


def _carry_out_elsewhere(
    executor: Executor, entries: Sequence[Entry], plan: EvaluationPlan, store: Store, progress: Progress
) -> Iterator[Outcome]:
    from zoolens.measure.fanout import Evaluation, evaluate_elsewhere

    evaluations = [Evaluation(entry, plan) for entry in entries]

    def known(entry: Entry) -> list[Run]:
        return store.runs(model=entry.full_ref, trials=True)

    for _, outcomes in evaluate_elsewhere(executor, evaluations, store, progress, known):
        yield from outcomes


def open_data(data: str | None, limit: int | None, seed: int | None) -> Dataset:
    return NoInputs() if data is None else open_dataset(data, limit=limit, seed=seed)


def _passed_over(one: Skipped, *, failed: bool) -> Outcome:
    return Outcome(one.title, errors=(one.reason,)) if failed else Outcome(one.title, skipped=one.reason)


def run_job(
    job: Job,
    plan: EvaluationPlan,
    dataset: Dataset,
    store: Store,
    progress: Progress,
    attempt: int | None = None,
    *,
    asked: bool = False,
) -> Outcome:
    """All stages of one job. A failing stage is recorded and reported; the others still run. `asked`: by a user, who
    evaluates this model under this name, so that its content is the one that counts under it."""
    try:
        _fetch(job, progress)
        job.runtime.check(job.files(), job.options)  # before a run is begun that could only fail
        dataset = dataset.decoded_with(job.manifest.inputs[0].decoder)
        run = _begin(job, plan, dataset, store, attempt, asked=asked)
    except StoreError:
        raise
    except ZoolensError as error:
        return Outcome(job.title, errors=(str(error),))
    with closing(_Opener(job, run, store, dataset)) as opener:
        context = Context(
            job=job,
            run=run,
            dataset=dataset,
            store=store,
            subject=opener,
            progress=progress,
            latency=plan.latency,
            cold_repeats=plan.cold_repeats,
            decode_threads=plan.decode_threads,
        )
        return _Stages(context, opener).carry_out(plan)


def _fetch(job: Job, progress: Progress) -> None:
    """Download what is not here yet, with a bar; files that are here cost nothing."""
    resolve_asset(job.asset, job.entry.folder, fetch=True, progress=count_bytes(progress, job.title))
    progress.end()


def _begin(job: Job, plan: EvaluationPlan, dataset: Dataset, store: Store, attempt: int | None, *, asked: bool) -> Run:
    details = {
        "classes": dataset.classes,
        **({"drawn_from": len(dataset.parent)} if isinstance(dataset, Subset) else {}),
    }
    record = DatasetRecord(dataset.fingerprint(), dataset.name, len(dataset), details)
    stack = with_class_order(job.stack, class_order(job, dataset))
    if attempt is None:
        key = (job.model.fingerprint, record.fingerprint, stack.fingerprint)
        attempt = store.next_attempt(*key) if plan.fresh else 0
        run = store.begin_run(job.model, record, stack, kind=plan.kind, attempt=attempt)
        if not plan.fresh and (current := with_current_metrics(store, run)).id != run.id:
            # Carried over, it may have been a trial of the doctor: now somebody has asked for it.
            run = store.begin_run(job.model, record, stack, kind=plan.kind, attempt=current.key.attempt)
    else:
        run = store.begin_run(job.model, record, stack, kind=plan.kind, attempt=attempt)
    origin = {
        "ref": job.entry.full_ref,
        "manifest": job.manifest.model_dump(mode="json", exclude_defaults=True),
        "folder": str(job.entry.folder) if job.entry.folder else None,
        **({"file": job.entry.file} if job.entry.file else {}),
        "data": None if plan.data is None else absolute_spec(plan.data),
        "limit": plan.limit,
        "seed": plan.seed,
        **({CLASSES: list(dataset.classes)} if dataset.classes and _renamed(run, dataset) else {}),
    }
    if asked:
        store.mark_evaluated(run.id, {"origin": origin})
        return run
    if run.origin and run.kind is not plan.kind:
        return run  # what somebody asked for stays theirs, whoever else needs it
    if run.origin != origin:
        store.set_resolved(run.id, {"origin": origin})
    return run


def said_of_classes(dataset: Dataset) -> Iterator[str]:
    """Folders are read class by class: the first inputs of them may be of a few classes only."""
    if not isinstance(dataset, Subset):
        return
    here, all_ = (len(np.unique(one.labels())) for one in (dataset, dataset.parent))
    if here < 0.5 * min(all_, len(dataset)):
        yield (
            f"these {len(dataset):,} inputs are of {here:,} of the data's {all_:,} classes, so that the accuracy is "
            "that of those; --seed draws inputs of all"
        )


def _renamed(run: Run, dataset: Dataset) -> bool:
    """Whether the store knows these data with other names of the classes."""
    return list(run.dataset.details.get("classes") or ()) != list(dataset.classes or ())


class _Opener:
    """Opens the model on first need and keeps it open; opens it anew after its process has died."""

    def __init__(self, job: Job, run: Run, store: Store, dataset: Dataset) -> None:
        self._job, self._run, self._store, self._dataset = job, run, store, dataset
        self._subject: Subject | None = None

    def __call__(self) -> Subject:
        if self._subject is None:
            session = self._job.open()
            try:
                self._record(session.effective(), session.sandbox)
                self._subject = prepare_subject(self._job, session, self._dataset)
            except BaseException:
                session.close()
                raise
        return self._subject

    def close(self) -> None:
        if self._subject is not None:
            self._subject.session.close()
            self._subject = None

    def _record(self, effective: Effective, sandbox: str) -> None:
        """What is in effect goes into the run's record once. Facts under two different ones must not mix."""
        now = {"provider": effective.provider, "precision": effective.precision, "threads": effective.threads}
        run = self._store.run(self._run.id)
        before = {name: run.resolved[name] for name in now if name in run.resolved}
        changed = [f"{name} {before[name]} and now {now[name]}" for name in before if before[name] != now[name]]
        if changed and any(state.done for state in self._store.stages(run.id).values()):
            raise ZoolensError(
                f"Run {run.id[:8]} was measured with {', '.join(changed)}: something outside zoolens has changed.",
                hint="Use --fresh to measure it all again under the new conditions.",
            )
        # The sandbox changes neither answers nor times beyond their noise, so it is a fact and not a condition.
        self._store.set_resolved(run.id, {**now, "details": dict(effective.details), "sandbox": sandbox})


class _Stages:
    """Runs stages that are not done yet and keeps account."""

    def __init__(self, context: Context, opener: _Opener) -> None:
        self._context = context
        self._opener = opener
        self._before = context.store.stages(context.run.id)
        self._measured: list[str] = []
        self._kept: list[str] = []
        self._errors: list[str] = []
        self._warnings: list[str] = []
        self._notes: list[str] = []

    def carry_out(self, plan: EvaluationPlan) -> Outcome:
        context = self._context
        answers = not plan.accuracy or self._stage("predictions", lambda: predict_all(context))
        task = task_named(context.job.manifest.task)
        if plan.accuracy and answers and context.dataset.labelled and task.discrete:
            self._judge_predictions()
        elif plan.accuracy and answers and context.dataset.labelled and task.judged:
            self._stage(f"{METRIC}score", lambda: measure_score(context))
        if answers:  # a model that cannot answer has no speed worth knowing
            self._stage("size", lambda: measure_size(context))
            for batch in plan.batches:
                self._stage(
                    f"latency:batch={batch}",
                    lambda batch=batch: measure_batch_latency(context, batch),  # type: ignore[misc]
                    asdict(plan.latency),
                )
            if plan.cold:
                self._stage("cold", lambda: measure_cold_start(context), {"repeats": plan.cold_repeats})
        return Outcome(
            context.job.title,
            run=context.store.run(context.run.id),
            measured=tuple(self._measured),
            kept=tuple(self._kept),
            errors=tuple(self._errors),
            warnings=tuple(self._warnings),
            notes=(*self._notes, *self._said_of_run(plan)),
        )

    def _said_of_run(self, plan: EvaluationPlan) -> Iterator[str]:
        """Why figures are absent that one would look for."""
        task = self._context.job.manifest.task
        if plan.accuracy and not self._errors and not task_named(task).judged:
            yield f"its answers are no classes (task: {task}): no accuracy, but `compare` and `equiv` compare them"
        elif plan.accuracy and not self._errors and not self._context.dataset.labelled:
            yield "the data have no labels: no accuracy, but `compare` and `equiv` compare models on them"
        elif plan.accuracy and not self._errors:
            yield from self._said_of_outputs()
            yield from said_of_classes(self._context.dataset)
        made_up = self._context.store.run(self._context.run.id).resolved.get(TIMED_WITH)
        if made_up:
            yield f"it was timed with {made_up}"
        for one in self._context.store.observations(self._context.run.id, metric="latency_p50"):
            if one.provenance is Provenance.UNAVAILABLE:
                yield f"no latency at {one.scope}: {one.details.get('reason')}"

    def _said_of_outputs(self) -> Iterator[str]:
        """Outputs that stand for no class of the data, where no names tell that this is meant."""
        run, classes = self._context.store.run(self._context.run.id), self._context.dataset.classes
        outputs = run.resolved.get("outputs") or [{}]
        width = int(outputs[0].get("width") or 0)
        if classes and width > len(classes) and not matched_by_name(run):
            yield (
                f"the data have {len(classes):,} classes, taken for the model's first outputs; answers among its other "
                f"{width - len(classes):,} count as wrong"
            )

    def _judge_predictions(self) -> None:
        """Every metric from the stored predictions; a damaged store or a failing metric stops none of the others."""
        context = self._context
        try:
            run = context.store.run(context.run.id)  # with what the answers told
            predictions = stored_predictions(context.store, run, context.dataset)
        except ZoolensError as error:
            self._errors.append(str(error))
            return
        for name in plugins.names(plugins.METRICS):
            work = lambda name=name: compute_metric(context, name, predictions)  # noqa: E731
            self._stage(f"{METRIC}{name}", work, metric_settings(name))
        self._warnings += suspicions(predictions)
        self._notes += remarks(predictions)
        self._warnings += doubled_softmax(context.job.manifest.outputs[0], run)
        if problem := class_order(context.job, context.dataset).problem:
            self._warnings.append(problem)

    def _stage(self, name: str, work: Callable[[], Any], settings: Mapping[str, Any] | None = None) -> bool:
        """True if the stage is done, now or before."""
        context = self._context
        if name in self._before and self._before[name].done:
            self._kept.append(name)
            return True
        try:
            observations = list(work())
            context.store.finish_stage(context.run.id, name, observations, details=settings or {})
        except StoreError:
            raise
        except ZoolensError as error:
            if isinstance(error, WorkerError):
                self._opener.close()
            return self._failed(name, str(error))
        except Exception as error:
            _log.debug("stage %s", name, exc_info=True)
            return self._failed(name, f"Stage {name} failed unexpectedly: {type(error).__name__}: {error}.")
        self._measured.append(name)
        return True

    def _failed(self, name: str, reason: str) -> bool:
        self._context.progress.end()
        self._context.store.fail_stage(self._context.run.id, name, reason)
        self._errors.append(reason)
        return False
