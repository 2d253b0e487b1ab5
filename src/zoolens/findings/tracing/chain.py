"""Several models in a row as one pipeline: the answers of each are the inputs of the next.

Every request is recorded step by step, as an application records its own code: decode, preprocess, a prediction of each
model, postprocess. Each request is judged as latency samples are: did its threads, or those of the workers, wait for a
core? A model whose inputs the answers before it do not fit is refused before anything runs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError, ZoolensError
from zoolens.base.progress import Progress, Silent
from zoolens.base.store.store import Store, borrowed_store
from zoolens.findings.measure.job_runner import open_data
from zoolens.findings.measure.jobs import Job, plan_jobs
from zoolens.findings.measure.subject import Subject, judge_main_output, prepare_subject
from zoolens.findings.tracing.measuring import FEWEST, TraceSettings, judged_clean
from zoolens.findings.tracing.recorder import recording, span
from zoolens.findings.tracing.sessions import traced
from zoolens.findings.tracing.stored_recording import StoredRecording, load_recording
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.catalog.sessions import RunOptions
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.runtimes.isolation.isolated_session import IsolatedSession
from zoolens.inventory.runtimes.runtime import Options, Session, TensorSpec, shape_text
from zoolens.inventory.runtimes.timing.calls import observed_calls

Feeds = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class ChainPlan:
    """`models` in the order in which they answer. `runtimes`: none for any that can, one for all, or one for each."""

    models: Sequence[str]
    data: str | None = None  # None: made-up inputs
    limit: int | None = None
    seed: int | None = None
    runtimes: Sequence[str] = ()
    options: Options = field(default_factory=Options)
    allow_code: bool = False
    batch: int = 1
    settings: TraceSettings = field(default_factory=TraceSettings)
    traceparent: str | None = None


def trace_chain(
    plan: ChainPlan, *, store: Store | str | Path | None = None, progress: Progress | None = None
) -> StoredRecording:
    """Send requests through all models and store them as a recording. ZoolensError where a model cannot be opened, or
    does not take what the one before it answers."""
    watcher = progress or Silent()
    watcher.begin(" → ".join(plan.models), "open", None)
    jobs = [_job(model, runtime, plan) for model, runtime in zip(plan.models, _runtimes(plan), strict=True)]
    with (
        ExitStack() as opened,
        borrowed_store(store) as kept,
        closing(open_data(plan.data, plan.limit, plan.seed)) as dataset,
    ):
        sessions = [opened.enter_context(job.open()) for job in jobs]
        chain = _Chain(jobs, sessions, dataset.decoded_with(jobs[0].manifest.decoder), plan.batch)
        for _ in range(3):
            chain.answer(0)
        workers = [session.process_id for session in sessions if isinstance(session, IsolatedSession)]
        name = " → ".join(dict.fromkeys(job.entry.ref for job in jobs))
        watcher.begin(name, "requests", plan.settings.repeats)
        with recording(name, store=kept, traceparent=plan.traceparent) as record:
            until = time.perf_counter() + plan.settings.seconds
            for repeat in range(plan.settings.repeats):
                if repeat >= FEWEST and time.perf_counter() > until:
                    break
                (call,) = observed_calls(lambda repeat=repeat: chain.request(repeat * plan.batch), 1, also=workers)  # type: ignore[misc]
                (undisturbed,) = judged_clean([call])
                record.judge(chain.last_request, undisturbed)
                watcher.advance(1)
        watcher.end()
        assert record.run is not None  # as it was stored
        return load_recording(kept.run(record.run), store=kept)


def _runtimes(plan: ChainPlan) -> Sequence[str | None]:
    if len(plan.models) < 2:
        raise ZoolensError("A chain has at least two models.", hint="`zoolens trace MODEL` traces a single one.")
    if len(plan.runtimes) in (0, 1):
        return [plan.runtimes[0] if plan.runtimes else None] * len(plan.models)
    if len(plan.runtimes) != len(plan.models):
        raise ZoolensError(
            f"{len(plan.runtimes)} runtimes are named for {len(plan.models)} models.",
            hint="Name one runtime for all models, or one for each.",
        )
    return plan.runtimes


def _job(model: str, runtime: str | None, plan: ChainPlan) -> Job:
    wanted = RunOptions(
        runtimes=(runtime,) if runtime else (), environments=("",), options=plan.options, allow_code=plan.allow_code
    )
    jobs, skipped = plan_jobs([find(model)], wanted)
    if not jobs:
        raise ZoolensError(" ".join(reason.reason for reason in skipped) or f"{model} cannot be run here.")
    return min(jobs, key=lambda job: len(job.runtime.formats))


class _Chain:
    def __init__(self, jobs: Sequence[Job], sessions: Sequence[Session], dataset: Dataset, batch: int) -> None:
        self._dataset, self._batch = dataset, batch
        self.last_request = 0  # the number of its span
        self._first: Subject = prepare_subject(jobs[0], sessions[0], dataset)
        self._given = self._first.feeds(dataset, batch) if self._first.needs_made_up(dataset) else None
        self._read = judge_main_output(jobs[-1], sessions[-1], dataset)
        names = [f"{place + 1}. {job.entry.ref} ({job.runtime.name})" for place, job in enumerate(jobs)]
        self._models = [traced(session, name) for session, name in zip(sessions, names, strict=True)]
        pairs = zip(sessions, sessions[1:], names, names[1:], strict=False)
        self._links = [links(before.outputs, after.inputs, *titles) for before, after, *titles in pairs]

    def request(self, first: int) -> None:
        """One request that is recorded."""
        with span("request", "request") as step:
            self.last_request = step.number or 0
            self.answer(first)

    def answer(self, first: int) -> None:
        """One request, with the inputs from this place of the data on."""
        values: Mapping[str, NDArray[Any]] = self._models[0].predict(self._inputs(first))
        for model, link in zip(self._models[1:], self._links, strict=True):
            values = model.predict({name: values[answer] for name, answer in link.items()})
        with span("postprocess"):
            self._read.read(values[self._read.tensor.name])

    def _inputs(self, first: int) -> Feeds:
        if self._given is not None:
            return self._given
        with span("decode"):
            samples = [self._dataset.read((first + place) % len(self._dataset)) for place in range(self._batch)]
        with span("preprocess"):
            inputs = np.ascontiguousarray(np.stack([self._first.prepare(sample) for sample in samples]))
            return self._first.named_inputs(inputs)


def links(outputs: Sequence[TensorSpec], inputs: Sequence[TensorSpec], before: str, after: str) -> dict[str, str]:
    """The output that each input of the next model is given: the one of the same name, or, of a model with one input,
    the first that fits."""
    chosen = {}
    for wanted in inputs:
        fitting = [spec.name for spec in outputs if _fits(spec, wanted)]
        if wanted.name in fitting:
            chosen[wanted.name] = wanted.name
        elif fitting and len(inputs) == 1:
            chosen[wanted.name] = fitting[0]
        else:
            answers = ", ".join(_words(spec) for spec in outputs)
            raise ModelError(
                f"What {before} answers ({answers}) does not fit the input of {after} ({_words(wanted)}).",
                hint="Put your own code between them in Python: `zoolens.findings.tracing.traced`.",
            )
    return chosen


def _fits(given: TensorSpec, wanted: TensorSpec) -> bool:
    """Whether an answer can be fed: of one type and shape, and quantised in one way, or its numbers mean others."""
    return (
        (given.dtype, given.scale, given.zero_point) == (wanted.dtype, wanted.scale, wanted.zero_point)
        and len(given.shape) == len(wanted.shape)
        and all(None in pair or pair[0] == pair[1] for pair in zip(given.shape, wanted.shape, strict=True))
    )


def _words(spec: TensorSpec) -> str:
    return f"{spec.name}: {spec.dtype} {shape_text(spec.shape)}"
