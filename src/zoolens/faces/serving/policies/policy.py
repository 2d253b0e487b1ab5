"""The contract of policies: asked before each batch, they look at the situation and name a tier.

A policy is called by the one thread that forms the batches of its service, so it needs no lock. It must answer in
microseconds: everything that takes longer (a battery, a clock of the grid) is read in the background.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from zoolens.faces.serving.contracts.ladder import Ladder

# Reasons of choices that every policy comes to
PINNED: Final = "The client pinned a model or set a minimum equivalence."
LOADING: Final = "It is being loaded; until then another one answers."


@dataclass(frozen=True)
class Situation:
    """What a policy may look at. Times are in seconds. A request may carry several inputs; where texts are written,
    these are the tokens that its text is expected to have."""

    now: float  # monotonic clock
    wall: float  # wall clock
    current: int  # the tier that answered the last batch
    batch: int  # inputs of the next batch, if all of it is answered together
    waiting: int  # requests in the queue, those of the next batch among them
    oldest_wait: float  # how long the first request has waited
    time_left: float | None  # what remains of its deadline
    arrival_rate: float  # requests per second, over the last second or so
    loaded: frozenset[int]  # numbers of the tiers that can answer at once
    allowed: frozenset[int]  # numbers of the tiers that the clients of this batch accept: one may be pinned
    max_batch: int = 1  # inputs
    instances: int = 1  # batches that run at a time
    inputs_waiting: int = 0  # 0: as many as requests
    first: int = 1  # inputs of the first request, which are answered together
    memory_limit: int | None = None  # bytes for models, where a limit is set; it may fall while serving
    memory_used: int | None = None


@dataclass(frozen=True)
class Choice:
    """The tier that answers a batch, and what to do besides."""

    rung: int  # number of the tier
    reason: str  # one sentence, for the event of a switch
    preload: tuple[int, ...] = ()  # tiers that will probably be wanted next
    # At most so many inputs are answered now, in whole requests and at least one; the others wait
    batch: int | None = None


class Policy(ABC):
    """`settings` are those of the service's definition; an unknown or wrong one is a ZoolensError."""

    name: ClassVar[str]
    summary: ClassVar[str]

    def __init__(self, ladder: Ladder, settings: Mapping[str, Any]) -> None:
        self.ladder = ladder
        self.settings = settings

    @abstractmethod
    def choose(self, situation: Situation) -> Choice: ...

    def served(self, rung: int, batch: int, seconds: float) -> None:
        """Told after each batch how long the model really took."""

    @property
    def saves_work(self) -> bool:
        """Whether nothing is to be computed that no client waits for, such as what is asked in the shadow."""
        return False

    def close(self) -> None:
        """Told once, when the policy is not asked any more: end what it has started in the background."""
