"""A service without models or time: requests arrive, a policy chooses, and a virtual clock says who was late.

    ladder = simulated_ladder((0.010, 0.004, 0.001))  # seconds for one input, best model first
    result = simulate(Latency(ladder, {"target": 0.05}), arrivals, deadline=0.05)
    assert result.kept >= 0.99

It is for tests of policies, ours and those of plug-ins.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from zoolens.faces.serving.contracts.ladder import Ladder, LatencyProfile, Rung
from zoolens.faces.serving.policies.policy import Policy, Situation

_SIZES = (1, 2, 4, 8, 16, 32)


def simulated_ladder(
    seconds: Sequence[float],
    *,
    equivalence: Sequence[float] | None = None,
    memory: Sequence[int | None] | None = None,
    energy: Sequence[float] | None = None,
    batching: float = 0.5,
) -> Ladder:
    """One tier for each number of seconds that a single input takes. `batching`: what a further input of a batch costs,
    as a share of the first."""
    falling = equivalence or [1.0 - 0.02 * place for place in range(len(seconds))]
    return Ladder(
        tuple(
            Rung(
                model=f"toys:model-{place}",
                runtime="fake",
                equivalence=falling[place],
                equivalence_lower=falling[place] - 0.01 if place else 1.0,
                profile=LatencyProfile({size: single * (1 + batching * (size - 1)) for size in _SIZES}),
                memory_bytes=memory[place] if memory else None,
                figures={"energy": energy[place]} if energy else {},
            )
            for place, single in enumerate(seconds)
        )
    )


@dataclass
class Simulated:
    """`latencies` are in the order of arrival; `rungs` names the tier of each answer; `switches` are (time, tier)."""

    deadline: float
    latencies: list[float] = field(default_factory=list)
    rungs: list[int] = field(default_factory=list)
    switches: list[tuple[float, int]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def kept(self) -> float:
        """Share of the answers that came within the deadline."""
        return sum(latency <= self.deadline for latency in self.latencies) / max(1, len(self.latencies))

    def share(self, rung: int) -> float:
        return self.rungs.count(rung) / max(1, len(self.rungs))


@dataclass(frozen=True)
class Conditions:
    """How requests look and how the simulated machine behaves."""

    max_batch: int = 8
    inputs: int = 1  # of each request
    # By which factor a tier is slower than its profile at a time.
    slowness: Callable[[float, int], float] = lambda now, rung: 1.0
    memory_limit: Callable[[float], int | None] = lambda now: None
    loading: float = 0.0  # seconds until a tier that is preloaded can answer
    loaded: frozenset[int] | None = None  # tiers that can answer at once; None: all of them
    wall: float = 1_700_000_000.0  # the time of day at which the simulation begins, in seconds since 1970


def simulate(
    policy: Policy, arrivals: Sequence[float], *, deadline: float, conditions: Conditions | None = None
) -> Simulated:
    """Returns how one worker answers requests that arrive at these seconds."""
    conditions = conditions or Conditions()
    max_batch, inputs, loading = conditions.max_batch, conditions.inputs, conditions.loading
    every = frozenset(range(len(policy.ladder.rungs)))
    ready = dict.fromkeys(every if conditions.loaded is None else conditions.loaded, 0.0)
    result = Simulated(deadline)
    free, first, current = 0.0, 0, 0
    while first < len(arrivals):
        now = max(free, arrivals[first])
        waiting = _arrived(arrivals, first, now)
        together = min(waiting, max(1, max_batch // inputs))
        batch = together * inputs
        situation = Situation(
            now=now,
            wall=conditions.wall + now,
            current=current,
            batch=batch,
            waiting=waiting,
            oldest_wait=now - arrivals[first],
            time_left=arrivals[first] + deadline - now,
            arrival_rate=float(_rate(arrivals, first + waiting, now)),
            loaded=frozenset(rung for rung, since in ready.items() if since <= now),
            allowed=every,
            max_batch=max_batch,
            inputs_waiting=waiting * inputs,
            memory_limit=conditions.memory_limit(now),
        )
        choice = policy.choose(situation)
        for rung in choice.preload:
            ready.setdefault(rung, now + loading)
        if choice.rung not in situation.loaded:  # the server waits for it: a good policy avoids that
            now = max(now, ready.setdefault(choice.rung, now + loading))
        if choice.rung != current:
            result.switches.append((now, choice.rung))
            result.reasons.append(choice.reason)
        current = choice.rung
        if choice.batch is not None:
            together = min(together, max(1, choice.batch // inputs))
            batch = together * inputs
        expected = policy.ladder.rungs[current].profile.of(batch)
        seconds = expected * conditions.slowness(now, current)
        free = now + seconds
        policy.served(current, batch, seconds)
        result.latencies += [free - arrival for arrival in arrivals[first : first + together]]
        result.rungs += [current] * together
        first += together
    return result


def _arrived(arrivals: Sequence[float], first: int, now: float) -> int:
    return max(1, bisect_right(arrivals, now, first) - first)


def _rate(arrivals: Sequence[float], end: int, now: float) -> int:
    """Requests of the last second."""
    return end - bisect_right(arrivals, now - 1.0, 0, end)
