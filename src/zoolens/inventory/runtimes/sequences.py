"""Sequences of tokens that a session continues: what is checked before, and the distribution that comes after.

A session knows the tokens of its sequences, so that what its framework forgot is computed again: the cache after
another text went through the same context, or one that cannot be cut. Numpy and the standard library only: workers
import it.
"""

from __future__ import annotations

from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError

MOST_ROWS: Final = 64
_MAX_ANSWER_BYTES: Final = 1 << 30
_MAX_TEXTS_BYTES: Final = 1 << 32  # of the scores at all positions

Floating = TypeVar("Floating", bound=np.floating)
Array = NDArray[np.float32]
Ids = NDArray[np.int32]


class Sequences:
    """The tokens so far (rows × tokens), of rows that are all as long. `longest`: None where the model has no limit."""

    def __init__(self, name: str, vocabulary: int, longest: int | None) -> None:
        self._name, self.vocabulary, self._longest = name, vocabulary, longest
        self.tokens: Ids = np.empty((1, 0), np.int32)

    def __len__(self) -> int:
        return int(self.tokens.shape[1])

    def continued(self, tokens: NDArray[np.integer], kept: int | None) -> tuple[Ids, int]:
        """The whole sequences with the new tokens, and how many of the earlier ones stay. Nothing is changed yet."""
        if tokens.ndim != 2 or tokens.dtype.kind not in "iu":
            raise ModelError(f"Tokens are whole numbers, rows × tokens, not {tokens.dtype} of {tokens.ndim} axes.")
        rows, count = tokens.shape
        stays = len(self) if kept is None else kept
        if not 0 <= stays <= len(self):
            raise ModelError(f"{stays:,} tokens cannot stay of a sequence of {len(self):,}.")
        if stays and rows != len(self.tokens):
            raise ModelError(f"{len(self.tokens)} sequences cannot be continued with {rows} rows of tokens.")
        self._check_size(rows, count, stays + count)
        check_vocabulary(tokens, self.vocabulary, self._name)
        new = tokens.astype(np.int32)
        return (np.concatenate([self.tokens[:, :stays], new], axis=1) if stays else new), stays

    def _check_size(self, rows: int, count: int, whole: int) -> None:
        if not rows or not count:
            raise ModelError("A sequence is continued with one token at least.")
        if self._longest is not None and whole > self._longest:
            raise ModelError(
                f"The sequence would have {whole:,} tokens, and the context of {self._name} has {self._longest:,}."
            )
        if rows > MOST_ROWS or rows * self.vocabulary * 4 > _MAX_ANSWER_BYTES:
            raise ModelError(f"{rows:,} sequences at once are too many; {MOST_ROWS} are continued at most.")


def check_texts(name: str, ids: NDArray[np.integer], vocabulary: int, model: str) -> None:
    """ModelError where an input (texts × tokens) cannot be answered with a distribution at each of its positions."""
    texts, tokens = ids.shape
    if tokens == 0:
        raise ModelError(f"Input {name!r} holds a text without tokens; one is needed at least.")
    check_vocabulary(ids, vocabulary, model)
    if ids.size * vocabulary * 4 > _MAX_TEXTS_BYTES:
        raise ModelError(
            f"The scores of {texts:,} × {tokens:,} tokens would take {ids.size * vocabulary * 4:,} bytes, and "
            f"{_MAX_TEXTS_BYTES:,} are given at most.",
            hint="Use smaller batches or shorter texts.",
        )


def check_vocabulary(ids: NDArray[np.integer], vocabulary: int, model: str) -> None:
    wrong = ids[(ids < 0) | (ids >= vocabulary)]
    if wrong.size:
        raise ModelError(
            f"The tokens hold the id {int(wrong[0])}, and the vocabulary of {model} ends at {vocabulary - 1:,}.",
            hint="Is the tokenizer that of the model?",
        )


def largest_difference(a: NDArray[np.floating], b: NDArray[np.floating]) -> float:
    """Compares log-probabilities: tokens that both rule out (-inf) do not differ; NaN if any is NaN."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(a - b)
    return float(np.where(a == b, 0.0, apart).max())


def log_probabilities(scores: NDArray[Floating]) -> NDArray[Floating]:
    """The logarithms of the probabilities of scores (… × tokens), in their type. Their exponentials sum up to 1."""
    largest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    if not np.isfinite(largest).all():
        raise ModelError("The model answered NaN or infinity for a token.")
    shifted = scores - largest
    sums = np.exp(shifted).sum(axis=-1, keepdims=True, dtype=np.float64)
    return np.asarray(shifted - np.log(sums), scores.dtype)
