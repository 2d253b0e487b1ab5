"""Two runs of one model on other machines and in other software: how much of the difference is the machine?

The answer is in the cells of the table machine × software. Between A and B lie two of them: the machine of A with the
software of B, and the other way round. Where one was measured, the difference splits into a step of the machine and a
step of the software; where both were, each step was measured twice, and both are told. Steps are factors, since times
multiply: a machine that takes 0.6 of the time does so for a fast and for a slow runtime.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from zoolens.base.store.records import Observation, Run
from zoolens.base.store.store import Store

METRIC: Final = "latency_p50"
_MACHINE: Final = "machine"  # of a stack's identity
_ACCELERATOR: Final = "accelerator"
_SETTINGS: Final = ("driver", "settings", "unknown")  # of an accelerator, that are software


@dataclass(frozen=True)
class Step:
    """How many times as long it takes from one cell to another, with the interval that the two medians' intervals make;
    None: one of them has none."""

    factor: float
    low: float | None
    high: float | None
    cell: str  # the run between A and B that tells it

    @property
    def clear(self) -> bool | None:
        """Whether the factor is not 1. None: there is no interval that would tell."""
        return None if self.low is None or self.high is None else not self.low <= 1 <= self.high


@dataclass(frozen=True)
class MachineShare:
    """One figure. `machine` and `software` have a step for each cell that was measured; both empty: none was."""

    metric: str
    scope: str
    whole: Step
    machine: tuple[Step, ...]
    software: tuple[Step, ...]

    @property
    def share(self) -> float | None:
        """The machine's part of the difference, in logarithms, as the mean over the cells. None: nobody measured a
        cell, the difference is not clear, or the steps do not go the way of the whole, so that they are no parts."""
        if not self.machine or not self.whole.clear:
            return None
        steps = [math.log(step.factor) for step in (*self.machine, *self.software)]
        whole = math.log(self.whole.factor)
        if any(step * whole < 0 for step in steps):
            return None
        return sum(math.log(step.factor) for step in self.machine) / len(self.machine) / whole


def machine_shares(store: Store, a: Run, b: Run) -> tuple[MachineShare, ...]:
    """Returns, for runs of one model that differ in machine and in software, what each does to the latency. Empty: they
    do not differ in both."""
    if a.model.fingerprint != b.model.fingerprint or not _both_differ(a, b):
        return ()
    cells = [_cell(store, a, a, b), _cell(store, a, b, a)]
    ours, theirs = (_latencies(store, run) for run in (a, b))
    between = [None if cell is None else (cell.id, _latencies(store, cell)) for cell in cells]
    return tuple(
        MachineShare(METRIC, scope, _step(ours[scope], theirs[scope], ""), *_steps(scope, ours, theirs, between))
        for scope in ours
        if scope in theirs
    )


_SPREAD: Final = {True: "", False: " (no more than the spread)", None: " (of unknown spread)"}


def share_words(share: MachineShare) -> str:
    """What a share says, in one or two sentences."""
    about = f"{share.metric} {share.scope}".strip()
    whole = f"{about}: B takes {share.whole.factor:.3g} × the time of A{_SPREAD[share.whole.clear]}"
    if not share.machine:
        return f"{whole}. How much of that the machine does is not known: nobody measured A's software on B's machine."
    parts = f"{whole}; {_step_words('machine', share.machine)}, {_step_words('software', share.software)}"
    part = share.share
    if part is None:
        return f"{parts}."
    return f"{parts}: {100 * part:.0f} % of the difference is the machine, {100 - 100 * part:.0f} % the software."


def _step_words(name: str, steps: tuple[Step, ...]) -> str:
    told = " or ".join(f"× {step.factor:.3g}{_SPREAD[step.clear]}" for step in steps)
    cells = ", ".join(dict.fromkeys(step.cell[:8] for step in steps))
    return f"the {name} {told} (run {cells})"


def _both_differ(a: Run, b: Run) -> bool:
    machines, programs = ([part(run) for run in (a, b)] for part in (_machine, _software))
    known = all(machine[_MACHINE] for machine in machines)
    return known and machines[0] != machines[1] and programs[0] != programs[1]


def _machine(run: Run) -> dict[str, Any]:
    accelerator = run.stack.identity.get(_ACCELERATOR) or {}
    parts = {name: value for name, value in accelerator.items() if name not in _SETTINGS}
    return {_MACHINE: run.stack.identity.get(_MACHINE), _ACCELERATOR: parts}


def _software(run: Run) -> dict[str, Any]:
    accelerator = run.stack.identity.get(_ACCELERATOR) or {}
    parts = {name: value for name, value in accelerator.items() if name in _SETTINGS}
    rest = {name: value for name, value in run.stack.identity.items() if name not in (_MACHINE, _ACCELERATOR)}
    return {**rest, _ACCELERATOR: parts}


def _cell(store: Store, subject: Run, machine: Run, software: Run) -> Run | None:
    """The newest run of the subject's model and data on one's machine in the other's software."""
    for run in store.runs(model=subject.ref):
        same = run.key.model == subject.key.model and run.key.dataset == subject.key.dataset
        if same and _machine(run) == _machine(machine) and _software(run) == _software(software):
            return run
    return None


def _latencies(store: Store, run: Run) -> dict[str, Any]:
    found = store.observations(run.id, metric=METRIC)
    return {one.scope: one for one in found if one.value is not None and one.value > 0 and "raw" not in one.scope}


_Cells = Sequence[tuple[str, Mapping[str, Observation]] | None]


def _steps(
    scope: str, ours: Mapping[str, Observation], theirs: Mapping[str, Observation], between: _Cells
) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """The steps of the machine and those of the software, one of each for every cell that has the figure."""
    a, b = ours[scope], theirs[scope]
    machine, software = [], []
    for first_is_software, cell in zip((True, False), between, strict=True):
        if cell is None or scope not in cell[1]:
            continue
        middle = cell[1][scope]
        steps = (_step(a, middle, cell[0]), _step(middle, b, cell[0]))
        software.append(steps[0] if first_is_software else steps[1])
        machine.append(steps[1] if first_is_software else steps[0])
    return tuple(machine), tuple(software)


def _step(before: Observation, after: Observation, cell: str) -> Step:
    assert before.value is not None
    assert after.value is not None
    ends = list(_ends(before, after))
    low, high = ends if ends else (None, None)
    return Step(after.value / before.value, low, high, cell)


def _ends(before: Observation, after: Observation) -> Iterator[float]:
    """The factor if both medians lie at the ends of their intervals that are least or most apart."""
    known = (before.low, before.high, after.low, after.high)
    if all(end is not None and end > 0 for end in known):
        before_low, before_high, after_low, after_high = (float(end) for end in known if end is not None)
        yield after_low / before_high
        yield after_high / before_low
