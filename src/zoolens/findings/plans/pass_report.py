"""What changed between two passes of a plan, and between the kinds of machine of one pass, with alarms.

Figures are compared as in the table of models × kinds (`kind_changes.py`): a latency by the interval of its factor, an
accuracy by the exact test on pairs of answers, anything else by intervals. What is within noise is no change, and what
cannot be judged is said to be unknown. The level of the tests is divided by the number of comparisons, so that of
twenty passes in which nothing changed, about one names a difference, however many cells they have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from zoolens.base.errors import GateFailed, UnknownName, ZoolensError
from zoolens.base.phrases import first_few
from zoolens.base.store.store import Store
from zoolens.base.verdicts import NotKnown
from zoolens.findings.comparisons.gate import ComparisonGate, parse_gate
from zoolens.findings.comparisons.kind_changes import CellChange, CellOutcome, ChangeTests, cell_change, row_changes
from zoolens.findings.comparisons.kind_grid import (
    RUNS_OF_A_CELL,
    GridCell,
    GridRow,
    GridWanted,
    cell_of,
    figure_metrics,
)
from zoolens.findings.comparisons.machine_kinds import MachineKind
from zoolens.findings.comparisons.machine_share import METRIC as LATENCY
from zoolens.findings.measure.run_data import main_metric
from zoolens.findings.plans.plan_file import KIND_DISAPPEARED, NEW_FAILURE, FleetPlan
from zoolens.findings.plans.plan_pass import Cell, Failure, Passed, kind_of_run

_MOST_NAMED: Final = 10
MOST_AGAIN: Final = 20  # cells that are measured again: where more are slower, it is no matter of single sittings


class ChangeKind(StrEnum):
    """In the order in which they are told."""

    WORSE = "worse"
    FAILED = "new failure"
    DISAPPEARED = "kind disappeared"
    GONE = "gone"
    UNKNOWN = "unknown"
    BETTER = "better"
    NEW = "new"
    MENDED = "no longer fails"


@dataclass(frozen=True)
class Change:
    """One difference, as a sentence. `metric` and `amount`, for figures: as in `CellChange`. `runs`: of the last pass
    and of this one."""

    kind: ChangeKind
    sentence: str
    metric: str = ""
    amount: float = 0.0
    runs: tuple[str, ...] = ()


@dataclass(frozen=True)
class PassReport:
    """`since`: seconds since the last pass ended; None: there was none. `between_kinds`: regressions within this pass,
    between kinds of equal hardware. `metrics`: what its figures are called."""

    plan: str
    cells: int
    since: float | None
    unchanged: int  # cells whose figures are the same, or differ by no more than noise
    changes: tuple[Change, ...]
    between_kinds: tuple[Change, ...]
    failures: tuple[Failure, ...]
    not_done: tuple[Failure, ...]
    metrics: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def report_of(plan: FleetPlan, passed: Passed, store: Store) -> PassReport:
    """What changed since the last pass that was finished."""
    this, last = list(passed.this.cells.values()), [] if passed.last is None else list(passed.last.cells.values())
    pairs, new, gone = _matched(last, this)
    rows = _rows(this)
    figures = _Figures(store, plan, [*last, *this])
    tests = ChangeTests(store, None, len(figures.wanted) * (len(pairs) + sum(map(_pairs_of, rows))))
    changes: list[Change] = []
    unchanged = 0
    for before, after in pairs:
        found = list(_cell_changes(figures, before, after, tests))
        unchanged += not found
        changes += found
    if passed.last is not None:
        changes += [Change(ChangeKind.NEW, f"{_title(cell)} is new.", runs=(cell.run,)) for cell in new]
        complete = not passed.this.not_done
        changes += _gone(gone, passed) if complete else []
        changes += _failures(passed)
    return PassReport(
        plan.name,
        len(this),
        passed.since,
        unchanged,
        tuple(sorted(changes, key=lambda change: list(ChangeKind).index(change.kind))),
        tuple(_between_kinds(figures, rows, tests)),
        tuple(passed.this.failures),
        tuple(passed.this.not_done),
        figures.metrics(this),
        passed.remarks,
    )


def suspected(passed: Passed, report: PassReport) -> set[str]:
    """The runs of cells of this pass whose latency is told as worse, and is to be measured again before it is told: the
    largest changes, of cells that were not measured often enough yet."""
    latencies = [change for change in (*report.changes, *report.between_kinds) if change.metric == LATENCY]
    worse = sorted((one for one in latencies if one.kind is ChangeKind.WORSE), key=lambda one: -one.amount)
    cells = {run: cell for cell in passed.this.cells.values() for run in (cell.run, *cell.again)}
    meant = [cells[change.runs[-1]] for change in worse if change.runs and change.runs[-1] in cells]
    unsure = dict.fromkeys(cell.run for cell in meant if len(cell.again) < RUNS_OF_A_CELL - 1)
    return set(list(unsure)[:MOST_AGAIN])


def enforce_report(plan: FleetPlan, report: PassReport) -> None:
    """Raises GateFailed where an alarm holds, then an error where something failed, then NotKnown where something was
    not done or cannot be judged."""
    changes = (*report.changes, *report.between_kinds)
    fired, unsure = [], []
    for alarm in plan.alarms:
        found, unknown = _judged(alarm, changes)
        fired += [f"{alarm}: {change.sentence}" for change in found]
        unsure += unknown
    unheard = [gate.metric for gate in _gates(plan) if report.metrics and gate.metric not in report.metrics]
    if fired:
        raise GateFailed(f"Alarm: {first_few(list(dict.fromkeys(fired)), _MOST_NAMED, between=' ')}")
    if report.failures:
        told = list(map(failure_sentence, report.failures))
        raise ZoolensError(f"{_evaluations(told)} failed. {first_few(told, _MOST_NAMED, between=' ')}")
    if unheard:
        raise UnknownName("figure of this plan (for an alarm)", unheard[0], report.metrics)
    if report.not_done:
        told = [one.title for one in report.not_done]
        raise NotKnown(
            f"{_evaluations(told)} {'was' if len(told) == 1 else 'were'} not done for want of budget: "
            f"{first_few(told, _MOST_NAMED)}.",
            hint="The same command again goes on with this pass.",
        )
    if unsure:
        told = list(dict.fromkeys(change.sentence for change in unsure))
        raise NotKnown(f"An alarm cannot be judged: {first_few(told, _MOST_NAMED, between=' ')}")


def _evaluations(told: Sequence[str]) -> str:
    return f"{len(told):,} evaluation{'' if len(told) == 1 else 's'}"


def _gates(plan: FleetPlan) -> Iterator[ComparisonGate]:
    for alarm in plan.alarms:
        if alarm not in (NEW_FAILURE, KIND_DISAPPEARED):
            gate = parse_gate(alarm)
            assert isinstance(gate, ComparisonGate)
            yield gate


def _judged(alarm: str, changes: Sequence[Change]) -> tuple[list[Change], list[Change]]:
    """The changes for which an alarm holds, and those for which nobody can tell."""
    if alarm in (NEW_FAILURE, KIND_DISAPPEARED):
        return [change for change in changes if change.kind == alarm], []
    gate = parse_gate(alarm)
    assert isinstance(gate, ComparisonGate)
    clear = (ChangeKind.WORSE, ChangeKind.BETTER)
    found = [change for change in changes if change.kind in clear and change.metric == gate.metric]
    # Of a run that is gone, no figure is known.
    unknown = [one for one in changes if one.kind is ChangeKind.UNKNOWN and one.metric in ("", gate.metric)]
    return [change for change in found if gate.holds(change.amount)], unknown


class _Figures:
    """The figures of the runs of these cells, read at once."""

    def __init__(self, store: Store, plan: FleetPlan, cells: Sequence[Cell]) -> None:
        batches = [GridWanted("", "", "latency", batch) for batch in plan.options.batch]
        self.wanted = [*([GridWanted("", "")] if plan.options.accuracy else []), *batches]
        ids = dict.fromkeys(run for cell in cells for run in (cell.run, *cell.again))
        self._runs = {run.id: run for run in store.runs_of(list(ids))}
        metrics = figure_metrics(self._runs.values(), {one.quantity for one in self.wanted})
        self._known = store.observations_by_run(list(self._runs), metrics=metrics) if self._runs else {}

    def cells(self, cell: Cell) -> list[tuple[MachineKind, GridCell]]:
        """For each figure of the plan; nothing where somebody removed the run, or it is in another store."""
        if cell.run not in self._runs:
            return []
        newest_first = [self._runs[run] for run in (*reversed(cell.again), cell.run) if run in self._runs]
        known = [(run, self._known.get(run.id, ())) for run in newest_first]
        kind = kind_of_run(self._runs[cell.run])
        return [(kind, cell_of(known, one)) for one in self.wanted]

    def metrics(self, cells: Iterable[Cell]) -> tuple[str, ...]:
        """What the figures of these cells are called, or would be."""
        names: set[str] = set()
        for cell in cells:
            for (_, found), wanted in zip(self.cells(cell), self.wanted, strict=False):
                names |= set() if found.figure is None else {found.figure.metric}
                if found.run is not None:
                    names.add(main_metric(found.run) if wanted.quantity == "quality" else LATENCY)
        return tuple(sorted(names))


def _matched(last: Sequence[Cell], this: Sequence[Cell]) -> tuple[list[tuple[Cell, Cell]], list[Cell], list[Cell]]:
    """Cells of both passes that belong together, those that are new and those that are gone. Several kinds of one
    machine, which differ in installed versions, belong together where the kind is the same."""
    before, after = _by_key(last), _by_key(this)
    pairs: list[tuple[Cell, Cell]] = []
    new: list[Cell] = []
    for key, cells in after.items():
        left = before.get(key, [])
        alone = len(cells) == 1 and len(left) == 1
        for cell in cells:
            match = next((one for one in left if alone or one.kind == cell.kind), None)
            if match is None:
                new.append(cell)
            else:
                pairs.append((match, cell))
                left.remove(match)
    return pairs, new, [cell for cells in before.values() for cell in cells]


def _by_key(cells: Iterable[Cell]) -> dict[tuple[str, ...], list[Cell]]:
    found: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.key, []).append(cell)
    return found


def _cell_changes(figures: _Figures, last: Cell, this: Cell, tests: ChangeTests) -> Iterator[Change]:
    if last.run == this.run:
        return
    before, after = figures.cells(last), figures.cells(this)
    if not before or not after:
        which = "this" if before else "the last"
        words = f"{_title(this)}: the run of {which} pass is not in this store."
        yield Change(ChangeKind.UNKNOWN, words, runs=(last.run, this.run))
        return
    for wanted, ours, theirs in zip(figures.wanted, after, before, strict=True):
        batch = f" at batch size {wanted.batch}" if wanted.quantity == "latency" and wanted.batch > 1 else ""
        yield from _figure_change(f"{_title(this)}{batch}", (last, theirs), (this, ours), tests)


_Found = tuple[Cell, tuple[MachineKind, GridCell]]


def _figure_change(title: str, last: _Found, this: _Found, tests: ChangeTests) -> Iterator[Change]:
    (before, theirs), (after, ours) = last, this
    runs = (before.run, after.run)
    if ours[1].value is None or theirs[1].value is None:
        if ours[1].value is not None or theirs[1].value is not None:
            known = ours[1].figure if ours[1].value is not None else theirs[1].figure
            assert known is not None
            missing, which = (ours[1], "this") if ours[1].value is None else (theirs[1], "the last")
            words = f"{title} has no {known.metric} in {which} pass: {missing.reason.rstrip('.')}."
            yield Change(ChangeKind.UNKNOWN, words, known.metric, runs=runs)
        return
    found = cell_change(after.model, ours, theirs, tests)
    if found.outcome in (CellOutcome.SAME, CellOutcome.UNCLEAR):
        return
    other = ours[0].id != theirs[0].id or found.conditions
    differs = f" ({found.differs})" if other else ""
    yield Change(
        ChangeKind(found.outcome.value),
        f"{title} {found.words} the last pass{differs}.",
        found.metric,
        found.change,
        runs,
    )


def _gone(gone: Sequence[Cell], passed: Passed) -> Iterator[Change]:
    """Cells that this pass lacks; a machine that has none at all any more is told once. What failed is told as that."""
    assert passed.last is not None
    known = {cell.machine for which in (passed.this, passed.last) for cell in which.cells.values()}
    failed = {(one.model, one.data, one.place if one.place in known else "") for one in passed.this.failures}
    machines = {cell.machine for cell in passed.this.cells.values()} | {one.place for one in passed.this.failures}
    lacking: dict[str, list[Cell]] = {}
    for cell in gone:
        if not any((cell.model, cell.data, place) in failed for place in (cell.machine, "")):
            lacking.setdefault(cell.machine, []).append(cell)
    for machine, cells in lacking.items():
        if machine in machines:
            yield from (
                Change(ChangeKind.GONE, f"{_title(cell)} is not there any more.", runs=(cell.run,)) for cell in cells
            )
        else:
            count = f"{len(cells)} cell{'s' if len(cells) > 1 else ''}"
            yield Change(ChangeKind.DISAPPEARED, f"Nothing runs on {machine} any more, which had {count}.")


def _failures(passed: Passed) -> Iterator[Change]:
    assert passed.last is not None
    before, now = ({one.key: one for one in which.failures} for which in (passed.last, passed.this))
    for key, failure in now.items():
        if key not in before:
            yield Change(ChangeKind.FAILED, failure_sentence(failure))
    unfinished = {(one.data, one.model, one.place) for one in passed.this.not_done}
    for key, failure in before.items():
        if key not in now and (failure.data, failure.model, failure.place) not in unfinished:
            yield Change(ChangeKind.MENDED, f"{failure_title(failure)} does not fail any more.")


def failure_sentence(failure: Failure) -> str:
    return f"{failure_title(failure)} fails: {failure.error.rstrip('.')}."


def failure_title(failure: Failure) -> str:
    """What failed, on which data and machine, as far as that is known."""
    data = f" on {failure.data}" if failure.data else ""
    return f"{failure.title}{data}{f' on {failure.place}' if failure.place else ''}"


def _rows(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Cells that differ in their machine alone."""
    rows: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        rows.setdefault((cell.model, cell.data, cell.runtime), []).append(cell)
    return list(rows.values())


def _pairs_of(row: Sequence[Cell]) -> int:
    return len(row) * (len(row) - 1) // 2


def _between_kinds(figures: _Figures, rows: Iterable[Sequence[Cell]], tests: ChangeTests) -> Iterator[Change]:
    """What is worse on one kind than on another of equal hardware: the software makes the difference."""
    for alike in rows:
        model = alike[0].model
        read = [figures.cells(cell) for cell in alike]
        for place, wanted in enumerate(figures.wanted):
            found = {figure[place][0].id: figure[place] for figure in read if figure}
            kinds = {name: kind for name, (kind, _) in found.items()}
            batch = f"batch size {wanted.batch}" if wanted.quantity == "latency" and wanted.batch > 1 else ""
            row = GridRow(model, model, batch, {name: cell for name, (_, cell) in found.items()})
            for _, change in row_changes(row, kinds, tests, None):
                if change.same_hardware and change.outcome is CellOutcome.WORSE:
                    yield _between(change, found)


def _between(change: CellChange, found: dict[str, tuple[MachineKind, GridCell]]) -> Change:
    cells = [found[kind.id][1] for kind in (change.other, change.kind)]
    runs = tuple(one.run.id for one in cells if one.run is not None)
    return Change(ChangeKind.WORSE, change.sentence, change.metric, change.change, runs)


def _title(cell: Cell) -> str:
    return f"{cell.model} on {cell.data} in {cell.runtime} on {cell.machine}"
