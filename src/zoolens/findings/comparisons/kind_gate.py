"""`--fail-on` of a grid of models × kinds of machine: a figure that is worse on one kind makes a CI job fail.

A condition is written as for `compare`, such as "latency_p50 rise > 10%" or "top1 drop > 1%", about the figure of the
grid. Only differences beyond noise count, and without a kind that all are held against, only those between kinds of
equal hardware: that a small machine is slower than a large one is no regression. "unknown" refuses a grid with cells
that nobody measured, or that cannot be compared. A table without anything to compare passes no gate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.phrases import first_few
from zoolens.base.verdicts import UNKNOWN, Condition, NotKnown
from zoolens.findings.comparisons.gate import ComparisonGate, parse_gate
from zoolens.findings.comparisons.kind_changes import CellOutcome, JudgedGrid

_MOST_NAMED: Final = 5


@dataclass(frozen=True)
class KindGate:
    """One condition on the changes of a grid."""

    condition: ComparisonGate

    def verdict(self, judged: JudgedGrid, /) -> tuple[bool, str]:
        """Whether the condition holds for a change beyond noise, and for which. `NotKnown`: for none, and one cannot be
        judged, or there is none."""
        gate = self.condition
        _refuse_empty(judged)
        metrics = {judged.grid.metric, *(change.metric for change in judged.changes)}
        if gate.metric not in metrics:
            raise UnknownName("metric of this table", gate.metric, metrics)
        changes = [change for change in judged.changes if change.metric == gate.metric]
        clear = [change for change in changes if change.outcome in (CellOutcome.WORSE, CellOutcome.BETTER)]
        found = [change.sentence for change in clear if gate.holds(change.change)]
        unknown = [change.sentence for change in changes if change.outcome is CellOutcome.UNKNOWN]
        unknown += judged.uncompared
        if not found and unknown:
            raise NotKnown(
                f"{first_few(unknown, _MOST_NAMED, between=' ')} A gate on them would prove nothing.",
                hint="Measure them again with --fresh on an idle machine, or name other models.",
            )
        if not changes:
            raise NotKnown(
                f"No two cells with {gate.metric} can be compared: a gate would prove nothing.",
                hint="Evaluate the models on a second kind of equal hardware, or name a kind with --against.",
            )
        return bool(found), f"{gate.text}: {first_few(found, _MOST_NAMED, between=' ')}"


class UnmeasuredGate:
    """The condition "unknown"."""

    def verdict(self, judged: JudgedGrid, /) -> tuple[bool, str]:
        _refuse_empty(judged)
        if judged.unmeasured:
            cells = len(judged.grid.rows) * len(judged.grid.kinds)
            raise NotKnown(
                f"{judged.unmeasured:,} of {cells:,} cells have no figure, or their newest run failed.",
                hint="`zoolens eval … --on each-kind` fills them; --fail-on without 'unknown' judges the others.",
            )
        unknown = [change.sentence for change in judged.changes if change.outcome is CellOutcome.UNKNOWN]
        if unknown:
            raise NotKnown(first_few(unknown, _MOST_NAMED, between=" "))
        return False, f"{UNKNOWN}: every cell was measured"


def _refuse_empty(judged: JudgedGrid) -> None:
    if not judged.grid.rows:
        raise NotKnown("No evaluations fit: a gate would prove nothing.", hint="Look at --data, --runtime and --model.")


def parse_kind_gate(text: str) -> Condition[JudgedGrid]:
    """A condition of a grid."""
    if text.strip() == UNKNOWN:
        return UnmeasuredGate()
    gate = parse_gate(text)
    assert isinstance(gate, ComparisonGate)
    if gate.scope is not None or gate.way is None:
        raise ZoolensError(
            f"{text.strip()!r} is no condition of a table.",
            hint="Write it like 'latency_p50 rise > 10%'; --figure and --batch choose what the table is of.",
        )
    return KindGate(gate)
