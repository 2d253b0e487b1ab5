"""Tokens with a colour: how little two models agree on each of them, or how likely one model found it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.findings.comparisons.text_disagreements import TextPositions
from zoolens.inventory.tasks.scoring.next_tokens import KeptTokens

LEVELS: Final = (0.02, 0.05, 0.1, 0.2, 0.4)  # of 1 − agreement: where the next colour begins
LIKELY: Final = (0.5, 0.2, 0.05, 0.01, 0.001)  # of the probability of what follows: where the next colour begins
_SIGNS: Final = {"\n": "↵\n", "\t": "⇥\t", "\r": "␍"}
_LONGEST: Final = 60  # characters of a token in words
_PART: Final = "·"  # a token that holds only a part of the character before it
_BEST: Final = 3  # tokens that one model found most likely


@dataclass(frozen=True)
class ColouredToken:
    """`level`: of the colour, from 0 (none) to 5. `other`: another token was found most likely, by a model of a panel
    than by the first of them, or by one model than the token that follows. `said`: what is told of it, in lines."""

    text: str
    level: int
    other: bool
    said: str


def agreement_legend() -> list[str]:
    """What each level of `compared_tokens` stands for."""
    ends = [f"{100 * level:g} %" for level in LEVELS]
    between = [f"{low} to {high}" for low, high in pairwise(ends)]
    return [f"below {ends[0]}", *between, f"{ends[-1]} and more"]


def likelihood_legend() -> list[str]:
    """What each level of `likely_tokens` stands for."""
    ends = [f"{100 * level:g} %" for level in LIKELY]
    between = [f"{high} to {low}" for low, high in pairwise(ends)]
    return [f"{ends[0]} and more", *between, f"below {ends[-1]}"]


def words_asked(at: TextPositions) -> Iterator[int]:
    """The tokens that `compared_tokens` names."""
    yield from map(int, at.following)
    yield from map(int, at.best.flat)


def compared_tokens(
    at: TextPositions, pieces: Sequence[str], words: Mapping[int, str], letters: Sequence[str]
) -> Iterator[ColouredToken]:
    """The first tokens of a text, coloured by 1 − agreement of a panel. `letters`: of its models."""
    differing = at.differing
    for place, piece in enumerate(pieces):
        level = bisect_right(LEVELS, 1 - float(at.agreement[place]))
        yield ColouredToken(visible(piece) or _PART, level, bool(differing[place]), _said(at, place, words, letters))


def _said(at: TextPositions, place: int, words: Mapping[int, str], letters: Sequence[str]) -> str:
    agreement = f"agreement {100 * float(at.agreement[place]):.1f} %, KL {float(at.divergence[place]):.4f} nats"
    lines = [f"{_named(words, at.following[place])} follows: {agreement}"]
    for letter, best, log, true in zip(
        letters, at.best[:, place], at.best_logs[:, place], at.true_logs[:, place], strict=True
    ):
        lines.append(f"{letter}: {_named(words, best)} {_share(log)} most likely, {_share(true)} for what follows")
    return "\n".join(lines)


def likely_tokens(
    following: NDArray[np.integer], kept: KeptTokens, pieces: Sequence[str], words: Mapping[int, str]
) -> Iterator[ColouredToken]:
    """The first tokens of a text, coloured by how unlikely one model found them."""
    for place, piece in enumerate(pieces):
        share = math.exp(float(kept.true[place]))
        level = sum(share < bound for bound in LIKELY)
        best = zip(kept.ids[place, :_BEST], kept.logs[place, :_BEST], strict=True)
        listed = ", ".join(f"{_named(words, number)} {_share(log)}" for number, log in best)
        said = f"{_named(words, following[place])} follows: {_share(kept.true[place])}\nmost likely: {listed}"
        yield ColouredToken(visible(piece) or _PART, level, bool(kept.ids[place, 0] != following[place]), said)


def words_of_one(following: NDArray[np.integer], kept: KeptTokens) -> Iterator[int]:
    """The tokens that `likely_tokens` names."""
    yield from map(int, following)
    yield from map(int, kept.ids[:, :_BEST].flat)


def _share(log: float) -> str:
    return f"{100 * math.exp(float(log)):.3g} %"


def _named(words: Mapping[int, str], number: np.integer) -> str:
    return f"“{visible(words[int(number)])[:_LONGEST].rstrip(chr(10))}”"


def visible(text: str) -> str:
    """A text with its lines, without signs that steer how it is shown."""
    return "".join(sign if sign.isprintable() else _SIGNS.get(sign, "\N{REPLACEMENT CHARACTER}") for sign in text)
