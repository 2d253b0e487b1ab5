"""Requests for the next token of a sequence, answered by runtimes that keep keys and values of the tokens before it.

Each step of a text sends all of its tokens. The instance knows which of them its session has seen, and hands over the
others alone, so that a step is right whatever was computed in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from zoolens.base.protocol.messages import InferRequest, Tensor

EXTENDS: Final = "extend"  # the ability of a runtime


@dataclass(frozen=True, slots=True)
class PlacedRequest(InferRequest):
    """`place`: which instance is to answer, where it can."""

    place: int = 0


@dataclass(frozen=True, slots=True)
class NextTokenRequest(PlacedRequest):
    """`tokens`: the input with the tokens so far (1 × tokens), as the model declares it. Steps of one text are quick
    only where the others were run."""

    tokens: str = ""


def preferred_place(request: InferRequest) -> int | None:
    """Which instance should answer a request; None: any."""
    return request.place if isinstance(request, PlacedRequest) else None


def common_beginning(before: Tensor, tokens: Tensor) -> int:
    """How many tokens two sequences begin with alike."""
    count = min(len(before), len(tokens))
    other = np.flatnonzero(before[:count] != tokens[:count])
    return int(other[0]) if len(other) else count
