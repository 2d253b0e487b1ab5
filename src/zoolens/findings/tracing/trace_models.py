"""Trace a model from Python.

import zoolens
traces = zoolens.trace("demo:lenet-wide", runtimes=["onnxruntime", "openvino"], level="layer")
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zoolens.base.engine.sandbox import trusting
from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.progress import Progress, Silent
from zoolens.base.store.store import Store, borrowed_store
from zoolens.findings.tracing.measuring import TraceSettings
from zoolens.findings.tracing.recorder import current_context
from zoolens.findings.tracing.spans import Level
from zoolens.findings.tracing.stored import Trace, load_trace
from zoolens.findings.tracing.trace_jobs import carry_out
from zoolens.findings.tracing.trace_plan import TracePlan
from zoolens.inventory.catalog.lookup import Model, model_text
from zoolens.inventory.catalog.sessions import RunOptions
from zoolens.inventory.datasets.opening import Data, named_data
from zoolens.inventory.runtimes.runtime import Options


def trace(
    model: Model,
    data: Data | None = None,
    *,
    runtimes: Sequence[str] | str = (),
    level: str = "layer",
    batch: int = 1,
    repeats: int = 50,
    seconds: float = 10.0,
    environments: Sequence[str] | str = (),
    threads: int | None = None,
    device: str = "cpu",
    precision: str = "default",
    mode: str = "default",
    limit: int | None = None,
    seed: int | None = None,
    fresh: bool = False,
    isolate: bool = False,
    allow_code: bool = False,
    trust: bool = False,
    traceparent: str | None = None,
    store: Store | str | Path | None = None,
    progress: Progress | None = None,
) -> list[Trace]:
    """Say where the time of a model goes in every runtime asked for (default: every installed one that can run it).

    `level` is pipeline, model, layer, library or system, and includes those before it. Without `data` the inputs are
    made up. A runtime that cannot be observed so deep gives a trace that says so in `missing`; ZoolensError where the
    model could be traced in none.
    """
    chosen = named_data(data, limit, seed)
    plan = TracePlan(
        model,
        chosen.data,
        chosen.limit,
        chosen.seed,
        RunOptions(
            runtimes=_several(runtimes),
            environments=_several(environments),
            options=Options(threads, device, precision, mode),
            isolate=isolate,
            allow_code=allow_code,
        ),
        level_named(level),
        batch,
        TraceSettings(repeats, seconds),
        fresh,
        current_context(traceparent),
    )
    with trusting(trust), borrowed_store(store) as opened:
        outcomes = list(carry_out(plan, opened, progress or Silent()))
        traces = [load_trace(outcome.run, store=opened) for outcome in outcomes if outcome.run is not None]
    if not traces:
        reasons = [reason for outcome in outcomes for reason in (*outcome.errors, outcome.skipped) if reason]
        raise ZoolensError(
            f"{model_text(plan.model)} could not be traced: {' '.join(reasons) or 'there is no such model.'}"
        )
    return traces


def level_named(name: str) -> Level:
    try:
        return Level(name)
    except ValueError:
        raise UnknownName("level", name, [str(level) for level in Level]) from None


def _several(names: Sequence[str] | str) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
