"""Requests that wait: bounded in number and bytes, in lines of requests that may share a batch."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from zoolens.base.protocol.errors import ServingError
from zoolens.base.protocol.messages import InferRequest, InferResponse
from zoolens.faces.serving.contracts.adapter import Adapter, Fed
from zoolens.faces.serving.plane.signature import BatchKey

NEVER: Final = float("inf")

log = logging.getLogger("zoolens.serving")

Done = Callable[[InferResponse | ServingError], object]

LineKey = tuple[BatchKey, frozenset[int]]
Line = deque["Pending"]
Converting = asyncio.Future[Fed]


# Compared by identity: a batch is searched for its requests, whose arrays have no truth value.
@dataclass(slots=True, eq=False)
class Pending:
    """A request that was accepted and has no answer yet. Times are on the monotonic clock."""

    request: InferRequest
    rows: int
    key: BatchKey
    allowed: frozenset[int]  # tiers of the ladder that the client accepts
    arrived_ns: int  # on the clock of `time.perf_counter_ns`, for statistics
    arrived: float
    deadline: float
    _done: Done
    settled: bool = False  # it has its answer or an error, or nobody waits for it any more
    alone: bool = False  # it must not share a batch again
    waiting: bool = False  # it is in the queue
    timer: asyncio.TimerHandle | None = None
    converted: tuple[Adapter, Converting] | None = None  # its inputs as an adapter makes them, begun while it waits

    def settle(self, result: InferResponse | ServingError) -> None:
        """Hand over the answer or the error, once."""
        done = self._done
        self.forget()
        if self.timer is not None:
            self.timer.cancel()
        try:
            done(result)
        except Exception:
            # An error of whoever takes it: the other requests of its batch must get theirs.
            log.exception("an answer could not be handed over")

    def forget(self) -> None:
        """Called when nobody waits for it any more. Whoever did may hold this object, and this object holds the inputs:
        both are let go at once, for as a circle they would stay until Python looks for circles, which takes minutes."""
        self.settled = True
        self._done = _nobody

    @property
    def bytes(self) -> int:
        """Bytes of the request's inputs."""
        return sum(array.nbytes for array in self.request.inputs.values())

    @property
    def line_key(self) -> LineKey:
        return self.key, self.allowed


def _nobody(_: object) -> None:
    """Takes the place of whoever waited for an answer."""


class RequestQueue:
    """First come, first served within a line."""

    def __init__(self) -> None:
        self.requests = 0
        self.rows = 0
        self.bytes = 0
        self._lines: dict[LineKey, Line] = {}

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, pending: Pending) -> None:
        line = self._lines.get(pending.line_key)
        if line is None:
            line = self._lines[pending.line_key] = deque()
        line.append(pending)
        self._count(pending, 1)

    def put_back(self, pendings: list[Pending]) -> None:
        """Put requests back to the front of their line, in their order."""
        for pending in reversed(pendings):
            self._lines.setdefault(pending.line_key, deque()).appendleft(pending)
            self._count(pending, 1)

    def lines(self) -> list[Line]:
        """All lines, the one with the oldest head first."""
        lines = list(self._lines.values())
        if len(lines) > 1:
            lines.sort(key=lambda line: line[0].arrived_ns)
        return lines

    def take(self, pending: Pending) -> None:
        """Take a waiting request off: it is near the front of its line, or nobody waits for its answer any more."""
        line = self._lines[pending.line_key]
        if line[0] is pending:
            line.popleft()
        else:
            line.remove(pending)
        if not line:
            del self._lines[pending.line_key]
        self._count(pending, -1)

    def empty(self) -> list[Pending]:
        """Take all requests off."""
        pendings = [pending for line in self._lines.values() for pending in line]
        self._lines.clear()
        for pending in pendings:
            self._count(pending, -1)
        return pendings

    def _count(self, pending: Pending, by: int) -> None:
        pending.waiting = by > 0
        self.requests += by
        self.rows += by * pending.rows
        self.bytes += by * pending.bytes
