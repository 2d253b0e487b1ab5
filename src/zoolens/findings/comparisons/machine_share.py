"""Two runs of one model on other machines and in other software: how much of the difference is the machine?

The answer is in the cells of the table machine × software. Between A and B lie two of them: the machine of A with the
software of B, and the other way round. Where one was measured, the difference splits into a step of the machine and a
step of the software; where both were, each step was measured twice, and both are told. Steps are factors, since times
multiply: a machine that takes 0.6 of the time does so for a fast and for a slow runtime.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from zoolens.base.statistics.heterogeneity import Sitting, beyond_its_sitting, time_factor
from zoolens.base.statistics.intervals import CONFIDENCE
from zoolens.base.store.records import Observation, Run, is_beside_work
from zoolens.base.store.store import Store
from zoolens.findings.comparisons.conditions import incomparable

METRIC: Final = "latency_p50"
_MACHINE: Final = "machine"  # of a stack's identity
_ACCELERATOR: Final = "accelerator"
DRIVEN_BY: Final = ("driver", "settings", "unknown")  # of an accelerator, that are software
_Latencies = Mapping[str, Observation]  # by their scopes
_Cells = Sequence[Sequence[tuple[str, _Latencies]]]  # both cells between A and B: their runs, the newest first


@dataclass(frozen=True)
class Step:
    """How many times as long it takes from one cell to another, with its interval, which has room for the spread
    between sittings; None: one of the two times has none."""

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
    """One figure. `machine` and `software` have a step for each cell that was measured without other work beside it;
    both empty: what each does is not known, and `unknown` says why."""

    metric: str
    scope: str
    whole: Step
    machine: tuple[Step, ...]
    software: tuple[Step, ...]
    unknown: str = ""

    @property
    def share(self) -> float | None:
        """The machine's part of the difference, in logarithms, as the mean over the cells. None: nobody measured a
        cell, the difference is not clear, the steps do not go the way of the whole, so that they are no parts, or the
        machine does something else in A's software than in B's."""
        if not self.machine or not self.whole.clear or self.entangled:
            return None
        steps = [math.log(step.factor) for step in (*self.machine, *self.software)]
        whole = math.log(self.whole.factor)
        if any(step * whole < 0 for step in steps):
            return None
        return sum(math.log(step.factor) for step in self.machine) / len(self.machine) / whole

    @property
    def entangled(self) -> bool:
        """Whether both cells were measured and tell of different steps of the machine."""
        if len(self.machine) < 2:
            return False
        first, second = self.machine
        known = [end for end in (first.low, first.high, second.low, second.high) if end is not None]
        return len(known) == 4 and (known[1] < known[2] or known[3] < known[0])


def machine_shares(store: Store, a: Run, b: Run) -> tuple[MachineShare, ...]:
    """Returns, for runs of one model that differ in machine and in software, what each does to the latency. Empty: they
    do not differ in both."""
    if a.model.fingerprint != b.model.fingerprint or not _both_differ(a, b):
        return ()
    cells = [_runs_between(store, a, a, b), _runs_between(store, a, b, a)]
    ours, theirs = (_latencies(store, run) for run in (a, b))
    between = [[(run.id, _latencies(store, run)) for run in runs] for runs in cells]
    why = incomparable(a, b)
    return tuple(_share(scope, ours, theirs, between, why) for scope in ours if scope in theirs)


def _share(scope: str, ours: _Latencies, theirs: _Latencies, between: _Cells, why: str) -> MachineShare:
    whole = step_between(ours[scope], theirs[scope])
    disturbed = [side for side, times in (("A", ours), ("B", theirs)) if is_beside_work(times[scope])]
    if disturbed:
        why = f"{' and '.join(disturbed)} {'were' if disturbed[1:] else 'was'} measured beside other work"
    machine, software = ((), ()) if why else _steps(scope, ours, theirs, between)
    if not machine and not why:
        loaded = any(scope in times for runs in between for _, times in runs)
        why = (
            "A's software on B's machine was measured beside other work, or B's on A's machine"
            if loaded
            else "nobody measured A's software on B's machine"
        )
    return MachineShare(METRIC, scope, whole, machine, software, why)


_SPREAD: Final = {True: "", False: " (no more than the spread)", None: " (of unknown spread)"}


def share_words(share: MachineShare) -> str:
    """What a share says, in one or two sentences."""
    about = f"{share.metric} {share.scope}".strip()
    whole = f"{about}: B takes {share.whole.factor:.3g} × the time of A{_SPREAD[share.whole.clear]}"
    if share.unknown:
        return f"{whole}. How much of that the machine does is not known: {share.unknown}."
    parts = f"{whole}; {_step_words('machine', share.machine)}, {_step_words('software', share.software)}"
    if share.entangled:
        return f"{parts}. The machine does not do the same in both, so that neither is a part of the whole."
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
    parts = {name: value for name, value in accelerator.items() if name not in DRIVEN_BY}
    return {_MACHINE: run.stack.identity.get(_MACHINE), _ACCELERATOR: parts}


def _software(run: Run) -> dict[str, Any]:
    accelerator = run.stack.identity.get(_ACCELERATOR) or {}
    parts = {name: value for name, value in accelerator.items() if name in DRIVEN_BY}
    rest = {name: value for name, value in run.stack.identity.items() if name not in (_MACHINE, _ACCELERATOR)}
    return {**rest, _ACCELERATOR: parts}


def _runs_between(store: Store, subject: Run, machine: Run, software: Run) -> list[Run]:
    """The runs of the subject's model and data on one's machine in the other's software, the newest first."""
    found = [run for run in store.runs(model=subject.ref) if run.key.model == subject.key.model]
    found = [run for run in found if run.key.dataset == subject.key.dataset]
    return [run for run in found if _machine(run) == _machine(machine) and _software(run) == _software(software)]


def _latencies(store: Store, run: Run) -> dict[str, Any]:
    found = store.observations(run.id, metric=METRIC)
    return {one.scope: one for one in found if one.value is not None and one.value > 0 and "raw" not in one.scope}


def _steps(
    scope: str, ours: _Latencies, theirs: _Latencies, between: _Cells
) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """The steps of the machine and those of the software, one of each for every cell that has the figure."""
    a, b = ours[scope], theirs[scope]
    machine, software = [], []
    for first_is_software, cell in zip((True, False), between, strict=True):
        clean = [(run, times[scope]) for run, times in cell if scope in times and not is_beside_work(times[scope])]
        if not clean:
            continue
        run, middle = clean[0]
        steps = (step_between(a, middle, run), step_between(middle, b, run))
        software.append(steps[0] if first_is_software else steps[1])
        machine.append(steps[1] if first_is_software else steps[0])
    return tuple(machine), tuple(software)


def step_between(before: Observation, after: Observation, cell: str = "", *, confidence: float = CONFIDENCE) -> Step:
    """How many times as long `after` takes. Both have a value above zero."""
    assert before.value is not None
    assert after.value is not None
    known = [beyond_its_sitting(Sitting(one.value, one.low, one.high)) for one in (before, after) if one.value]
    if known[0] is None or known[1] is None:
        return Step(after.value / before.value, None, None, cell)
    estimate = time_factor(known[0], known[1], confidence)
    assert estimate.interval is not None
    return Step(estimate.value, *estimate.interval, cell)
