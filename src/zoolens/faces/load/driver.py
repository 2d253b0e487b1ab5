"""The part that both loops share: one exchange, its timing, and what its answer was worth."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from zoolens.base.errors import ZoolensError
from zoolens.base.protocol.errors import ServingError
from zoolens.base.protocol.messages import InferResponse
from zoolens.faces.load.exchanges import Exchanges, Outcome
from zoolens.faces.load.transport_base import Reply, Transport
from zoolens.faces.load.workload import Workload
from zoolens.inventory.runtimes.remote import ANSWERED_BY

MOST_CONNECTIONS: Final = 900  # select() knows 1,024 files
MOST_WAITING_BYTES: Final = 256 << 20  # of answers that are decoded after the run

_T = TypeVar("_T")


@dataclass(frozen=True)
class DriverSettings:
    """How the driver sends requests, whatever their arrival times are."""

    connections: int = 256  # requests that may be in flight at once
    timeout: float = 30.0  # seconds after which an answer is given up
    warmup: int = 10  # requests sent one after the other before the run, and not counted
    seed: int = 0  # of the order in which inputs are sent

    def __post_init__(self) -> None:
        if not 1 <= self.connections <= MOST_CONNECTIONS:
            raise ZoolensError(
                f"{self.connections:,} connections are not possible.", hint=f"Allow 1 to {MOST_CONNECTIONS}."
            )
        if not 0 < self.timeout < 86_400:
            raise ZoolensError(f"A time limit of {self.timeout:g} s makes no sense.", hint="Give some seconds.")


Watch = Callable[[int, float], None]  # requests answered so far, seconds since the start


class Exchanger:
    """Carries out exchanges of one run and writes them down."""

    def __init__(
        self, transport: Transport, workload: Workload, exchanges: Exchanges, settings: DriverSettings
    ) -> None:
        self._transport, self._workload, self._settings = transport, workload, settings
        self.exchanges = exchanges
        self._encoded = [transport.encode(request) for request in workload.requests]
        self._order = workload.order(settings.seed)
        self._waiting: list[tuple[int, int, Reply]] = []
        self._waiting_bytes = 0
        self.start = 0.0
        self.done = 0

    async def warm_up(self, connections: int) -> None:
        """Open connections and let the server answer a few requests. A server that answers none is an error: nothing
        of what follows would mean anything."""
        try:
            await self._transport.open(connections)
        except OSError as error:
            raise ZoolensError(
                f"No answer from {self._transport.address}: {error.strerror or error}.",
                hint="Is the server running, and is the address right?",
            ) from error
        last: Reply | None = None
        for number in range(self._settings.warmup):
            last = await self._transport.send(self._encoded[number % len(self._encoded)], self._settings.timeout)
            if last.outcome is Outcome.REFUSED:
                break
        if last is not None and last.outcome in (Outcome.REFUSED, Outcome.DISCONNECTED):
            raise ZoolensError(
                f"{self._transport.address} does not take these requests: {last.reason}",
                hint="Check the model's name and its inputs; `zoolens load` takes them from the server's metadata.",
            )

    def begin(self, ahead: float = 0.0) -> None:
        """The run begins so many seconds from now: all times count from then."""
        self.start = time.perf_counter() + ahead
        self.exchanges.started_ns = time.time_ns() + round(ahead * 1e9)

    async def exchange(self, row: int) -> None:
        exchanges, number = self.exchanges, next(self._order)
        exchanges.input[row] = number
        exchanges.sent[row] = time.perf_counter() - self.start
        reply = await self._transport.send(self._encoded[number], self._settings.timeout)
        exchanges.finish(row, reply.at - self.start, reply.outcome, reply.reason)
        self.done += 1
        if reply.read is None:
            return
        if self._waiting_bytes + reply.size <= MOST_WAITING_BYTES:
            self._waiting.append((row, number, reply))
            self._waiting_bytes += reply.size
        else:
            self._judge(row, number, reply)

    def judge_waiting(self) -> None:
        """Decode and judge the answers that were put aside, once the run is over."""
        for row, number, reply in self._waiting:
            self._judge(row, number, reply)
        self._waiting.clear()

    def _judge(self, row: int, number: int, reply: Reply) -> None:
        assert reply.read is not None
        try:
            response = reply.read()
            if self._workload.judge is not None:
                self.exchanges.correct[row] = self._workload.judge(number, response)
        except (ServingError, ZoolensError) as error:
            self.exchanges.finish(row, float(self.exchanges.finished[row]), Outcome.UNREADABLE, str(error))
            return
        self.exchanges.answered_by(row, answering_model(response))


def answering_model(response: InferResponse) -> str:
    """A service of zoolens says which model answered; any other server says its own name for it."""
    named = response.parameters.get(ANSWERED_BY)
    return str(named) if named else f"{response.model}@{response.version}" if response.version else response.model


def run_loop(work: Coroutine[Any, Any, _T]) -> _T:
    """Run on an event loop whose timers are exact to microseconds: epoll, the usual choice, counts milliseconds."""

    def exact_loop() -> asyncio.AbstractEventLoop:
        return asyncio.SelectorEventLoop(selectors.SelectSelector())

    with asyncio.Runner(loop_factory=exact_loop) as runner:
        return runner.run(work)
