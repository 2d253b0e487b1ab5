"""A prompt as the beginning of its own answer, with what the model foresees of each of its tokens."""

from __future__ import annotations

import codecs
from typing import Final

import numpy as np

from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import Tensor
from zoolens.faces.serving.contracts.language import LikelyToken, TextPart, WrittenToken
from zoolens.inventory.preprocess.generating_tokenizer import GeneratingTokenizer
from zoolens.inventory.runtimes.sequences import log_probabilities
from zoolens.inventory.tasks.scoring.next_tokens import most_likely

_MOST_BYTES: Final = 1 << 29  # of the scores of a prompt: those of 2,730 tokens, of a vocabulary of 49,152


def check_echo(tokens: int, vocabulary: int) -> None:
    """Refuse a prompt whose scores would take too much memory."""
    most = _MOST_BYTES // (4 * vocabulary)
    if tokens > most:
        raise ServingError(
            Refusal.INVALID,
            f"The prompt has {tokens:,} tokens; log-probabilities of a prompt are told of {most:,} at most.",
        )


def echoed(ids: list[int], scores: Tensor | None, top: int, tokenizer: GeneratingTokenizer) -> TextPart:
    """`scores`: tokens × vocabulary, after each token; None: no log-probabilities were asked for."""
    if scores is None:
        (text,) = tokenizer.texts([ids])
        return TextPart(text, (), "", len(ids), 0)
    tokens: list[WrittenToken] = []
    text, decoder = "", codecs.getincrementaldecoder("utf-8")(errors="replace")
    begun = False
    for place, number in enumerate(ids):
        likely, logarithms = _foreseen(scores, place, top, number)
        pieces = tokenizer.pieces([number, *likely])
        begun, left_out = (True, 0) if begun else _left_out(number, pieces[0], tokenizer)
        told = [
            LikelyToken(each, piece, logarithm)
            for each, piece, logarithm in zip([number, *likely], pieces, logarithms, strict=True)
        ]
        tokens.append(WrittenToken(told[0], len(text), tuple(told[1:])))
        text += decoder.decode(pieces[0][left_out:])
    return TextPart(text + decoder.decode(b"", final=True), tuple(tokens), "", len(ids), 0)


def _left_out(number: int, piece: bytes, tokenizer: GeneratingTokenizer) -> tuple[bool, int]:
    """Whether a text begins with a token, and how many of its bytes the beginning of a text leaves out: a blank."""
    (alone,) = tokenizer.texts([[number]])
    return bool(alone), int(bool(alone) and piece.startswith(b" ") and not alone.startswith(" "))


def _foreseen(scores: Tensor, place: int, top: int, number: int) -> tuple[list[int], list[float | None]]:
    """The likeliest tokens at a place, and the logarithms of the token itself and of these."""
    if place == 0:
        return [], [None]
    logarithms = log_probabilities(np.asarray(scores[place - 1], np.float64))
    (likely,), _ = most_likely(logarithms[np.newaxis], top)
    return likely.tolist(), [float(logarithms[each]) for each in (number, *likely)]
