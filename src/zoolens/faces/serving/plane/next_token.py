"""Requests for the next token of a sequence, answered by runtimes that keep keys and values of the tokens before it.

Each step of a text sends all of its tokens. The instance knows which of them its session has seen, and hands over the
others alone, so that a step is right whatever was computed in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zoolens.base.protocol.messages import InferRequest

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
