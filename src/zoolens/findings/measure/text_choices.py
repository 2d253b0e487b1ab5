"""Texts with choices: each choice is a call of the model, of whose answer the positions of the choice are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.findings.measure.judged_output import Raw
from zoolens.inventory.preprocess.text import PrepareText

Array = NDArray[Any]


def answered_choices(text: PrepareText, batch: Array, answer: Callable[[Array], tuple[Raw, ...]]) -> tuple[Raw, ...]:
    """The answers to the choices of one sample, the positions of one choice behind those of the one before. `answer`:
    what each output answers to one call."""
    pieces = [[_kept(text, call, raw) for raw in answer(call)] for call in text.halves(batch)]
    return tuple(_joined(parts) for parts in zip(*pieces, strict=True))


def _kept(text: PrepareText, call: Array, raw: Raw) -> dict[str, Array]:
    assert isinstance(raw, Mapping)  # the task has roles
    # Copies: the logits of the other positions can then be forgotten.
    return {role: text.kept_positions(call, tensor).copy() for role, tensor in raw.items()}


def _joined(parts: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    return {role: np.concatenate([part[role] for part in parts], axis=1) for role in parts[0]}
