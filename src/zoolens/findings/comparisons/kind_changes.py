"""How the figures of one model differ between kinds of machine, and whether that is more than noise.

Each cell of the grid is compared with the best one on equal hardware, where the software alone differs; the best of its
hardware with the best of all. Latencies differ where the interval of their factor does not hold 1, which has room for
the spread between sittings. Accuracies are of the same inputs, so that the exact McNemar test on pairs of answers
decides; other metrics of answers by resampling the inputs of both alike. The level of every test is divided by the
number of pairs of cells: of a thousand pairs without a difference, fifty would have p < 0.05, and the best cell is
chosen among all of its row. Where answers were not kept, metrics differ if their intervals have no value in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from zoolens.base.errors import ZoolensError
from zoolens.base.present.figures import figure, has_old_interval, p_value
from zoolens.base.statistics.intervals import Interval
from zoolens.base.statistics.multiplicity import corrected
from zoolens.base.store.records import Observation, is_beside_work
from zoolens.base.store.store import Store
from zoolens.findings.comparisons.compare import Report, compare_runs
from zoolens.findings.comparisons.conditions import incomparable, other_conditions
from zoolens.findings.comparisons.kind_grid import GridCell, GridRow, KindGrid
from zoolens.findings.comparisons.machine_kinds import MachineKind, difference_words
from zoolens.findings.comparisons.machine_share import Step, step_between
from zoolens.findings.measure.run_data import ACCURACY

SIGNIFICANT: Final = 0.05
# Of n inputs on which exactly one of two answers is right, the most one-sided split has p = 2 · 0.5ⁿ: with 5 it is
# 0.0625. Answers are read only where more inputs differ.
_NEVER_SIGNIFICANT: Final = 5
MOST_TESTS: Final = 20  # of a grid that is looked at; each reads the answers of two runs


class CellOutcome(StrEnum):
    """How a cell compares with the one that it is held against."""

    WORSE = "worse"
    BETTER = "better"
    SAME = "same"  # the very same figure
    UNCLEAR = "unclear"  # they differ by no more than the noise
    UNKNOWN = "unknown"  # what was measured does not tell


@dataclass(frozen=True)
class CellChange:
    """`change` is relative for latencies (0.31: takes 1.31 × the time), and a difference for other figures."""

    row: str
    kind: MachineKind
    other: MachineKind  # that it is held against
    outcome: CellOutcome
    change: float
    words: str
    metric: str = ""
    factor: Step | None = None
    amount: str = ""  # of a difference, in its unit
    conditions: tuple[str, ...] = ()  # what differs besides the kinds

    @property
    def same_hardware(self) -> bool:
        return self.kind.same_hardware(self.other)

    @property
    def differs(self) -> str:
        return difference_words(self.kind, self.other, self.conditions)

    @property
    def short(self) -> str:
        """The difference in a cell of a table: "1.31 × the time", "−1.20 points"."""
        if self.factor is not None:
            return f"{self.factor.factor:.3g} × the time"
        if not self.amount:
            return ""
        return f"{'+' if self.change > 0 else '−'}{self.amount}"

    @property
    def sentence(self) -> str:
        """A whole sentence: the model, both kinds, the difference, and what differs between the kinds."""
        where = "" if self.same_hardware else f" on {self.kind.machine_name}"
        there = "on the same kind of machine" if self.same_hardware else f"on {self.other.machine_name}"
        return (
            f"{self.row} in {self.kind.software_name}{where} {self.words} {self.other.software_name} {there}: "
            f"{self.differs}."
        )


class ChangeTests:
    """What tells a difference from noise: a level for all pairs of cells together, and exact tests on the answers of
    two runs, as many as are allowed. `pairs`: how many differences could be found."""

    def __init__(self, store: Store, most: int | None = MOST_TESTS, pairs: int = 1) -> None:
        self._store, self._left = store, most
        self.level = corrected(SIGNIFICANT, max(1, pairs))

    def p_value(self, a: GridCell, b: GridCell, metric: str) -> float | str:
        """The p-value that a metric of the answers is the same in both, or why there is none."""
        assert a.run is not None
        assert b.run is not None
        if self._left == 0:
            return f"not tested here: `zoolens compare {a.run.id[:8]} {b.run.id[:8]}` does"
        if self._left is not None:
            self._left -= 1
        try:
            report = compare_runs(self._store, a.run, b.run, open_files=False)
        except ZoolensError as error:
            return f"not tested: {error}"
        return _p_value(report, metric)


def _p_value(report: Report, metric: str) -> float | str:
    if metric == ACCURACY:
        return "not tested: no answers were kept" if report.answers is None else report.answers.p_value
    judged = [vector.metric for vector in report.vectors if vector.metric is not None and vector.metric.name == metric]
    if not judged:
        return "not tested: no answers were kept"
    found = judged[0].p_value
    return f"not tested: {judged[0].no_interval}" if found is None else found


@dataclass(frozen=True)
class JudgedGrid:
    """A grid, and for each of its rows the changes of its cells by the ids of kinds. `against`: the id of the kind that
    all are held against, instead of the best. A cell without a figure, and one without another to compare it with, has
    no change."""

    grid: KindGrid
    rows: tuple[Mapping[str, CellChange], ...]
    against: str | None = None

    @property
    def changes(self) -> list[CellChange]:
        """The changes that the software makes, or with `against` all."""
        every = [change for row in self.rows for change in row.values()]
        return [change for change in every if self.against is not None or change.same_hardware]

    @property
    def regressions(self) -> list[CellChange]:
        """The changes for the worse, the largest first."""
        worse = [change for change in self.changes if change.outcome is CellOutcome.WORSE]
        return sorted(worse, key=lambda change: -abs(change.change))

    @property
    def unmeasured(self) -> int:
        """Cells without a figure, or of which a newer run failed."""
        kinds = [kind.id for kind in self.grid.kinds]
        cells = [row.cell(kind) for row in self.grid.rows for kind in kinds]
        return sum(cell.value is None or bool(cell.failed_since) for cell in cells)

    @property
    def uncompared(self) -> list[str]:
        """What could be worse and is not known, a sentence each: cells that were run without a figure beside others
        that have one, and with `against` those whose model the other kind has no figure of."""
        return [said for row in self.grid.rows for said in self._uncompared(row)]

    def _uncompared(self, row: GridRow) -> Iterator[str]:
        kinds = {kind.id: kind for kind in self.grid.kinds}
        measured = [kinds[kind] for kind, cell in row.cells.items() if cell.value is not None and kind in kinds]
        for kind_id, cell in row.cells.items():
            kind, reason = kinds.get(kind_id), cell.failed_since or cell.reason
            others = [other for other in measured if other.id != kind_id]
            if kind is None or not reason:
                continue
            if any(other.id == self.against or other.same_hardware(kind) for other in others):
                yield f"{row.name} in {kind.software_name} on {kind.machine_name}: {reason.rstrip('.')}."
        if self.against is not None and measured and row.cell(self.against).value is None:
            yield f"{row.name} has no figure on the kind {self.against}."


def judge_grid(
    store: Store, grid: KindGrid, *, against: str | None = None, most_tests: int | None = MOST_TESTS
) -> JudgedGrid:
    """Compare the cells of each row. `most_tests` bounds how often answers of two runs are read; None: no bound."""
    kinds = {kind.id: kind for kind in grid.kinds}
    tests = ChangeTests(store, most_tests, grid.pairs)
    return JudgedGrid(grid, tuple(dict(row_changes(row, kinds, tests, against)) for row in grid.rows), against)


def row_changes(
    row: GridRow, kinds: Mapping[str, MachineKind], tests: ChangeTests, against: str | None
) -> Iterator[tuple[str, CellChange]]:
    """The changes of a row by the ids of their kinds. `against`: see `JudgedGrid`."""
    measured = {kind: cell for kind, cell in row.cells.items() if cell.value is not None and kind in kinds}
    for kind, cell in measured.items():
        other = _held_against(kind, measured, kinds) if against is None else against
        if other is None or other == kind or other not in measured:
            continue
        yield kind, cell_change(row.name, (kinds[kind], cell), (kinds[other], measured[other]), tests)


def _held_against(kind: str, measured: Mapping[str, GridCell], kinds: Mapping[str, MachineKind]) -> str | None:
    """The best on equal hardware; of that one, the best of all."""
    alike = [other for other in measured if kinds[other].same_hardware(kinds[kind])]
    best = _best(alike or [kind], measured)
    return best if best != kind else _best(list(measured), measured)


def _best(kinds: Sequence[str], measured: Mapping[str, GridCell]) -> str:
    def rank(kind: str) -> tuple[bool, float]:
        observed = measured[kind].observed
        assert observed.value is not None
        return is_beside_work(observed), observed.value if _lower_is_better(measured[kind]) else -observed.value

    return min(kinds, key=rank)


def _lower_is_better(cell: GridCell) -> bool:
    observed = cell.observed
    return observed.unit == "s" or bool(observed.details.get("lower_is_better"))


def cell_change(
    row: str, ours: tuple[MachineKind, GridCell], theirs: tuple[MachineKind, GridCell], tests: ChangeTests
) -> CellChange:
    """How our cell compares with theirs. Both have figures."""
    (kind, cell), (other, reference) = ours, theirs
    assert cell.run is not None
    assert reference.run is not None
    same = CellChange(row, kind, other, CellOutcome.SAME, 0.0, "", cell.observed.metric)
    same = replace(same, conditions=tuple(other_conditions(cell.run, reference.run)))
    if reason := incomparable(cell.run, reference.run) or _incomparable(cell.observed, reference.observed):
        return replace(same, outcome=CellOutcome.UNKNOWN, words=f"cannot be compared, since {reason}, with")
    if cell.observed.unit == "s":
        return _latency_change(same, cell, reference, tests)
    return _quality_change(same, cell, reference, tests)


def _incomparable(ours: Observation, theirs: Observation) -> str:
    if is_beside_work(ours) or is_beside_work(theirs):
        return "others used the machine while it was measured"
    if ours.metric != theirs.metric:
        return f"it has {ours.metric} and the other {theirs.metric}"
    return ""


def _latency_change(same: CellChange, cell: GridCell, reference: GridCell, tests: ChangeTests) -> CellChange:
    a, b = reference.observed, cell.observed
    assert a.value is not None
    assert b.value is not None
    if a.value <= 0 or b.value <= 0:
        return replace(same, outcome=CellOutcome.UNKNOWN, words="has a time of zero and cannot be compared with")
    step = step_between(a, b, confidence=1 - tests.level)
    ends = "" if step.low is None or step.high is None else f" [{step.low:.3g}, {step.high:.3g}]"
    said = f"takes {step.factor:.3g} ×{ends} the time of"
    if step.clear is None:
        outcome, said = CellOutcome.UNKNOWN, f"{said} (of unknown spread)"
    elif not step.clear:
        outcome, said = CellOutcome.UNCLEAR, f"takes {step.factor:.3g} ×{ends}, no more than the spread, the time of"
    else:
        outcome = CellOutcome.WORSE if step.factor > 1 else CellOutcome.BETTER
    return replace(same, outcome=outcome, change=step.factor - 1, words=said, factor=step)


def _quality_change(same: CellChange, cell: GridCell, reference: GridCell, tests: ChangeTests) -> CellChange:
    a, b = reference.observed, cell.observed
    assert a.value is not None
    assert b.value is not None
    change = b.value - a.value
    if change == 0:
        return replace(same, words=f"has the same {b.metric} as")
    amount = f"{100 * abs(change):.2f} points" if b.unit == "fraction" else figure(abs(change), b.unit)
    said = f"has {amount} {'more' if change > 0 else 'less'} {b.metric}"
    outcome, why = _judged_quality(cell, reference, change, tests)
    return replace(same, outcome=outcome, change=change, words=f"{said} ({why}) than", amount=amount)


def _judged_quality(cell: GridCell, reference: GridCell, change: float, tests: ChangeTests) -> tuple[CellOutcome, str]:
    """Whether a change is more than chance, and why we say so."""
    a, b = reference.observed, cell.observed
    clear = CellOutcome.WORSE if (change > 0) == _lower_is_better(cell) else CellOutcome.BETTER
    if b.metric == ACCURACY and b.n and a.n == b.n:
        inputs = round(abs(change) * b.n)
        if inputs <= _NEVER_SIGNIFICANT:
            return CellOutcome.UNCLEAR, f"{inputs} of {b.n:,} inputs, no more than chance"
    p = tests.p_value(reference, cell, b.metric)
    if not isinstance(p, str):
        words = f"{'exact McNemar' if b.metric == ACCURACY else 'paired'} p = {p_value(p)}"
        return (clear, words) if p < tests.level else (CellOutcome.UNCLEAR, f"{words}, no more than chance")
    ours, theirs = _interval(b), _interval(a)
    if b.metric == ACCURACY or ours is None or theirs is None:
        return CellOutcome.UNKNOWN, p
    apart = ours.high < theirs.low or theirs.high < ours.low
    return (clear, "the intervals do not overlap") if apart else (CellOutcome.UNKNOWN, f"the intervals overlap; {p}")


def _interval(observed: Observation) -> Interval | None:
    """The interval of a figure; None where it promises nothing: a range, one of before it was right, or one without
    width, since nobody knows what an estimate without spread would be on other inputs."""
    if observed.low is None or observed.high is None or observed.low >= observed.high:
        return None
    if has_old_interval(observed) or observed.details.get("interval") == "range":
        return None
    return Interval(observed.low, observed.high)
