"""A summary of every run, kept from one query to the next: only runs that changed since are read again.

To choose the data that most models were measured on, and to see which runs belong together, a query needs eight values
of each run. Reading a hundred thousand runs for that takes a minute, reading their summaries takes a moment.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from zoolens.equivalence.signatures import STAGE, task_of
from zoolens.index.derived import read_derived, write_derived
from zoolens.index.placing import runs_path
from zoolens.store.records import ASIDE, Purpose, Run
from zoolens.store.store import RUNS_AT_ONCE, Store

_ID: Final = slice(2, 18)  # where the id stands in a line: `["0123456789abcdef", …`


@dataclass(frozen=True, slots=True)
class RunSummary:
    """`answered`: it has finished predictions. `trial`: the doctor's, whom nobody asked for."""

    id: str
    model: str
    dataset: str
    stack: str
    attempt: int
    created: str
    inputs: int
    runtime: str
    task: str
    ref: str
    answered: bool
    trial: bool

    @property
    def measured(self) -> bool:
        """It is an evaluation that somebody asked for."""
        return ASIDE not in self.runtime and not self.trial


@dataclass(frozen=True)
class RunTable:
    """All runs, oldest first. `mark`: the last change of the store that is known here."""

    mark: int
    runs: dict[str, RunSummary]

    def measured(self) -> Iterable[RunSummary]:
        return (run for run in self.runs.values() if run.measured)


def run_table(store: Store) -> RunTable:
    """The table as the store is now; the last one that was asked for is kept, since a query asks more than once."""
    path = runs_path(store)
    newest = store.last_change()  # not the table's mark, which stays behind it in PostgreSQL
    if _last and _last[0][:2] == (path, newest):
        return _last[0][2]
    table = _read_table(store, path)
    _last[:] = [(path, newest, table)]
    return table


_last: list[tuple[Path, int, RunTable]] = []


def _read_table(store: Store, path: Path) -> RunTable:
    kept = read_derived(path)
    lines = dict(zip((line[_ID] for line in kept.lines), kept.lines, strict=True))
    mark, changed = store.changed_since(kept.mark)
    for start in range(0, len(changed), RUNS_AT_ONCE):
        for run in store.runs_of(changed[start : start + RUNS_AT_ONCE]):
            lines[run.id] = json.dumps(_values(summary_of(run)))
    runs = (RunSummary(*values) for values in json.loads(f"[{','.join(lines.values())}]"))
    table = RunTable(mark, {run.id: run for run in sorted(runs, key=lambda run: run.created)})
    if changed:
        write_derived(path, mark, lines.values())
    return table


def _values(run: RunSummary) -> list[Any]:
    return [getattr(run, one.name) for one in fields(run)]


def summary_of(run: Run) -> RunSummary:
    return RunSummary(
        id=run.id,
        model=run.key.model,
        dataset=run.key.dataset,
        stack=run.key.stack,
        attempt=run.key.attempt,
        created=run.created.isoformat(),
        inputs=run.dataset.size,
        runtime=run.stack.runtime,
        task=task_of(run) if ASIDE not in run.stack.runtime else "",
        ref=run.ref,
        answered=run.stages.get(STAGE) == "done",
        trial=run.purpose is Purpose.TRIAL,
    )


def chosen_probes(table: RunTable, task: str | None) -> list[str]:
    """Ids of the runs (None: of any task) on the dataset that is meant where none is named (`default_dataset`). Of
    several attempts the last counts."""
    last: dict[tuple[str, str, str], RunSummary] = {}
    for run in table.measured():
        if run.answered and task in (None, run.task):
            key = (run.model, run.dataset, run.stack)
            if key not in last or last[key].attempt < run.attempt:
                last[key] = run
    by_data: dict[str, list[RunSummary]] = {}
    for run in last.values():
        by_data.setdefault(run.dataset, []).append(run)
    chosen = max(by_data, key=lambda data: _worth(by_data[data]), default="")
    return [run.id for run in by_data.get(chosen, ())]


def _worth(runs: Sequence[RunSummary]) -> tuple[int, int, str]:
    """As `default_dataset` judges whole runs: most models, most inputs, the newest."""
    return len({run.ref for run in runs}), runs[0].inputs, max(run.created for run in runs)
