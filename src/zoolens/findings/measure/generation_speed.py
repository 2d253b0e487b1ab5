"""How fast a language model reads a prompt and writes: time to its first token, tokens per second by context length.

Every call of one kind does the same work: a prompt is read from nothing, and one token is written behind so many
others, which stay. The two are timed as any other calls are, and told clean and raw.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.engine.other_work import cpu_time, share_of_others
from zoolens.base.errors import ModelError, UnsupportedAbility
from zoolens.base.store.records import Observation, unavailable
from zoolens.base.store.scopes import context_scope, parse_scope
from zoolens.findings.measure.energy import GPU_SECONDS, SECONDS, energy_observations
from zoolens.findings.measure.jobs import Job
from zoolens.findings.measure.latency import LatencySamples, latency_observations, measure_latency
from zoolens.findings.measure.stages import Context, with_machine
from zoolens.inventory.manifests.schema_texts import PREDICTING
from zoolens.inventory.runtimes.isolation.isolated_session import IsolatedSession
from zoolens.inventory.runtimes.runtime import Session
from zoolens.inventory.tasks.task import task_named

FIRST: Final = "latency_first_token"
FURTHER: Final = "latency_token"
PREFILL: Final = "prefill_speed"
DECODE: Final = "decode_speed"
MEMORY: Final = "memory_context"
ENERGY: Final = "energy_token"
SPEED: Final = "tokens/s"
_WHAT: Final = "tokens drawn at random"
_WARM_UP: Final = 1  # calls: a prompt may take seconds

Ids = NDArray[np.int32]


@dataclass(frozen=True)
class _Phase:
    """One kind of call. `tokens`: those that a call of one sequence is worth."""

    name: str
    latency: str
    speed: str
    new: Ids
    kept: int

    @property
    def tokens(self) -> int:
        return int(self.new.size)

    @property
    def rows(self) -> int:
        return len(self.new)


def writes(job: Job) -> bool:
    """Whether a model writes texts in this runtime, whatever the dataset asks of it."""
    task = job.manifest.outputs[0].task if job.manifest.outputs else ""
    asked = {PREDICTING, *task_named(PREDICTING).by_truth.values()}
    return task in asked and job.runtime.can("extend")


def measure_generation(context: Context, tokens: int, rows: int) -> list[Observation]:
    """Speeds at a context of so many tokens, of so many sequences at once."""
    scope = context_scope(tokens, rows)
    context.progress.begin(context.job.title, f"tokens per second, {tokens:,} tokens", None)
    try:
        return list(_measured(context, tokens, rows))
    except (ModelError, UnsupportedAbility) as error:
        return [
            unavailable(name, str(error), scope, unit)
            for name, unit in ((FIRST, "s"), (PREFILL, SPEED), (FURTHER, "s"), (DECODE, SPEED), (MEMORY, "B"))
        ]
    finally:
        context.progress.end()


def _measured(context: Context, tokens: int, rows: int) -> Iterator[Observation]:
    session = context.subject().session
    prompt = _prompt(context.job, tokens, rows)
    session.extend(prompt, 0)
    phases = (
        _Phase("decode", FURTHER, DECODE, prompt[:, -1:], tokens - 1),
        _Phase("prefill", FIRST, PREFILL, prompt, 0),
    )
    for phase in phases:
        before = cpu_time()
        samples = _sampled(context, session, phase, f"{phase.name}-{tokens}x{rows}")
        timed = _speeds(samples, phase, tokens)
        yield from with_machine(timed, share_of_others(before, cpu_time()))
    yield _energy(context, session, phases[0], tokens)
    yield _memory(context.job, prompt)


def _prompt(job: Job, tokens: int, rows: int) -> Ids:
    declared = job.manifest.inputs[0].tokenizer
    assert declared is not None  # a model of texts has one
    return np.random.default_rng(0).integers(0, declared.vocabulary, (rows, tokens), np.int32)


def _sampled(context: Context, session: Session, phase: _Phase, kind: str) -> LatencySamples:
    """Times of calls, which the run keeps. Another process may have sampled before."""
    store, run = context.store, context.run
    if not store.parts(run.id, kind):
        again = partial(session.repeat_extend, phase.new, phase.kept) if isinstance(session, IsolatedSession) else None
        samples = measure_latency(
            lambda: session.extend(phase.new, phase.kept),
            replace(context.latency, warmup_calls=_WARM_UP),
            repeat=again,
        )
        store.add_part(run.id, kind, 0, samples.table(phase.rows))
    return LatencySamples.from_table(store.table(run.id, kind))


def _speeds(samples: LatencySamples, phase: _Phase, tokens: int) -> Iterator[Observation]:
    for timing in latency_observations(samples, phase.rows):
        if timing.metric != "latency_p50" or timing.value is None:
            continue
        scope = context_scope(tokens, phase.rows, raw=parse_scope(timing.scope).raw)
        details = {**timing.details, "what": _WHAT}
        yield replace(timing, metric=phase.latency, scope=scope, details=details)
        # A median's interval is one of any quantity that only falls with it.
        low, high = (None if end is None else phase.tokens / end for end in (timing.high, timing.low))
        yield Observation(phase.speed, phase.tokens / timing.value, scope, SPEED, low, high, timing.n, details=details)


def _energy(context: Context, session: Session, phase: _Phase, tokens: int) -> Observation:
    """Joules of one written token."""
    device, scope = context.job.options.device, context_scope(tokens, phase.rows)
    seconds = SECONDS if device == "cpu" else GPU_SECONDS
    (found,) = energy_observations(
        lambda: session.extend(phase.new, phase.kept), phase.rows, seconds=seconds, device=device
    )
    each = (None if value is None else value / phase.rows for value in (found.value, found.low, found.high))
    value, low, high = each
    return replace(found, metric=ENERGY, scope=scope, value=value, low=low, high=high)


def _memory(job: Job, prompt: Ids) -> Observation:
    """Memory of a fresh process that has read the prompt: weights, keys and values, and room to compute."""
    with job.open_isolated() as session:
        session.extend(prompt, 0)
        peak = float(session.peak_memory_bytes)
    details = {"what": "resident set, fresh process that has read a prompt"}
    return Observation(MEMORY, peak, context_scope(prompt.shape[1], len(prompt)), "B", details=details)
