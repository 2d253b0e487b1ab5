"""The comparison table of an evaluation, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from zoolens.cli.text import count, figure, stack_label, with_interval
from zoolens.measure.evaluate import Outcome
from zoolens.store.records import Observation
from zoolens.store.store import Store

Found = dict[tuple[str, str], Observation]


def print_outcomes(store: Store, outcomes: Sequence[Outcome], batches: Sequence[int]) -> None:
    from rich.console import Console
    from rich.table import Table

    done = [outcome for outcome in outcomes if outcome.run is not None]
    if not done:
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("run")
    table.add_column("model")
    table.add_column("runtime")
    for name in (
        "top-1 [95 %]",
        "ECE",
        *(f"p50 ×{batch}" for batch in batches),
        "p99 clean / raw",
        "cold",
        "size",
        "params",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for outcome in done:
        table.add_row(*_row(store, outcome, batches))
    console = Console(width=None if Console().is_terminal else 160)
    console.print(table)


def _row(store: Store, outcome: Outcome, batches: Sequence[int]) -> list[str]:
    run = outcome.run
    assert run is not None
    found = observations_by_name(store, run.id)
    first = f"batch={batches[0]}"
    return [
        run.id[:8],
        run.ref.partition("@")[0],
        stack_label(run),
        with_interval(found.get(("top1", ""))),
        _value(found.get(("ece", ""))),
        *(_value(found.get(("latency_p50", f"batch={batch}"))) for batch in batches),
        f"{_value(found.get(('latency_p99', first)))} / {_value(found.get(('latency_p99', first + ',raw')))}",
        _value(found.get(("cold_start", "total"))),
        _value(found.get(("file_size", ""))),
        count(found[("parameters", "")].value) if ("parameters", "") in found else "–",
    ]


def observations_by_name(store: Store, run_id: str) -> Found:
    return {(one.metric, one.scope): one for one in store.observations(run_id)}


def _value(observation: Observation | None) -> str:
    return figure(observation.value, observation.unit) if observation else "–"


def print_json(store: Store, outcomes: Sequence[Outcome], _: Sequence[int]) -> None:
    click.echo(json.dumps([_as_data(store, outcome) for outcome in outcomes], indent=2, default=str))


def _as_data(store: Store, outcome: Outcome) -> dict[str, Any]:
    run = outcome.run
    data: dict[str, Any] = {
        "title": outcome.title,
        "measured": outcome.measured,
        "kept": outcome.kept,
        "errors": outcome.errors,
        "warnings": outcome.warnings,
        "skipped": outcome.skipped,
    }
    if run is not None:
        data |= {
            "run": run.id,
            "model": run.ref,
            "dataset": run.dataset.name,
            "runtime": run.stack.runtime,
            "resolved": run.resolved,
            "observations": [asdict(one) for one in store.observations(run.id)],
        }
    return data
