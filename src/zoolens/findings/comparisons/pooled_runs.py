"""Runs of one model, on the same data, in the same software, on machines of one kind: what they say together.

Such runs have the same key but for their attempt. Their times are pooled where they agree
(`base.statistics.heterogeneity`), and their interval holds the spread between machines. Where they do not agree, every
value is told, and the machine that is apart from the others is named. Answers are facts of the model: attempts that
answer otherwise are told too, and an accuracy is never averaged, since it comes from the same inputs each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.phrases import first_few
from zoolens.base.present.figures import figure, with_interval
from zoolens.base.statistics.heterogeneity import (
    KnownTime,
    Sitting,
    agree,
    beyond_its_sitting,
    outlying,
    pooled_estimate,
    time_factor,
)
from zoolens.base.store.records import MACHINE, MACHINES, Observation, Run, RunKey, is_beside_work
from zoolens.base.store.scopes import parse_scope
from zoolens.base.store.store import Store, borrowed_store
from zoolens.findings.comparisons.behaviour import pair_answers
from zoolens.findings.comparisons.conditions import effective_conditions
from zoolens.findings.comparisons.signatures import Signature, signature_of
from zoolens.findings.measure.answers import has_answers
from zoolens.findings.measure.carryover import CARRIED
from zoolens.findings.measure.predictions import KIND

METRIC: Final = "latency_p50"
_HOST_DIGITS: Final = 4  # shown where two machines have one name


@dataclass(frozen=True)
class RunTime:
    """The time that one run measured. `machine`: its name, "" where it was not recorded."""

    run: str
    machine: str
    observation: Observation

    @property
    def value(self) -> float:
        assert self.observation.value is not None
        return self.observation.value

    @property
    def sitting(self) -> Sitting:
        return Sitting(self.value, self.observation.low, self.observation.high, self.machine)


@dataclass(frozen=True)
class PooledTime:
    """One timing of several runs of one kind. `disturbed`: how many runs are left out, since others kept their machines
    busy meanwhile."""

    metric: str
    scope: str
    times: tuple[RunTime, ...]
    disturbed: int = 0

    @cached_property
    def agrees(self) -> bool | None:
        """None: there is nothing to compare."""
        return None if len(self.times) < 2 else agree([time.sitting for time in self.times])

    @cached_property
    def pooled(self) -> Observation | None:
        """The value of all runs together with its interval, or that of the only one; None: they do not agree."""
        if len(self.times) == 1:
            return self.times[0].observation
        if not self.agrees:
            return None
        estimate = pooled_estimate([time.sitting for time in self.times])
        low, high = estimate.interval or (None, None)
        about = {
            "runs": [time.run for time in self.times],
            "interval": "between machines" if len(self.machines) > 1 else "between runs",
        }
        unit = self.times[0].observation.unit
        return Observation(self.metric, estimate.value, self.scope, unit, low, high, len(self.times), details=about)

    @property
    def elsewhere(self) -> KnownTime | None:
        """The pooled value with the interval in which it would lie in other sittings; None: it is not known."""
        if len(self.times) == 1:
            return beyond_its_sitting(self.times[0].sitting)
        one = self.pooled
        if one is None or one.value is None or one.low is None or one.high is None:
            return None
        return KnownTime(one.value, one.low, one.high)

    @cached_property
    def outlying(self) -> tuple[RunTime, ...]:
        """The runs without which the others agree."""
        if self.agrees is not False:
            return ()
        return tuple(self.times[place] for place in outlying([time.sitting for time in self.times]))

    @property
    def machines(self) -> tuple[str, ...]:
        """The machines by name; empty: one of them was not recorded."""
        names = tuple(dict.fromkeys(time.machine for time in self.times))
        return () if "" in names else names


@dataclass(frozen=True)
class AnswerDifference:
    """Two runs of one kind that answered otherwise. `differing`: inputs with another answer; `other_bits`: inputs whose
    outputs are not the same bit by bit, None where they were not kept."""

    a: str
    b: str
    between: str  # in words
    n: int
    differing: int
    other_bits: int | None


@dataclass(frozen=True)
class PooledRuns:
    """Runs of one kind, the newest first, and what they say together. `answers`: pairs that do not answer alike, each
    of a run and the newest one; None: nobody looked."""

    runs: tuple[Run, ...]
    times: tuple[PooledTime, ...]
    answers: tuple[AnswerDifference, ...] | None = None
    unread: tuple[str, ...] = ()  # why answers could not be compared

    @property
    def machines(self) -> tuple[str, ...]:
        """Names of all machines that are recorded."""
        return tuple(dict.fromkeys(name for run in self.runs for name in machine_names(run)))


def pooled_runs(
    store: Store | str | Path | None = None,
    *,
    model: str | None = None,
    dataset: str | None = None,
    runtime: str | None = None,
    limit: int | None = None,
) -> list[PooledRuns]:
    """What runs of one kind say together, for the kinds of the newest `limit` runs that match (see `Store.runs`)."""
    with borrowed_store(store, must_exist=True) as opened:
        runs = opened.runs(model=model, dataset=dataset, runtime=runtime, limit=limit)
        return list(pool(opened, runs, complete=True))


def pool(
    store: Store, runs: Sequence[Run], *, metric: str = METRIC, answers: bool = True, complete: bool = False
) -> Iterator[PooledRuns]:
    """Pools runs by their kind, in the order in which they are given. `complete`: with the attempts of their kinds that
    are not among them. `answers`: also compare what they answered, which reads files unless all are bytewise equal."""
    if complete:
        runs = with_attempts(store, runs)
    groups = by_kind(runs)
    known = store.observations_by_run([run.id for group in groups for run in group], metrics=[metric])
    for group in groups:
        times = tuple(pooled_times(metric, [(run, known.get(run.id, ())) for run in group]))
        different, unread = _answer_differences(store, group) if answers and len(group) > 1 else (None, ())
        yield PooledRuns(tuple(group), times, different, unread)


def with_attempts(store: Store, runs: Sequence[Run]) -> list[Run]:
    """The runs, each followed by the other attempts of its key, newest first."""
    keys = list(dict.fromkeys((run.key.model, run.key.dataset, run.key.stack) for run in runs))
    ids = [RunKey(*key, attempt).id for key in keys for attempt in range(store.next_attempt(*key))]
    return store.runs_of(ids)


def by_kind(runs: Iterable[Run]) -> list[list[Run]]:
    """Runs of the same model, data, software and kind of machine that ran in the same precision, on the same provider.
    Copies of a run that a later attempt goes on from are left out: they would count the same times twice."""
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.key.model, run.key.dataset, run.key.stack, *effective_conditions(run)), []).append(run)
    return [_without_copies(group) for group in groups.values()]


def _without_copies(group: Sequence[Run]) -> list[Run]:
    copied = {run.resolved.get(CARRIED) for run in group}
    return [run for run in group if run.key.attempt not in copied]


def pooled_times(metric: str, measured: Sequence[tuple[Run, Iterable[Observation]]]) -> Iterator[PooledTime]:
    """The timing of every scope, raw ones left out."""
    by_scope: dict[str, list[tuple[Run, Observation]]] = {}
    for run, observations in measured:
        for one in observations:
            if one.metric == metric and one.value is not None and one.value > 0 and not parse_scope(one.scope).raw:
                by_scope.setdefault(one.scope, []).append((run, one))
    for scope, found in by_scope.items():
        clean = [(run, one) for run, one in found if not is_beside_work(one)]
        names = _names([_machine(one) for _, one in clean])
        times = [RunTime(run.id, name, one) for (run, one), name in zip(clean, names, strict=True)]
        yield PooledTime(metric, scope, tuple(times), len(found) - len(clean))


def _machine(observation: Observation) -> Mapping[str, Any]:
    return observation.details.get(MACHINE) or {}


def _names(machines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of machines as people are told; two that have one name are told apart by a digest."""
    hosts = {(str(one.get("name") or ""), str(one.get("host") or "")) for one in machines}
    shared = {name for name, count in Counter(name for name, _ in hosts).items() if count > 1}
    told = []
    for one in machines:
        name, host = str(one.get("name") or ""), str(one.get("host") or "")
        told.append(f"{name} ({host[:_HOST_DIGITS]})" if name and name in shared else name)
    return told


def machine_names(run: Run) -> tuple[str, ...]:
    """Names of the machines that worked on a run, where they are recorded."""
    return tuple(dict.fromkeys(_names(run.resolved.get(MACHINES) or ())))


# --- two of them


@dataclass(frozen=True)
class RepeatedTime:
    """One timing of two kinds of runs, at least one of which was repeated."""

    a: PooledTime
    b: PooledTime

    @property
    def factor(self) -> tuple[float, float, float] | None:
        """How many times as long B takes, with its interval; None: one of the two is not pooled or has no interval."""
        ours, theirs = self.a.elsewhere, self.b.elsewhere
        if ours is None or theirs is None:
            return None
        estimate = time_factor(ours, theirs)
        assert estimate.interval is not None
        return estimate.value, *estimate.interval


def repeated_times(store: Store, a: Run, b: Run) -> tuple[RepeatedTime, ...]:
    """The times of two runs with all attempts of their kinds. Empty: none was repeated, or they are of one kind."""
    if by_kind([a, b])[0] != [a]:
        return ()
    ours, theirs = (_pooled_with(store, run) for run in (a, b))
    repeated = [scope for scope in ours if scope in theirs and max(_count(ours[scope]), _count(theirs[scope])) > 1]
    return tuple(RepeatedTime(ours[scope], theirs[scope]) for scope in repeated)


def _pooled_with(store: Store, run: Run) -> dict[str, PooledTime]:
    group = by_kind([run, *with_attempts(store, [run])])[0]
    unique = list({one.id: one for one in group}.values())
    (pooled,) = pool(store, unique, answers=False)
    return {time.scope: time for time in pooled.times}


def _count(time: PooledTime) -> int:
    return len(time.times) + time.disturbed


def repeated_words(repeated: RepeatedTime) -> str:
    sides = f"A {time_words(repeated.a, alone=False)} B {time_words(repeated.b, alone=False)}"
    about = f"{repeated.a.metric} {repeated.a.scope}:"
    if repeated.factor is None:
        return f"{about} {sides} How they compare is not known."
    factor, least, most = repeated.factor
    spread = " (no more than the spread)" if least <= 1 <= most else ""
    return f"{about} {sides} B takes {factor:.3g} × the time of A [{least:.3g}, {most:.3g}]{spread}."


# --- answers


def _answer_differences(store: Store, group: Sequence[Run]) -> tuple[tuple[AnswerDifference, ...], tuple[str, ...]]:
    answered = [run for run in group if has_answers(run)]
    files = {run.id: _digests(store, run) for run in answered}
    if len(set(files.values())) < 2:
        return (), ()
    first, *others = answered
    found, unread = [], []
    for other in others:
        if files[other.id] == files[first.id]:
            continue
        try:
            different = _difference(signature_of(store, first), signature_of(store, other))
        except ZoolensError as error:
            unread.append(str(error))
            continue
        if different is not None:
            found.append(different)
    return tuple(found), tuple(unread)


def _digests(store: Store, run: Run) -> tuple[str, ...]:
    return tuple(part.sha256 for part in store.parts(run.id, KIND))


def _difference(a: Signature, b: Signature) -> AnswerDifference | None:
    same, bits = np.ones(len(a.labels), bool), np.ones(len(a.labels), bool)
    kept = True
    for ours, theirs in zip(a.outputs, b.outputs, strict=True):
        same &= pair_answers(ours, theirs).agreement == 1
        if ours.digest is None or theirs.digest is None:
            kept = False
        else:
            bits &= ours.digest == theirs.digest
    differing = int(np.count_nonzero(~same))
    other_bits = int(np.count_nonzero(~bits)) if kept else None
    if not differing and not other_bits:
        return None
    return AnswerDifference(a.run.id, b.run.id, _between(a.run, b.run), len(same), differing, other_bits)


def _between(a: Run, b: Run) -> str:
    names = [machine_names(run) for run in (a, b)]
    if all(len(one) == 1 for one in names):
        (ours,), (theirs,) = names
        if ours != theirs:
            return f"two machines of one kind, {ours} and {theirs}"
        return f"two runs on {ours}"
    return "two runs on one kind of machine"


# --- in words


def time_words(time: PooledTime, *, alone: bool = True) -> str:
    """What the runs of one kind say of a time, in one or two sentences. `alone`: name the metric."""
    about = f"{time.metric} {time.scope}: ".replace(" :", ":") if alone else ""
    busy = f" {time.disturbed} measured under load {'is' if time.disturbed == 1 else 'are'} left out."
    rest = busy if time.disturbed else ""
    if not time.times:
        return f"{about}Not known: every run was measured under load."
    if time.pooled is not None:
        return f"{about}{with_interval(time.pooled)} {_where(time)}.{rest}"
    if not time.outlying:
        return f"{about}Not pooled: {_each(time.times)} do not agree.{rest}"
    return f"{about}Not pooled: {_outlying_words(time)}. Each value: {_each(time.times)}.{rest}"


def _where(time: PooledTime) -> str:
    runs = f"from {len(time.times)} run{'s' * (len(time.times) != 1)}"
    machines = time.machines
    if not machines:
        return f"{runs}, machines not recorded"
    return f"{runs} on {machines[0] if len(machines) == 1 else f'{len(machines)} machines of one kind'}"


def _outlying_words(time: PooledTime) -> str:
    apart = time.outlying
    others = [one for one in time.times if one not in apart]
    ours, theirs = (pooled_estimate([one.sitting for one in some]).value for some in (apart, others))
    factor = f"{ours / theirs:.2g} × slower" if ours > theirs else f"{theirs / ours:.2g} × faster"
    machine = apart[0].machine
    rest = {one.machine for one in others}
    if machine and machine not in rest and "" not in rest:
        count = f"{len(rest)} others of its kind" if len(rest) > 1 else "the other of its kind"
        return f"machine {machine} is {factor} than {count}"
    where = f" on {machine}" if machine else ""
    return f"run {apart[0].run[:8]}{where} is {factor} than the {len(others)} others"


def _each(times: Collection[RunTime]) -> str:
    return first_few([f"{figure(one.value, 's')} ({one.machine or one.run[:8]})" for one in times], 8)


def answer_words(difference: AnswerDifference) -> str:
    """What two runs of one kind that do not answer alike show, in one sentence."""
    if difference.differing:
        return (
            f"Answers differ on {difference.differing:,} of {difference.n:,} inputs between {difference.between} "
            f"(runs {difference.a[:8]} and {difference.b[:8]}): not pooled."
        )
    return (
        f"All answers are the same, and outputs are not bit-equal on {difference.other_bits:,} of {difference.n:,} "
        f"inputs between {difference.between} (runs {difference.a[:8]} and {difference.b[:8]})."
    )
