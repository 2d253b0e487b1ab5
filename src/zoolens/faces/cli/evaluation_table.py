"""The comparison table of an evaluation, and the same as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from zoolens.base.present.figures import count, disturbed_mark, figure, network_mark, stack_label
from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import echo_json, print_table
from zoolens.base.store.records import ROUND_TRIPS, Observation, Run
from zoolens.base.store.scopes import batch_scope
from zoolens.base.store.store import Store
from zoolens.findings.measure.class_order import judged_right
from zoolens.findings.measure.generation_table import generation_table
from zoolens.findings.measure.plan import Outcome
from zoolens.findings.measure.run_data import judged_figure, judged_heading

Found = dict[tuple[str, str], Observation]
_CALIBRATION: Final = "ece"  # a column only where a run has it: texts and boxes have none


def print_outcomes(store: Store, outcomes: Sequence[Outcome], batches: Sequence[int]) -> None:
    runs = [outcome.run for outcome in outcomes if outcome.run is not None]
    known = {run.id: judged_right(run, store.observations(run.id)) for run in runs}
    calibrated = any(each.metric == _CALIBRATION for found in known.values() for each in found)
    rows = [_row(run, known[run.id], batches, calibrated=calibrated) for run in runs]
    if rows:
        columns = [
            Column("run", keep=8),
            Column("model", keep=10),
            Column("runtime", keep=9),
            Column(judged_heading(runs), "number", keep=7),
            *([Column("ECE", "number", keep=2)] if calibrated else []),
            *(Column(f"p50 ×{batch}", kind="number", keep=6) for batch in batches),
            Column("p99 clean / raw", "number", keep=3),
            Column("cold", "number", keep=1),
            Column("size", "number", keep=5),
            Column("params", "number", keep=4),
        ]
        print_table(columns, rows)
    _print_speeds(known)


def _print_speeds(known: Mapping[str, Sequence[Observation]]) -> None:
    """How fast language models read and write; nothing where no run has such figures."""
    tables = {run: generation_table(observations) for run, observations in known.items()}
    rows = [(run[:8], *row) for run, table in tables.items() for row in table.rows]
    if rows:
        columns = next(iter(tables.values())).columns
        print_table([Column("run", keep=8), *columns], rows)


def _row(run: Run, known: Sequence[Observation], batches: Sequence[int], *, calibrated: bool) -> list[str]:
    observations = {(observation.metric, observation.scope): observation for observation in known}
    size = batches[0] if batches else 1
    return [
        run.id[:8],
        run.ref.partition("@")[0],
        stack_label(run),
        judged_figure(run, known),
        *([_value(observations.get((_CALIBRATION, "")))] if calibrated else []),
        *(_timing(observations, "latency_p50", batch_scope(batch)) for batch in batches),
        f"{_timing(observations, 'latency_p99', batch_scope(size))} / "
        f"{_timing(observations, 'latency_p99', batch_scope(size, raw=True))}",
        _value(observations.get(("cold_start", "total"))),
        _value(observations.get(("file_size", ""))),
        count(observations[("parameters", "")].value) if ("parameters", "") in observations else "–",
    ]


def _timing(observations: Found, metric: str, scope: str) -> str:
    """The latency, or of a model behind a server the round trip with a mark."""
    round_trip = observations.get((ROUND_TRIPS[metric], scope))
    if round_trip is not None:
        return _value(round_trip) + network_mark(round_trip)
    return _value(observations.get((metric, scope)))


def _value(observation: Observation | None) -> str:
    return figure(observation.value, observation.unit) + disturbed_mark(observation) if observation else "–"


def print_json(store: Store, outcomes: Sequence[Outcome], _: Sequence[int]) -> None:
    echo_json([_as_data(store, outcome) for outcome in outcomes])


def _as_data(store: Store, outcome: Outcome) -> dict[str, Any]:
    data = asdict(replace(outcome, run=None))
    del data["run"]
    if (run := outcome.run) is not None:
        data |= {
            "run": run.id,
            "model": run.ref,
            "dataset": run.dataset.name,
            "runtime": run.stack.runtime,
            "resolved": run.resolved,
            "observations": [asdict(observation) for observation in store.observations(run.id)],
        }
    return data
