"""`zoolens runs --pool`: runs of one kind of machine, and what they say together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from zoolens.base.present.figures import NOTHING, stack_label, with_interval
from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import echo_prose, print_table
from zoolens.findings.comparisons.pooled_runs import PooledRuns, PooledTime, answer_words, time_words
from zoolens.findings.measure.run_data import main_figure, run_facts

if TYPE_CHECKING:
    from zoolens.base.store.records import Run

_COLUMNS = (
    Column("model", keep=10),
    Column("dataset", keep=3),
    Column("runtime", keep=9),
    Column("machine", keep=4),
    Column("runs", "number", keep=8),
    Column("machines", "number", keep=5),
    Column("p50", "number", keep=7),
)


def print_pooled(pooled: Sequence[PooledRuns]) -> None:
    print_table(list(_COLUMNS), [_row(one) for one in pooled])
    for one in pooled:
        for words in _remarks(one):
            echo_prose(f"{_newest(one).ref} in {stack_label(_newest(one))}: {words}")


def pooled_data(pooled: Sequence[PooledRuns]) -> list[dict[str, Any]]:
    """For --json."""
    return [
        {
            "model": _newest(one).ref,
            "dataset": _newest(one).dataset.name,
            "runs": [run_facts(run) for run in one.runs],
            "machines": list(one.machines),
            "times": [_time_data(time) for time in one.times],
            "answers": None if one.answers is None else [asdict(answer) for answer in one.answers],
            "unread": list(one.unread),
        }
        for one in pooled
    ]


def _time_data(time: PooledTime) -> dict[str, Any]:
    return {
        "metric": time.metric,
        "scope": time.scope,
        "agrees": time.agrees,
        "pooled": None if time.pooled is None else asdict(time.pooled),
        "each": [{"run": one.run, "machine": one.machine, "value": one.value} for one in time.times],
        "outlying": [one.run for one in time.outlying],
        "disturbed": time.disturbed,
    }


def _newest(pooled: PooledRuns) -> Run:
    return pooled.runs[0]


def _row(pooled: PooledRuns) -> list[str]:
    run = _newest(pooled)
    cpu = (run.stack.identity.get("machine") or {}).get("cpu")
    machines = str(len(pooled.machines)) if pooled.machines else NOTHING
    return [
        run.ref,
        run.dataset.name,
        stack_label(run),
        str(cpu or NOTHING),
        str(len(pooled.runs)),
        machines,
        _p50(pooled),
    ]


def _p50(pooled: PooledRuns) -> str:
    """The time of one input where it was measured, else that of the first batch size."""
    if not pooled.times:
        return NOTHING
    shown = {time.scope: time for time in pooled.times}
    one = main_figure([time.times[0].observation for time in pooled.times if time.times], pooled.times[0].metric)
    time = shown[one.scope] if one is not None else pooled.times[0]
    if time.pooled is None:
        return "not pooled" if time.times else NOTHING
    return with_interval(time.pooled)


def _remarks(pooled: PooledRuns) -> Iterator[str]:
    for time in pooled.times:
        if time.pooled is None or (time.disturbed and len(pooled.runs) > 1):
            yield time_words(time)
    yield from map(answer_words, pooled.answers or ())
    for why in pooled.unread:
        yield f"Answers were not compared: {why}"
