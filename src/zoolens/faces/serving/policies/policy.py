"""The contract of policies: asked before each batch, they look at the situation and name a rung.

A policy is called by the one thread that forms the batches of its service, so it needs no lock. It must answer in
microseconds: everything that takes longer (a battery, a clock of the grid) is read in the background.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from zoolens.faces.serving.contracts.ladder import Ladder


@dataclass(frozen=True)
class Situation:
    """What a policy may look at. Times are in seconds, `now` and `wall` are those of the monotonic and the wall clock.

    `waiting` counts requests in the queue, those of the next batch among them. A request may carry several inputs:
    `batch` and `max_batch` count inputs, and `inputs_waiting` those of all requests that wait. `oldest_wait` is how
    long the first of them has waited; `time_left` is what remains of its deadline. `loaded`: numbers of the rungs that
    can answer at once. `allowed`: numbers of the rungs that the requests of this batch accept (a client may pin a model
    or set a floor on equivalence). `max_batch` and `instances` say how much of the queue is answered at once: so
    many batches of at most that size.
    """

    now: float
    wall: float
    current: int  # the rung that answered the last batch
    batch: int
    waiting: int
    oldest_wait: float
    time_left: float | None
    arrival_rate: float  # requests per second, over the last second or so
    loaded: frozenset[int]
    allowed: frozenset[int]
    max_batch: int = 1
    instances: int = 1
    inputs_waiting: int = 0  # 0: as many as requests
    memory_limit: int | None = None  # bytes for models, where a limit is set; it may fall while serving
    memory_used: int | None = None


@dataclass(frozen=True)
class Choice:
    """`reason` is one sentence for the switch's event; `preload`: rungs that will probably be wanted next. `batch`: at
    most so many inputs of the batch are answered now, whole requests and at least one; the others wait for the next."""

    rung: int
    reason: str
    preload: tuple[int, ...] = ()
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
