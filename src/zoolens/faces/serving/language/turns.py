"""Whose turn it is: a model writes as many texts at a time as it has instances, and each has an instance of its own.

Two texts that took turns token by token on one instance would both be computed from their beginnings again and again:
an instance keeps the keys and values of one text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from zoolens.base.protocol.errors import Refusal, ServingError

Known = Callable[[int, Sequence[int]], int]  # how many tokens of a text the instance of a place has computed


class Turns:
    """`places`: instances. `most_waiting`: texts that may wait; more are refused."""

    def __init__(self, places: int, most_waiting: int) -> None:
        self._free = [*range(places)]
        self._most_waiting = most_waiting
        self._waiting = 0
        self._turn = asyncio.Semaphore(places)

    @asynccontextmanager
    async def turn(self, text: Sequence[int], seconds: float, known: Known) -> AsyncIterator[int]:
        """The turn of one text, at the latest after so many seconds, as the place of its instance. Of those that are
        free it is the one whose last text begins as this one does, as the next message of a conversation does."""
        await self._wait(seconds)
        place = max(self._free, key=lambda free: known(free, text))
        self._free.remove(place)
        try:
            yield place
        finally:
            self._free.append(place)
            self._turn.release()

    async def _wait(self, seconds: float) -> None:
        if self._turn.locked() and self._waiting >= self._most_waiting:
            raise ServingError(Refusal.OVERLOADED, "As many texts wait for the model as may.", hint="Try again later.")
        self._waiting += 1
        try:
            async with asyncio.timeout(seconds):
                await self._turn.acquire()
        except TimeoutError:
            raise ServingError(Refusal.TOO_LATE, f"The model wrote other texts for {seconds:.3g} s.") from None
        finally:
            self._waiting -= 1
