"""The latency table: how long single operators take in a runtime on this machine, measured once and kept in the store.

It is what the latency of a network that nobody has run, or that has no weights here, is estimated from. An operator
is a model of one layer; its run hangs on a stack "operator:RUNTIME", which the store lists only when it is asked for.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from zoolens.base import plugins
from zoolens.base.errors import ModelError, UnsupportedAbility, ZoolensError
from zoolens.base.progress import Progress, Silent
from zoolens.base.store.records import DatasetRecord, ModelRecord, RunKey, RunKind, StackRecord, Stage, fingerprint
from zoolens.base.store.scopes import batch_scope
from zoolens.base.store.store import Store
from zoolens.findings.graph.cost.fused_operators import FusedOperator, operators
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.onnx_writer import write_onnx
from zoolens.findings.measure.latency import LatencySamples, LatencySettings, latency_observations, measure_latency
from zoolens.findings.measure.lock import resolve_stack
from zoolens.inventory.runtimes.isolation.isolated import opener
from zoolens.inventory.runtimes.isolation.isolated_session import IsolatedSession
from zoolens.inventory.runtimes.runtime import ModelFiles, Options, Runtime, Session

PREFIX: Final = "operator:"
STAGE: Final = Stage.LATENCY
DATASET: Final = DatasetRecord(fingerprint(["single operators"]), "single operators", 0)
SETTINGS: Final = LatencySettings(precision=0.05, min_samples=30, max_samples=500, max_seconds=0.3, warmup_seconds=0.01)
NOTHING: Final = FusedOperator((Node("nothing", "identity", ("x",), (1, 1)),), (Node("x", "input", (), (1, 1)),))


@dataclass(frozen=True)
class LatencyTable:
    """Seconds by operator key, less the time of a call that computes nothing; `call` is that time."""

    stack: str  # runtime and version
    call: float
    seconds: Mapping[str, float]
    failed: Mapping[str, str]  # key -> why it could not be measured


def latency_table(
    graphs: Iterable[Graph], store: Store, *, runtime: str = "onnxruntime", progress: Progress | None = None
) -> LatencyTable:
    """The table for every operator of these graphs. What the store has is not measured again; what failed is tried."""
    library = _runtime(runtime)
    stack = _stack(library)
    wanted = {layer.key: layer for graph in graphs for layer in operators(graph)}
    known = _known(store, stack)
    missing = [layer for key, layer in {NOTHING.key: NOTHING, **wanted}.items() if key not in known]
    watcher = progress or Silent()
    watcher.begin(f"operators in {runtime}", "latency", len(missing))
    try:
        with tempfile.TemporaryDirectory(prefix="zoolens-operators-") as name, opener(library, Path(name)) as opened:
            for layer in missing:
                known[layer.key] = _measured(store, stack, layer, partial(_sampled, opened, layer, Path(name)))
                watcher.advance(1)
    finally:
        watcher.end()
    call = known[NOTHING.key]
    if isinstance(call, str):
        raise ModelError(f"No operator can be timed in {runtime}: {call}")
    times = {key: known[key] for key in wanted}
    seconds = {key: max(value - call, 0.0) for key, value in times.items() if isinstance(value, float)}
    return LatencyTable(
        f"{runtime} {stack.version}", call, seconds, {k: v for k, v in times.items() if isinstance(v, str)}
    )


def _runtime(name: str) -> Runtime:
    runtime: Runtime = plugins.load(plugins.RUNTIMES, name)()
    if "onnx" not in runtime.formats:
        raise UnsupportedAbility(name, "time_operators", "they are written as ONNX, which it does not run.")
    return runtime


def _stack(runtime: Runtime) -> StackRecord:
    stack = resolve_stack(runtime, Options(), None)
    return StackRecord(fingerprint([PREFIX, stack.fingerprint]), f"{PREFIX}{runtime.name}", stack.identity, stack.lock)


def _known(store: Store, stack: StackRecord) -> dict[str, float | str]:
    measured_here = store.runs(kind=RunKind.OPERATOR, runtime=stack.runtime)
    runs = {run.id: run for run in measured_here if run.key.stack == stack.fingerprint}
    measured = store.observations_by_run(list(runs), metrics=["latency_p50"])
    return {
        str(runs[run_id].model.manifest["key"]): observation.value
        for run_id, observations in measured.items()
        for observation in observations
        if observation.scope == batch_scope(1) and observation.value is not None
    }


def _measured(
    store: Store, stack: StackRecord, operator: FusedOperator, sample: Callable[[], LatencySamples]
) -> float | str:
    """Seconds, or why it cannot be said; both are kept."""
    content = {"key": operator.key, "operator": operator.describe()}
    model = ModelRecord(fingerprint(["operator", operator.key]), f"{PREFIX}{operator.key[:12]}", "onnx", content)
    run_id = RunKey(model.fingerprint, DATASET.fingerprint, stack.fingerprint).id
    store.begin_run(model, DATASET, stack, kind=RunKind.OPERATOR)
    try:
        observations = list(latency_observations(sample(), 1))
    except ZoolensError as error:
        store.fail_stage(run_id, STAGE, str(error))
        return str(error)
    store.finish_stage(run_id, STAGE, observations)
    return next(float(observation.value or 0.0) for observation in observations if observation.metric == "latency_p50")


def _sampled(opened: Callable[[ModelFiles], Session], operator: FusedOperator, folder: Path) -> LatencySamples:
    generator = np.random.default_rng(0)
    path = write_onnx(operator.as_graph(), folder / "operator.onnx")
    with opened(ModelFiles("onnx", {"model": path})) as session:
        feeds = {
            spec.name: generator.standard_normal([extent or 1 for extent in spec.shape]).astype(spec.dtype)
            for spec in session.inputs
        }
        repeat = partial(session.repeat, feeds) if isinstance(session, IsolatedSession) else None
        return measure_latency(lambda: session.predict(feeds), SETTINGS, repeat=repeat)
