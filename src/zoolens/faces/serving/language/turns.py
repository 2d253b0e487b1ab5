"""Whose turn it is: a model writes as many texts at a time as it has instances, and each has an instance of its own.

Two texts that took turns token by token on one instance would both be computed from their beginnings again and again:
an instance keeps the keys and values of one text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from zoolens.base.protocol.errors import Refusal, ServingError


@dataclass(frozen=True)
class Turn:
    """The place of an instance, and how many tokens it has probably computed already."""

    place: int
    known: int


class Turns:
    """`places`: instances. `most_waiting`: texts that may wait; more are refused."""

    def __init__(self, places: int, most_waiting: int) -> None:
        self._free = [*range(places)]
        self._most_waiting = most_waiting
        self._waiting = 0
        self._turn = asyncio.Semaphore(places)
        self._last: dict[int, list[int]] = {}  # tokens of the last text of each place

    @asynccontextmanager
    async def turn(self, text: list[int], seconds: float) -> AsyncIterator[Turn]:
        """The turn of one text, which grows meanwhile, at the latest after so many seconds. Of the instances that are
        free it gets the one whose last text begins as this one does, as the next message of a conversation does."""
        await self._wait(seconds)
        known = {place: _alike(self._last.get(place, []), text) for place in self._free}
        place = max(known, key=lambda free: known[free])
        self._free.remove(place)
        try:
            yield Turn(place, known[place])
        finally:
            self._last[place] = text
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


def _alike(before: list[int], prompt: list[int]) -> int:
    """How many tokens two texts begin with alike."""
    for place, (one, other) in enumerate(zip(before, prompt, strict=False)):
        if one != other:
            return place
    return min(len(before), len(prompt))
