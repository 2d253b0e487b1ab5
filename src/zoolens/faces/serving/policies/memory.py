"""The policy `memory`: the most equivalent model that fits into the memory that models may take.

The limit may fall and rise while serving. When it falls, a smaller model answers as soon as it is loaded; when it
rises, the better one comes back after the limit has been high enough for some time. A model whose memory nobody has
measured is not used while there is a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from zoolens.faces.serving.amounts import Bytes, Seconds, Share
from zoolens.faces.serving.contracts.ladder import Ladder
from zoolens.faces.serving.policies.policy import LOADING, PINNED, Choice, Policy, Situation
from zoolens.faces.serving.policies.policy_settings import Settings, read_settings


class MemorySettings(Settings):
    """The settings of the policy `memory`."""

    limit: Bytes | None = None  # for the model that answers; if the server has a limit too, the smaller holds
    room: Share = 0.05  # share of the limit that a better model must leave free before it comes back
    hold: Seconds = Field(default=5.0)  # for how long it must leave that free


class Memory(Policy):
    name = "memory"
    summary = "the most equivalent model that fits into a memory limit, which may change while serving"

    def __init__(self, ladder: Ladder, settings: Mapping[str, Any]) -> None:
        super().__init__(ladder, settings)
        self._set = read_settings(MemorySettings, settings, self.name)
        self._level: int | None = None
        self._fits_since: dict[int, float] = {}

    def choose(self, situation: Situation) -> Choice:
        limit = self._limit(situation)
        wanted, reason = self._wanted(limit, situation)
        restricted = len(situation.allowed) < len(self.ladder.rungs)
        if not restricted:
            self._level = wanted
        if wanted in situation.loaded & situation.allowed:
            return Choice(wanted, reason, self._spare(wanted, limit, situation))
        reason = f"{reason} {LOADING}" if wanted in situation.allowed else PINNED
        return Choice(self._until_loaded(limit, situation), reason, (wanted,))

    def _limit(self, situation: Situation) -> int | None:
        limits = [limit for limit in (self._set.limit, situation.memory_limit) if limit is not None]
        return min(limits) if limits else None

    def _fits(self, rung: int, limit: int | None) -> bool:
        memory = self.ladder.rungs[rung].memory_bytes
        return limit is None or (memory is not None and memory <= limit)

    def _wanted(self, limit: int | None, situation: Situation) -> tuple[int, str]:
        """The tier to answer with, loaded or not. Better ones than the present must fit with room, for a while."""
        rungs = range(len(self.ladder.rungs))
        roomy = None if limit is None else int(limit * (1 - self._set.room))
        for rung in rungs:
            if self._fits(rung, roomy):
                self._fits_since.setdefault(rung, situation.now)
            else:
                self._fits_since.pop(rung, None)
        fitting = [rung for rung in rungs if self._fits(rung, limit)]
        if not fitting:
            smallest = min(rungs, key=lambda rung: (self._memory(rung), rung))
            return smallest, f"No model fits into {_words(limit)}; {self._name(smallest)} is the smallest."
        if self._level is None and situation.current in fitting and situation.current:
            self._level = situation.current  # on a ladder that was refreshed
        if self._level is None:
            return fitting[0], f"{self._name(fitting[0])} is the most equivalent model within {_words(limit)}."
        if self._level not in fitting:
            return fitting[0], (
                f"{self._name(self._level)} does not fit into {_words(limit)} any more; {self._name(fitting[0])} does."
            )
        back = [
            rung
            for rung in fitting
            if rung < self._level and situation.now - self._fits_since.get(rung, situation.now) >= self._set.hold
        ]
        if back:
            return back[0], f"{self._name(back[0])} has fitted into {_words(limit)} for {self._set.hold:.3g} s."
        return self._level, f"{self._name(self._level)} fits into {_words(limit)}."

    def _until_loaded(self, limit: int | None, situation: Situation) -> int:
        """Names the tier that answers until the wanted one is loaded: the best loaded one that fits, else the smallest
        loaded one."""
        usable = sorted(situation.loaded & situation.allowed) or sorted(situation.allowed)
        fitting = [rung for rung in usable if self._fits(rung, limit)]
        if fitting:
            return fitting[0]
        return min(usable, key=lambda rung: (self._memory(rung), rung))

    def _spare(self, rung: int, limit: int | None, situation: Situation) -> tuple[int, ...]:
        """The next smaller model, where both fit: it can then answer at once when the limit falls."""
        own = self._memory(rung)
        smaller = [other for other in range(len(self.ladder.rungs)) if self._memory(other) < own]
        if not smaller or smaller[0] in situation.loaded:
            return ()
        together = own + self._memory(smaller[0])
        return (smaller[0],) if limit is None or together <= limit else ()

    def _memory(self, rung: int) -> float:
        memory = self.ladder.rungs[rung].memory_bytes
        return float("inf") if memory is None else float(memory)

    def _name(self, rung: int) -> str:
        return self.ladder.rungs[rung].model


def _words(limit: int | None) -> str:
    return "memory without a limit" if limit is None else f"{limit / 1e6:.4g} MB"
