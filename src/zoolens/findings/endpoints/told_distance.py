"""How far what an endpoint tells of the next token is from a model's own distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.runtimes.openai.endpoint_answers import NextToken, ToldToken

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Vocabulary:
    """Which tokens cannot be told apart by the text that a server writes for them. `whole`: the same where blanks at
    the ends of a text are kept, as most servers keep them among the likely tokens."""

    classes: NDArray[np.int64]  # of each token: the number of its text
    _by_text: Mapping[str, int]
    _by_bytes: Mapping[bytes, int]
    _strips: bool = True
    whole: Vocabulary | None = None

    @classmethod
    def of(cls, pieces: Sequence[bytes], shown: Sequence[str]) -> Vocabulary:
        """`pieces`: the bytes of each token, also of special ones; `shown`: the text of each, without special ones."""
        # A special token is written as nothing in a text, and by its name among the likely tokens.
        texts = [_text(piece, strips=True) if text else "" for piece, text in zip(pieces, shown, strict=True)]
        whole = cls(*_numbered(pieces, [_text(piece, strips=False) for piece in pieces], strips=False), False)
        return cls(*_numbered(pieces, texts, strips=True), True, whole)

    def __len__(self) -> int:
        return len(self.classes)

    def class_of(self, token: ToldToken) -> int | None:
        """The number of a token's text; None where no token of the model has it."""
        if token.id is not None:
            return int(self.classes[token.id]) if token.id < len(self) else None
        if token.exact and token.text in self._by_bytes:
            return self._by_bytes[token.text]
        return self._by_text.get(_text(token.text, strips=self._strips))

    def in_classes(self, probabilities: Floats) -> Floats:
        """Sums over tokens with the same text. Numbers beyond the vocabulary are padding of the output."""
        return np.bincount(self.classes, probabilities[: len(self)]).astype(np.float64)


def _numbered(
    pieces: Sequence[bytes], texts: Sequence[str], *, strips: bool
) -> tuple[NDArray[np.int64], dict[str, int], dict[bytes, int]]:
    by_text: dict[str, int] = {}
    classes = np.array([by_text.setdefault(text, len(by_text)) for text in texts], np.int64)
    by_bytes: dict[bytes, int] = {}
    for piece, number in zip(pieces, classes.tolist(), strict=True):
        by_bytes.setdefault(piece, number)
        by_text.setdefault(_text(piece, strips=strips), number)
    return classes, by_text, by_bytes


def _text(piece: bytes, *, strips: bool) -> str:
    # Servers of chats cut blanks off, and write a broken character as U+FFFD.
    text = piece.decode("utf-8", "replace")
    return text.strip() if strips else text


def told_distance(told: NextToken, own: Floats, vocabulary: Vocabulary) -> float | None:
    """Total variation between what is told and the model's own probabilities: at most that over all tokens. None where
    nothing is told. Where texts stand for tokens, the reading of them that is nearer to the model."""
    if not told.top:
        return None
    if all(token.id is not None for token, _ in told.top):
        numbers = [token.id if token.id is not None and token.id < len(own) else None for token, _ in told.top]
        return _distance(told, numbers, own, np.arange(len(own)))
    readings = [each for each in (vocabulary.whole, vocabulary) if each is not None]
    return min(
        _distance(told, [each.class_of(token) for token, _ in told.top], own[: len(each)], each.classes)
        for each in readings
    )


def _distance(told: NextToken, numbers: Sequence[int | None], own: Floats, classes: NDArray[np.int64]) -> float:
    """`numbers`: the class of each told token, None for one that the model does not have."""
    ours = np.bincount(classes, own)
    theirs: dict[int | None, float] = {}
    for number, (_, log) in zip(numbers, told.top, strict=True):
        theirs[number] = theirs.get(number, 0.0) + float(np.exp(log))
    less = [(0.0 if number is None else float(ours[number])) - chance for number, chance in theirs.items()]
    as_one = 0.5 * (sum(map(abs, less)) + abs(sum(less)))
    named = [number for number in theirs if number is not None]
    untold = own[~np.isin(classes, named)]
    lost = sum(each for each in less if each > 0) + float(np.maximum(untold - _least(told), 0.0).sum())
    return max(as_one, lost)


def _least(told: NextToken) -> float:
    """What a token that is not told has at most: no more than the least likely one that is. The chosen token is told
    however unlikely it is."""
    same = [(token.id, token.text) == (told.token.id, told.token.text) for token, _ in told.top]
    chosen = same.index(True) if True in same else None
    return float(np.exp(min((log for place, (_, log) in enumerate(told.top) if place != chosen), default=0.0)))


def tells_enough(told: NextToken, asked: int, allowance: float) -> bool:
    """Whether as many likely tokens are told as were asked for, or all that matter."""
    return len(told.top) >= asked or sum(float(np.exp(log)) for _, log in told.top) >= 1 - allowance
