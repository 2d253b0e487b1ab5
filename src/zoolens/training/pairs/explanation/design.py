"""Which cells are trained: all of them, or a fraction that keeps what matters apart.

The fraction is a fold-over of resolution IV: players are the odd words of b letters (a, b, c, d, abc, abd, …), which
makes 2^b cells for up to 2^(b−1) players. It holds both original sides, and no interaction of an even number of players
touches what it says of a single one. A Shapley value is free of those too: it is the main effect, a third of each
interaction of three, a fifth of each of five. So the shares are mixed with interactions of three and more only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Literal

Fraction = Literal["auto", "full", "folded"]

FRAMEWORK: Final = "framework"  # the player that stands for all that has no name
FULL_UP_TO: Final = 5  # players: four settings and the framework


@dataclass(frozen=True)
class Design:
    """A cell is the set of players at b's value, as bits. `words`: per player, the letters that it is made of."""

    players: int
    cells: tuple[int, ...]
    words: tuple[int, ...]

    @property
    def full(self) -> bool:
        return len(self.cells) == 1 << self.players

    def chains(self) -> list[tuple[tuple[int, int], ...]]:
        """Pairs of players whose interactions cannot be told apart; one pair each in a full design."""
        by_word: dict[int, list[tuple[int, int]]] = {}
        for i, j in combinations(range(self.players), 2):
            by_word.setdefault(self.words[i] ^ self.words[j], []).append((i, j))
        return [tuple(chain) for chain in by_word.values()]

    def mixed_into(self, player: int) -> list[tuple[int, ...]]:
        """Interactions of three other players that this player's share is mixed with."""
        others = [other for other in range(self.players) if other != player]
        return [
            trio
            for trio in combinations(others, 3)
            if self.words[trio[0]] ^ self.words[trio[1]] ^ self.words[trio[2]] == self.words[player]
        ]


def choose(players: int, fraction: Fraction = "auto") -> Design:
    """ "auto": full while that is at most 32 cells."""
    whole = fraction == "full" or (fraction == "auto" and players <= FULL_UP_TO)
    return full(players) if whole else folded(players)


def full(players: int) -> Design:
    return _design([1 << player for player in range(players)], players)


def folded(players: int) -> Design:
    letters = max(1, (players - 1).bit_length() + 1)
    odd = [word for word in range(1 << letters) if word.bit_count() % 2]
    return _design(sorted(odd, key=lambda word: (word.bit_count(), word))[:players], letters)


def _design(words: Sequence[int], letters: int) -> Design:
    cells = [
        sum(((letter & word).bit_count() % 2) << player for player, word in enumerate(words))
        for letter in range(1 << letters)
    ]
    return Design(len(words), tuple(cells), tuple(words))
