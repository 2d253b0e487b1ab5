"""Asks another model about requests that were answered already: after the answer has gone out, and never in its way.

What is to be asked waits in a small buffer until the service is idle. Under load the buffer overflows. Then the share
of requests that are asked about is halved, in the buffer, in what was asked before and in what is to come: dropping
only those that wait would let quiet times count more than busy ones.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from zoolens.base.errors import first_line
from zoolens.base.protocol.messages import Tensor
from zoolens.faces.serving.contracts.adapter import Told

_BUFFER: Final = 256  # requests
_BUFFER_BYTES: Final = 1 << 26
_RETRY: Final = 0.01  # seconds until a busy service is tried again
_LONGEST: Final = 600.0  # seconds that a request waits to be asked; a shorter time would leave out long bursts

log = logging.getLogger("zoolens.serving")

Ask = Callable[[tuple[str, str], Mapping[str, Tensor]], Awaitable[Told | None]]


class Sample(Protocol):
    """What the answers to questions are counted in. Questions whose tickets are below `share` are asked."""

    @property
    def share(self) -> float: ...

    def halve(self) -> bool:
        """Whether that was possible."""


@dataclass(frozen=True, eq=False)
class Question:
    """Inputs that another model is asked about in the background."""

    rung: tuple[str, str]  # the model and the runtime that are asked
    inputs: Mapping[str, Tensor]
    done: Callable[[Any], None]  # gets the answers, or what `weigh` made of them
    dropped: Callable[[], None]  # called where there are none
    asked: float  # when, on the monotonic clock
    sample: Sample
    ticket: float  # from 0 to 1 by chance; see `Sample`
    weigh: Callable[[Told], Any] | None = None  # what takes milliseconds: it is called in a thread
    held: int = 0  # bytes of the answer that is compared, where it is large

    @property
    def bytes(self) -> int:
        return self.held + sum(_size(tensor) for tensor in self.inputs.values())


class Shadow:
    """Belongs to the event loop. `ask` gives None while the service is busy, or where the model is not there; it raises
    where the model fails on the inputs: then the question is dropped, for it might do harm again."""

    def __init__(self, ask: Ask, seed: int | None = None) -> None:
        self._ask = ask
        self._chance = random.Random(seed)  # noqa: S311 - a sample, no secret
        self._buffer: list[Question] = []
        self._bytes = 0
        self._some = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._work())

    def drawn(self, share: float) -> float | None:
        """The ticket of a request that is among the share that is asked; None for all others."""
        number = self._chance.random()
        # The ticket stays with the question: when the share is halved later, all that is left had the same chance,
        # whenever it came.
        return number / share if number < share else None

    def offer(self, question: Question) -> None:
        if question.ticket >= question.sample.share:
            question.dropped()
            return
        self._buffer.append(question)
        self._bytes += question.bytes
        while len(self._buffer) > _BUFFER or (self._bytes > _BUFFER_BYTES and len(self._buffer) > 1):
            self._make_room()
        self._some.set()

    def _make_room(self) -> None:
        """Halve the share of the sample that has the most questions, and drop those that no longer count."""
        ((sample, _),) = Counter(question.sample for question in self._buffer).most_common(1)
        if not sample.halve():
            self._drop(self._chance.randrange(len(self._buffer)))
        for place in reversed(range(len(self._buffer))):
            if self._buffer[place].ticket >= self._buffer[place].sample.share:
                self._drop(place)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        while self._buffer:
            self._drop(0)

    async def idle(self) -> None:
        """Wait until nothing is left to ask; for tests and for the end of an example."""
        # What was answered just now is offered in a moment.
        await asyncio.sleep(_RETRY)
        while self._buffer:
            await asyncio.sleep(_RETRY)

    def _drop(self, place: int) -> None:
        self._take(place).dropped()

    def _take(self, place: int) -> Question:
        question = self._buffer.pop(place)
        self._bytes -= question.bytes
        return question

    async def _work(self) -> None:
        while True:
            await self._some.wait()
            if not self._buffer:
                self._some.clear()
                continue
            question = self._buffer[0]
            outputs: Any = None
            failed = False
            try:
                outputs = await self._ask(question.rung, question.inputs)
                if outputs is not None and question.weigh is not None:
                    outputs = await asyncio.to_thread(question.weigh, outputs)
            except Exception as error:
                # Whatever it is, the next question may be answered.
                failed = True
                log.warning("%s cannot be compared on a request: %s", question.rung[0], first_line(error))
            if question not in self._buffer:
                # It was dropped meanwhile.
                continue
            place = self._buffer.index(question)
            if failed:
                # Asked again, it might end the model's process once more.
                self._drop(place)
            elif outputs is not None:
                self._tell(self._take(place), outputs)
            elif time.monotonic() - question.asked > _LONGEST:
                self._drop(place)
            else:
                # Others may have a model that is idle.
                self._buffer.append(self._buffer.pop(place))
                await asyncio.sleep(_RETRY)

    def _tell(self, question: Question, outputs: Any) -> None:
        try:
            question.done(outputs)
        except Exception:
            log.exception("an answer of %s cannot be compared", question.rung[0])
            question.dropped()


def _size(tensor: Tensor) -> int:
    if tensor.dtype == object:
        return sum(len(element) for element in tensor.reshape(-1) if isinstance(element, bytes))
    return tensor.nbytes
