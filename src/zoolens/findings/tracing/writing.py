"""Where a language model's time goes while it writes: reading the prompt, and reading each further token.

Whole requests are recorded with a span for the prompt and one for each token, as an application records its own code.
Then each of both phases is repeated alone, without a profiler and with it, as the levels of a model are.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError, ModelError, UnsupportedAbility, ZoolensError
from zoolens.base.progress import Progress, Silent
from zoolens.base.store.series import write_series
from zoolens.base.store.store import Store, borrowed_store
from zoolens.findings.measure.generation_speed import writes
from zoolens.findings.measure.job_runner import open_data
from zoolens.findings.measure.jobs import Job, plan_jobs
from zoolens.findings.tracing.measuring import FEWEST, TraceSettings, judged_clean, trace_model, trace_operators
from zoolens.findings.tracing.phases import FURTHER, MISSING, PROMPT, WRITING, phase_series
from zoolens.findings.tracing.recorder import current_context, recording, span
from zoolens.findings.tracing.runner import require_level, traced_stack
from zoolens.findings.tracing.spans import Level
from zoolens.findings.tracing.stored_recording import StoredRecording, load_recording
from zoolens.findings.tracing.trace_context import TraceContext
from zoolens.inventory.catalog.lookup import Model, find
from zoolens.inventory.catalog.sessions import RunOptions
from zoolens.inventory.datasets.choices import CHOICE
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.manifests.tokenizer import ROLE as TOKENIZER
from zoolens.inventory.preprocess.text import PrepareText, check_vocabulary
from zoolens.inventory.runtimes.isolation.isolated_session import IsolatedSession
from zoolens.inventory.runtimes.observing import Profile
from zoolens.inventory.runtimes.runtime import Options, Session
from zoolens.inventory.runtimes.timing.calls import ObservedCall, observed_calls
from zoolens.inventory.runtimes.timing.latency_loop import Repeater, Repeating

if TYPE_CHECKING:
    import pyarrow as pa

LEVELS: Final = (Level.MODEL, Level.LAYER, Level.LIBRARY)  # how deep one can look into a phase
Ids = NDArray[np.int32]


@dataclass(frozen=True)
class WritingPlan:
    """`prompt`: so many tokens are read, drawn at random or from the first text of the data, which may have fewer.
    `tokens`: so many are read one at a time behind them, each the most likely one."""

    model: Model
    data: str | None = None
    prompt: int = 128
    tokens: int = 16
    level: Level = Level.LAYER
    runtime: str | None = None  # None: any in which the model writes
    options: Options = field(default_factory=Options)
    allow_code: bool = False
    settings: TraceSettings = field(default_factory=lambda: TraceSettings(20))
    traceparent: str | None = None


@dataclass(frozen=True)
class Continuations:
    """A model reads the same tokens behind the first `kept` ones, which are not read again."""

    session: Session
    tokens: Ids
    kept: int

    def once(self) -> object:
        return self.session.extend(self.tokens[:, self.kept :], self.kept)

    def repeated(self, warmup_calls: int, warmup_seconds: float) -> Repeating:
        if self.kept:
            self.session.extend(self.tokens[:, : self.kept], 0)
        if isinstance(self.session, IsolatedSession):
            new = self.tokens[:, self.kept :]
            return self.session.repeat_extend(new, self.kept, warmup_calls, warmup_seconds)
        return Repeater(self.once, warmup_calls, warmup_seconds)

    def profiles(self, repeats: int, *, kernels: bool) -> list[Profile]:
        return self.session.profile_extend(self.tokens, self.kept, repeats, kernels=kernels)


def trace_writing(
    plan: WritingPlan, *, store: Store | str | Path | None = None, progress: Progress | None = None
) -> StoredRecording:
    """Record requests and both phases. ZoolensError where the model does not write."""
    watcher = progress or Silent()
    if plan.prompt < 1 or plan.tokens < 1 or plan.level not in LEVELS:
        raise ZoolensError("A prompt and what is written behind it have at least one token each.")
    job = _job(plan, watcher)
    with borrowed_store(store) as kept, closing(open_data(plan.data, None, None)) as dataset:
        return _traced(job, plan, dataset, kept, watcher)


def _job(plan: WritingPlan, progress: Progress) -> Job:
    entry = find(plan.model)
    wanted = RunOptions(
        (plan.runtime,) if plan.runtime else (), ("",), options=plan.options, allow_code=plan.allow_code
    )
    jobs, skipped = plan_jobs([entry], wanted, progress)
    able = [job for job in jobs if writes(job)]
    if not able:
        reasons = [reason.reason for reason in skipped]
        reasons += [f"{job.runtime.name} does not write texts with it." for job in jobs]
        raise ZoolensError(
            f"{entry.ref} cannot be traced while it writes. {' '.join(reasons)}".strip(),
            hint="Only models of the next token (task: language-model) write, in runtimes that can `extend`.",
        )
    return min(able, key=lambda job: len(job.runtime.formats))


def _traced(job: Job, plan: WritingPlan, dataset: Dataset, store: Store, progress: Progress) -> StoredRecording:
    progress.begin(job.title, "open", None)
    with job.open() as session:
        prompt = _prompt(job, session, dataset, plan.prompt)
        writer = _Writer(session, prompt, plan.tokens)
        writer.write()
        progress.begin(job.title, "requests", plan.settings.repeats)
        with recording(job.title, store=store, traceparent=plan.traceparent, stack=traced_stack(job)) as record:
            until = time.perf_counter() + plan.settings.seconds
            for repeat in range(plan.settings.repeats):
                if repeat >= FEWEST and time.perf_counter() > until:
                    break
                (call,) = observed_calls(writer.request, 1, also=writer.workers)
                for number, part in [*writer.parts, (writer.last_request, call)]:
                    record.judge(number, judged_clean([part])[0])
                progress.advance(1)
            context = TraceContext(current_context().trace_id, record.root)
        assert record.run is not None  # as it was stored
        missing = {}
        for name, kept in ((PROMPT, 0), (FURTHER, prompt.shape[1])):
            progress.begin(job.title, name, None)
            calls = Continuations(session, writer.text[:, : kept + 1] if kept else prompt, kept)
            table, missing[name] = _phase(job, calls, plan, context)
            write_series(store, record.run, phase_series(name), table)
        effective = session.effective()
    progress.end()
    about = {
        "prompt": "tokens drawn at random" if plan.data is None else f"the first text of {plan.data}",
        "prompt_tokens": prompt.shape[1],
        "tokens": plan.tokens,
        MISSING: missing,
    }
    facts = {WRITING: about, "threads": effective.threads, "precision": effective.precision}
    store.set_resolved(record.run, facts)
    return load_recording(store.run(record.run), store=store)


def _prompt(job: Job, session: Session, dataset: Dataset, most: int) -> Ids:
    declared = job.manifest.inputs[0].tokenizer
    assert declared is not None  # a model of texts has one
    if not len(dataset):
        return np.random.default_rng(0).integers(0, declared.vocabulary, (1, most), np.int32)
    if dataset.truth_kind == CHOICE:
        raise DatasetError("The samples are questions with choices, of which none is a prompt.")
    check_vocabulary(job.manifest.inputs[0], job.files(), session.inputs)
    text = PrepareText(job.manifest.inputs[0], session.inputs, job.paths[TOKENIZER])
    found = text.prompt_ids(text(dataset.read(0).value))[:most]
    if not len(found):
        raise DatasetError("The first text of the data has no tokens.", hint="Give other data, or none.")
    return np.asarray(found, np.int32)[np.newaxis]


class _Writer:
    """Requests of one prompt. `parts`: the calls of the last one, each with the number of its span."""

    def __init__(self, session: Session, prompt: Ids, tokens: int) -> None:
        self._session, self._prompt, self._tokens = session, prompt, tokens
        self.workers: Sequence[int] = [session.process_id] if isinstance(session, IsolatedSession) else []
        self.parts: list[tuple[int, ObservedCall]] = []
        self.last_request = 0
        self.text = prompt  # with what was written behind it

    def request(self) -> None:
        """One request that is recorded."""
        with span("request", "request") as step:
            self.last_request = step.number or 0
            self.write()

    def write(self) -> None:
        self.parts, self.text = [], self._prompt
        after = self._read(PROMPT, self._prompt, 0)
        for _ in range(self._tokens):
            new = np.array([[after[0].argmax()]], np.int32)
            self.text = np.concatenate([self.text, new], axis=1)
            after = self._read(FURTHER, new, None)

    def _read(self, name: str, new: Ids, kept: int | None) -> NDArray[Any]:
        answers: list[NDArray[Any]] = []
        numbers: list[int] = []

        def call() -> None:
            with span(name, "extend", level=Level.MODEL) as step:
                numbers.append(step.number or 0)
                answers.append(self._session.extend(new, kept))

        (seen,) = observed_calls(call, 1, also=self.workers)
        self.parts.append((numbers[0], seen))
        return answers[0]


def _phase(
    job: Job, calls: Continuations, plan: WritingPlan, context: TraceContext
) -> tuple[pa.Table, Mapping[str, str]]:
    """The calls of a phase, as deep as the runtime can be observed, and why not deeper."""
    import pyarrow as pa

    tables, missing = [], {}
    for level in LEVELS[1 : LEVELS.index(plan.level) + 1]:
        try:
            require_level(level, job, writing=True)
            tables.append(trace_operators(calls, level, plan.settings, context))
        except (ModelError, UnsupportedAbility, NotImplementedError) as error:
            missing[str(level)] = str(error) or f"The plug-in of {job.runtime.name} does not say how."
    tables = tables or [trace_model(calls, plan.settings, context)]
    return pa.concat_tables(tables, promote_options="permissive"), missing
