"""One text as it is written: tokens come in, and what may be shown of the text goes out.

A stop sequence is no part of the answer, and may come in several tokens: what could be the beginning of one is kept
back until it is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zoolens.faces.serving.contracts.language import End, GenerationRequest, LikelyToken, TextPart, WrittenToken
from zoolens.faces.serving.language.token_choice import Floats, TokenChoice
from zoolens.inventory.preprocess.generating_tokenizer import GeneratingTokenizer, GrowingText
from zoolens.inventory.tasks.scoring.next_tokens import most_likely


@dataclass(frozen=True)
class Room:
    """How long a text may be, which tokens end it, the characters of the answer before it, and the tokens that it goes
    on with, where these are text as well."""

    prompt_tokens: int
    most: int
    ends: frozenset[int]
    before: int = 0
    behind: Sequence[int] = ()


class TextWriter:
    """It belongs to one thread at a time. `chosen` holds the tokens so far."""

    def __init__(self, request: GenerationRequest, tokenizer: GeneratingTokenizer, room: Room) -> None:
        self._request, self._tokenizer, self._room = request, tokenizer, room
        self._choice = TokenChoice(request.sampling)
        self._growing = GrowingText(tokenizer, room.behind)
        self.chosen: list[int] = []
        self._kept = ""  # text that is not shown yet
        self._shown = room.before  # characters
        self._waiting: list[WrittenToken] = []  # tokens of text that is not shown yet

    def add(self, logarithms: Floats) -> TextPart:
        """Choose the next token."""
        number = self._choice.choose(logarithms)
        self.chosen.append(number)
        if number in self._room.ends:
            return self._last("stop")
        if self._request.top is not None:
            self._waiting.append(self._told(number, logarithms, self._request.top))
        self._kept += self._growing.add(number)
        if (place := _first_stop(self._kept, self._request.stops)) is not None:
            return self._part(place, "stop")
        if len(self.chosen) >= self._room.most:
            return self._last("length")
        return self._part(len(self._kept) - _may_begin(self._kept, self._request.stops), "")

    def nothing(self) -> TextPart:
        """The answer of no tokens."""
        return self._part(0, "length")

    def _last(self, end: End) -> TextPart:
        """All that is left, which may hold a stop with its very last character."""
        self._kept += self._growing.end()
        place = _first_stop(self._kept, self._request.stops)
        return self._part(len(self._kept), end) if place is None else self._part(place, "stop")

    def _part(self, length: int, end: End) -> TextPart:
        text, self._kept = self._kept[:length], self._kept[length:]
        stopped = bool(end) and bool(self._kept)
        self._shown += len(text)
        ready = [token for token in self._waiting if token.start < self._shown or (end and not stopped)]
        self._waiting = self._waiting[len(ready) :]
        return TextPart(text, tuple(ready), end, self._room.prompt_tokens, len(self.chosen))

    def _told(self, number: int, logarithms: Floats, top: int) -> WrittenToken:
        (found,), _ = most_likely(logarithms[np.newaxis], top)
        likely = found.tolist()
        pieces = self._tokenizer.pieces([number, *likely])
        chosen, *others = [
            LikelyToken(each, piece, float(logarithms[each]))
            for piece, each in zip(pieces, [number, *likely], strict=True)
        ]
        return WrittenToken(chosen, self._shown + len(self._kept), tuple(others))


def _first_stop(text: str, stops: Sequence[str]) -> int | None:
    """Where the first stop begins."""
    places = [place for stop in stops if (place := text.find(stop)) >= 0]
    return min(places, default=None)


def _may_begin(text: str, stops: Sequence[str]) -> int:
    """How many characters at the end of the text may be the beginning of a stop."""
    longest = 0
    for stop in stops:
        most = min(len(stop) - 1, len(text))
        longest = max(longest, next((size for size in range(most, 0, -1) if text.endswith(stop[:size])), 0))
    return longest
