"""Requests for whole texts: one tier of a service writes each of them, from its first token to its last.

Such a request is queued, given to a tier by the policy, counted and told to observers like any other. Its inputs are
the tokens that it may write. Its instance is held until the text has ended, so that no other text comes in between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.numerics.sequence_alignment import common_beginning
from zoolens.base.protocol.messages import InferRequest, Parameter, Tensor
from zoolens.faces.serving.plane.instance import BatchOutcome, Instance

_PIECE: Final = 512  # tokens of a prompt that are computed in one call, as llama.cpp does by default
WRITTEN: Final = "tokens"  # the only output of such a request: how many were written


@dataclass(frozen=True)
class TextLimits:
    """The longest prompt that a service accepts and the most that it writes behind one, in tokens."""

    prompt: int
    answer: int
    share: float = 0.95  # of texts that are to have no more tokens than is expected of them


class TextTurn:
    """A tier that writes one text, on an instance that is held until `end`. `by` says which one it is. `lost`: its
    worker has died."""

    def __init__(self, instance: Instance, by: Mapping[str, Parameter]) -> None:
        self.by = by
        self.lost = False
        self.read: int | None = None  # tokens of the prompt that were computed: all but those that were known
        self._instance = instance
        instance.hold()

    def end(self) -> None:
        """Give the instance back."""
        self._instance.let_go()

    def ends(self, tokens: Tensor) -> Iterator[int]:
        """Where calls end that compute a sequence: what the instance does not know of a long one takes several."""
        known = common_beginning(self._instance.sequence, tokens)
        if self.read is None:
            self.read = len(tokens) - min(known, len(tokens) - 1)
        yield from ends_of_calls(known, len(tokens))

    async def after(self, tokens: Tensor) -> Tensor:
        """Scores of the token after a sequence."""
        future: asyncio.Future[BatchOutcome] = asyncio.get_running_loop().create_future()
        self._instance.extend(tokens[None], future.set_result)
        outcome = await asyncio.shield(future)
        if outcome.answers is None:
            self.lost = outcome.worker_lost
            raise outcome.error or ZoolensError("The model gave no answer.")
        (after,) = outcome.answers.values()
        return np.asarray(after[0], np.float64)


def ends_of_calls(known: int, count: int) -> Iterator[int]:
    """Where the calls end that compute a sequence of so many tokens, of which the first ones are known."""
    yield from range(known + _PIECE, count, _PIECE)
    yield count


Write = Callable[[TextTurn], Awaitable[int]]


async def _nobody(_: TextTurn) -> int:
    raise ZoolensError("Nobody writes this text.")


@dataclass(frozen=True, slots=True)
class TextRequest(InferRequest):
    """`most`: tokens to write at most. `write` writes the text with a tier, and says how many tokens it has; it raises
    a ZoolensError where the model fails, and where nobody waits for the text any more."""

    most: int = 1
    write: Write = _nobody


async def written(request: TextRequest, turn: TextTurn) -> BatchOutcome:
    """What became of a text."""
    begun_ns = time.perf_counter_ns()
    try:
        tokens = await request.write(turn)
    except ZoolensError as error:
        return BatchOutcome(None, error, turn.lost)
    took_ns = time.perf_counter_ns() - begun_ns
    return BatchOutcome({WRITTEN: np.array([tokens])}, infer_ns=took_ns)
