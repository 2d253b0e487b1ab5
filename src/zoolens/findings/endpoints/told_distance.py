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
    """Which tokens cannot be told apart by the text that a server writes for them."""

    classes: NDArray[np.int64]  # of each token: the number of its text
    _by_text: Mapping[str, int]
    _by_bytes: Mapping[bytes, int]

    @classmethod
    def of(cls, pieces: Sequence[bytes], shown: Sequence[str]) -> Vocabulary:
        """`pieces`: the bytes of each token, also of special ones; `shown`: the text of each, without special ones."""
        by_text: dict[str, int] = {}
        # A special token is written as nothing in a text, and by its name among the likely tokens.
        texts = [_text(piece) if text else "" for piece, text in zip(pieces, shown, strict=True)]
        classes = np.array([by_text.setdefault(text, len(by_text)) for text in texts], np.int64)
        by_bytes: dict[bytes, int] = {}
        for piece, number in zip(pieces, classes.tolist(), strict=True):
            by_bytes.setdefault(piece, number)
            by_text.setdefault(_text(piece), number)
        return cls(classes, by_text, by_bytes)

    def __len__(self) -> int:
        return len(self.classes)

    def class_of(self, token: ToldToken) -> int | None:
        """The number of a token's text; None where no token of the model has it."""
        if token.id is not None:
            return int(self.classes[token.id]) if token.id < len(self) else None
        if token.exact and token.text in self._by_bytes:
            return self._by_bytes[token.text]
        return self._by_text.get(_text(token.text))

    def in_classes(self, probabilities: Floats) -> Floats:
        """Sums over tokens with the same text. Numbers beyond the vocabulary are padding of the output."""
        return np.bincount(self.classes, probabilities[: len(self)]).astype(np.float64)


def _text(piece: bytes) -> str:
    # Servers of chats cut blanks off, and write a broken character as U+FFFD.
    return piece.decode("utf-8", "replace").strip()


def told_distance(told: NextToken, own: Floats, vocabulary: Vocabulary) -> float | None:
    """Total variation between what is told and the model's own probabilities, all tokens that are not told as one: at
    most that over all tokens. None where nothing is told."""
    if not told.top:
        return None
    if all(token.id is not None for token, _ in told.top):
        named = [(token.id if token.id is not None and token.id < len(own) else None, log) for token, log in told.top]
    else:
        named = [(vocabulary.class_of(token), log) for token, log in told.top]
        own = vocabulary.in_classes(own)
    theirs: dict[int | None, float] = {}  # None: a token that the model does not have
    for number, log in named:
        theirs[number] = theirs.get(number, 0.0) + float(np.exp(log))
    differences = [abs(chance - (0.0 if number is None else own[number])) for number, chance in theirs.items()]
    ours = sum(float(own[number]) for number in theirs if number is not None)
    return float(0.5 * (sum(differences) + abs(sum(theirs.values()) - ours)))
