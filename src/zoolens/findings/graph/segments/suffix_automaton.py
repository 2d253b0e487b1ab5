"""The suffix automaton of a sequence: all its runs in one small machine, and the best run it shares with another.

Blumer et al. (1985): built symbol by symbol in linear time; it has at most twice as many states as there are symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CommonRun:
    """A run that two sequences share: `length` symbols are the same from place `a` of one and from place `b` of the
    other."""

    a: int
    b: int
    length: int


class SuffixAutomaton:
    """An automaton whose states are sets of runs that end at the same places; state 0 is the empty run."""

    def __init__(self, symbols: Sequence[Hashable]) -> None:
        self._next: list[dict[Hashable, int]] = [{}]
        self._shorter = [-1]  # the state of the longest run that also ends elsewhere
        self._length = [0]  # of the longest run of each state
        self._end = [-1]  # the first place where its runs end
        last = 0
        for place, symbol in enumerate(symbols):
            last = self._extended(last, symbol, place)

    def _extended(self, last: int, symbol: Hashable, place: int) -> int:
        new = self._state({}, -1, self._length[last] + 1, place)
        state = last
        while state >= 0 and symbol not in self._next[state]:
            self._next[state][symbol] = new
            state = self._shorter[state]
        self._shorter[new] = 0 if state < 0 else self._split(state, symbol)
        return new

    def _split(self, state: int, symbol: Hashable) -> int:
        """The state of exactly the run that `state` and the symbol make; cloned where its state holds longer ones."""
        target = self._next[state][symbol]
        length = self._length[state] + 1
        if self._length[target] == length:
            return target
        clone = self._state(dict(self._next[target]), self._shorter[target], length, self._end[target])
        while state >= 0 and self._next[state].get(symbol) == target:
            self._next[state][symbol] = clone
            state = self._shorter[state]
        self._shorter[target] = clone
        return clone

    def _state(self, following: dict[Hashable, int], shorter: int, length: int, end: int) -> int:
        self._next.append(following)
        self._shorter.append(shorter)
        self._length.append(length)
        self._end.append(end)
        return len(self._next) - 1

    def best(self, other: Sequence[Hashable], worth: Callable[[int, int], Any]) -> CommonRun | None:
        """The common run of the largest worth; of several the one that comes first. None where no symbol is shared.

        `worth(start, stop)` is that of a run of `other`; it must not grow when a run gets shorter.
        """
        best: tuple[Any, int, int, CommonRun] | None = None
        state = length = 0
        for place, symbol in enumerate(other):
            while state and symbol not in self._next[state]:
                state = self._shorter[state]
                length = self._length[state]
            if symbol not in self._next[state]:
                continue
            state = self._next[state][symbol]
            length += 1
            run = CommonRun(self._end[state] - length + 1, place - length + 1, length)
            rank = (worth(run.b, run.b + length), -run.a, -run.b)
            if best is None or rank > best[:3]:
                best = (*rank, run)
        return best[3] if best else None
