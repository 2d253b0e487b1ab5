"""The jobs of an evaluation on this machine: every stage of each is measured once and stored."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from functools import partial
from itertools import product
from typing import Any

from zoolens.base import plugins
from zoolens.base.engine.freed_memory import return_freed_memory
from zoolens.base.engine.machine import this_machine
from zoolens.base.engine.retry_policy import retry_policy, worker_was_killed
from zoolens.base.errors import StoreError, WorkerError, ZoolensError
from zoolens.base.progress import Progress, count_bytes
from zoolens.base.store.records import GUESSED, MACHINES, DatasetRecord, Observation, Run, Stage, joined_machines
from zoolens.base.store.scopes import batch_scope, context_scope
from zoolens.base.store.store import Store
from zoolens.findings.measure.carryover import metric_settings, with_current_metrics
from zoolens.findings.measure.class_order import CLASSES, class_order, with_class_order
from zoolens.findings.measure.fastest_mode import FASTEST, check_fastest, run_in_fastest_mode
from zoolens.findings.measure.generation_speed import measure_generation, writes
from zoolens.findings.measure.input_checks import pixel_doubt, resampled_sounds, turned_pictures
from zoolens.findings.measure.jobs import Job, Skipped, plan_jobs
from zoolens.findings.measure.outcome_notes import guesses_of, notes_of
from zoolens.findings.measure.plan import EvaluationPlan, Outcome
from zoolens.findings.measure.prediction_stage import predict_all
from zoolens.findings.measure.stages import (
    Context,
    compute_metric,
    measure_batch_latency,
    measure_cold_start,
    measure_score,
    measure_size,
    stored_predictions,
)
from zoolens.findings.measure.subject import Subject, prepare_subject
from zoolens.findings.measure.suspicions import (
    blind_answers,
    confidence_gap,
    dead_outputs,
    doubled_softmax,
    indifferent_data,
    mixed_rows,
    remarks,
    suspicions,
)
from zoolens.findings.measure.task_metrics import TASK_METRICS, measure_task
from zoolens.inventory.catalog.stored import guessed_of
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.datasets.noinputs import NoInputs
from zoolens.inventory.datasets.opening import absolute_spec, open_dataset
from zoolens.inventory.datasets.subset import Subset
from zoolens.inventory.manifests.locations import resolve_asset
from zoolens.inventory.runtimes.runtime import Effective
from zoolens.inventory.tasks.task import task_named
from zoolens.inventory.zoos.zoo import Entry

_log = logging.getLogger("zoolens")
_MANY = 5_000  # inputs, whose content is read for seconds


def carry_out_entries(
    entries: Sequence[Entry], plan: EvaluationPlan, store: Store, progress: Progress, *, asked: bool = True
) -> Iterator[Outcome]:
    """Evaluate these models on this machine. `asked`: see `run_job`."""
    check_fastest(plan)
    with closing(open_data(plan.data, plan.limit, plan.seed)) as dataset:
        return_freed_memory()  # Lists of files and annotations are read into many small objects.
        _know_content(dataset, progress)
        # Entry by entry: two of them may have one name, and one that runs does not excuse the other.
        planned = [plan_jobs([entry], plan.wanted, progress) for entry in entries]
        for jobs, skipped in planned:
            yield from (_passed_over(reason, failed=not jobs) for reason in skipped)

        def run(job: Job, told: EvaluationPlan) -> Outcome:
            return run_job(job, told, dataset, store, progress, asked=asked and told is plan)

        for job in (job for jobs, _ in planned for job in jobs):
            chosen = job.options.mode != FASTEST
            yield run(job, plan) if chosen else run_in_fastest_mode(job, plan, store, run)


def _know_content(dataset: Dataset, progress: Progress) -> None:
    """Read many inputs once for their fingerprint: of 100,000 images that takes minutes, which is said."""
    whole = dataset.parent if isinstance(dataset, Subset) else dataset
    if len(whole) < _MANY:
        return
    progress.begin(whole.name, f"read {len(whole):,} inputs, to know the content", None)
    dataset.fingerprint()
    progress.end()


def open_data(data: str | None, limit: int | None, seed: int | None) -> Dataset:
    return NoInputs() if data is None else open_dataset(data, limit=limit, seed=seed)


def _passed_over(skipped: Skipped, *, failed: bool) -> Outcome:
    if failed:
        return Outcome(skipped.title, errors=(skipped.reason,))
    return Outcome(skipped.title, skipped=skipped.reason)


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
        fetch_job(job, progress)
        # Before a run is begun that could only fail.
        job.runtime.check(job.files(), job.options)
        dataset = dataset.decoded_with(job.manifest.decoder)
        run = begin_job(job, plan, dataset, store, attempt, asked=asked)
        job = job.for_data(dataset)
    except StoreError:
        raise
    except ZoolensError as error:
        return Outcome(job.title, errors=(str(error),))
    with closing(SubjectOpener(job, run, store, dataset)) as opener:
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


def fetch_job(job: Job, progress: Progress) -> None:
    """Download what is not here yet, with a bar; files that are here cost nothing."""
    resolve_asset(job.asset, job.entry.folder, fetch=True, progress=count_bytes(progress, job.title))
    progress.end()


def begin_job(
    job: Job,
    plan: EvaluationPlan,
    dataset: Dataset,
    store: Store,
    attempt: int | None = None,
    *,
    asked: bool = False,
) -> Run:
    """The run that a job's facts belong to; see `run_job`."""
    details = {
        "classes": dataset.classes,
        **({"drawn_from": len(dataset.parent)} if isinstance(dataset, Subset) else {}),
    }
    record = DatasetRecord(dataset.fingerprint(), dataset.name, len(dataset), details)
    stack = with_class_order(job.stack, class_order(job, dataset))
    if attempt is None and plan.fresh:
        run = store.begin_attempt(job.model, record, stack, kind=plan.kind)
    elif attempt is None:
        run = store.begin_run(job.model, record, stack, kind=plan.kind)
        if (current := with_current_metrics(store, run)).id != run.id:
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
        # What somebody asked for stays theirs, whoever else needs it.
        return run
    if run.origin != origin:
        store.set_resolved(run.id, {"origin": origin})
    return run


def _renamed(run: Run, dataset: Dataset) -> bool:
    """Whether the store knows these data with other names of the classes."""
    return list(run.dataset.details.get("classes") or ()) != list(dataset.classes or ())


class SubjectOpener:
    """Opens the model on first need and keeps it open; opens it again after its process has died."""

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
        if changed and (any(state.done for state in self._store.stages(run.id).values()) or self._store.kinds(run.id)):
            raise ZoolensError(
                f"Run {run.id[:8]} was measured with {', '.join(changed)}: something outside zoolens has changed.",
                hint="Use --fresh to measure it all again under the new conditions.",
            )
        # The sandbox changes neither answers nor times beyond their noise, so it is a fact and not a condition.
        facts = {**now, "details": dict(effective.details), "sandbox": sandbox}
        self._store.set_resolved(
            run.id, {**facts, MACHINES: joined_machines(run.resolved, {MACHINES: [this_machine()]})}
        )


class _Stages:
    """Runs stages that are not done yet and keeps account."""

    def __init__(self, context: Context, opener: SubjectOpener) -> None:
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
        answers = not plan.accuracy or self._stage(Stage.PREDICTIONS, lambda: predict_all(context))
        return_freed_memory()  # What judging needs would come on top of it.
        if plan.accuracy and answers:
            self._look_at_inputs()
        task = task_named(context.job.manifest.task)
        if plan.accuracy and answers and context.dataset.labelled and task.discrete:
            self._judge_predictions()
        elif plan.accuracy and answers and task.judged_by(context.dataset.truth_kind):
            if plan.task_metrics:
                self._stage(Stage.METRIC.of(TASK_METRICS), lambda: measure_task(context))
            run = context.store.run(context.run.id)
            self._warnings += [*dead_outputs(run, context.dataset), *mixed_rows(run)]
            for found in context.store.observations(run.id):
                self._warnings += blind_answers(found)
                self._notes += indifferent_data(found)
        elif plan.accuracy and answers and context.dataset.labelled and task.judged and task.truth is None:
            self._stage(Stage.METRIC.of("score"), lambda: measure_score(context))
        elif plan.accuracy and answers:
            self._warnings += dead_outputs(context.store.run(context.run.id), context.dataset)
        # A model that cannot answer has no speed worth knowing.
        if answers:
            self._stage(Stage.SIZE, lambda: measure_size(context))
            for batch in plan.batches:
                self._stage(
                    Stage.LATENCY.of(batch_scope(batch)),
                    lambda batch=batch: measure_batch_latency(context, batch),  # type: ignore[misc]
                    asdict(plan.latency),
                )
            self._time_writing(plan)
            if plan.cold:
                self._stage(Stage.COLD, lambda: measure_cold_start(context), {"repeats": plan.cold_repeats})
        run = context.store.run(context.run.id)
        guessed = tuple(guesses_of(context, run)) if plan.accuracy else ()
        if plan.accuracy and guessed_of(run) != guessed:
            context.store.set_resolved(run.id, {GUESSED: list(guessed)})
            run = context.store.run(run.id)
        return Outcome(
            context.job.title,
            run=run,
            measured=tuple(self._measured),
            kept=tuple(self._kept),
            errors=tuple(self._errors),
            warnings=tuple(self._warnings),
            notes=(*self._notes, *notes_of(context, run, answered=plan.accuracy and not self._errors)),
            guessed=guessed,
        )

    def _time_writing(self, plan: EvaluationPlan) -> None:
        """Tokens per second of a language model, at each context length and for each number of sequences at once."""
        context = self._context
        if not writes(context.job):
            return
        for batch, tokens in product(plan.batches, plan.contexts):
            work = partial(measure_generation, context, tokens, batch)
            self._stage(Stage.GENERATION.of(context_scope(tokens, batch)), work, asdict(plan.latency))

    def _look_at_inputs(self) -> None:
        """What the samples themselves tell, unless code of the manifest prepares them in a way of its own."""
        manifest, dataset = self._context.job.manifest, self._context.dataset
        if manifest.code is not None and manifest.code.preprocess is not None:
            return
        several = len(manifest.inputs) > 1
        for spec in manifest.inputs:
            if doubt := pixel_doubt(spec, dataset):
                self._warnings.append(f"input {spec.name}: {doubt}" if several else doubt)
            for look in (turned_pictures, resampled_sounds):
                if said := look(spec, dataset):
                    self._notes.append(f"input {spec.name}: {said}" if several else said)

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
            self._stage(Stage.METRIC.of(name), work, metric_settings(name))
        try:
            doubts = list(suspicions(predictions))
            self._warnings += doubts or list(confidence_gap(predictions))
            self._notes += remarks(predictions)
        except ZoolensError as error:
            self._errors.append(str(error))
        self._warnings += doubled_softmax(context.job.manifest.outputs[0], run)
        self._warnings += mixed_rows(run)
        if problem := class_order(context.job, context.dataset).problem:
            self._warnings.append(problem)

    def _stage(self, name: str, work: Callable[[], Any], settings: Mapping[str, Any] | None = None) -> bool:
        """True if the stage is done, now or before."""
        context, name = self._context, str(name)
        if name in self._before and self._before[name].done:
            self._kept.append(name)
            return True
        try:
            observations = self._observed(work)
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

    def _observed(self, work: Callable[[], Any]) -> list[Observation]:
        """What a stage found. If its worker process was killed from outside, most often for want of memory, it is tried
        again as the retry policy says."""
        policy = retry_policy()
        for retry in range(1, policy.killed + 1):
            try:
                return list(work())
            except WorkerError as error:
                if not worker_was_killed(error):
                    raise
                self._opener.close()
                pause = policy.pause_before(retry)
                self._context.progress.say(f"{self._context.job.title}: {error} Tried again in {pause:g} s.")
                time.sleep(pause)
        return list(work())

    def _failed(self, name: str, reason: str) -> bool:
        self._context.progress.end()
        self._context.store.fail_stage(self._context.run.id, name, reason)
        self._errors.append(reason)
        return False
