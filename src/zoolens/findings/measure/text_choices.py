"""Texts with choices: each choice is a call of the model, of whose answer the positions of the choice are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zoolens.findings.measure.judged_output import Raw
from zoolens.inventory.preprocess.text import PrepareText

if TYPE_CHECKING:
    from zoolens.findings.measure.subject import Subject


def answered_choices(subject: Subject, text: PrepareText, batch: NDArray[Any]) -> tuple[Raw, ...]:
    """The answers to the choices of one sample, the positions of one choice behind those of the one before."""
    pieces: list[list[dict[str, NDArray[Any]]]] = []
    for call in text.halves(batch):
        answers = subject.raw_answers(subject.session.predict(subject.named_inputs(call)), call)
        pieces.append([_kept(text, call, raw) for raw in answers])
    return tuple(_joined(parts) for parts in zip(*pieces, strict=True))


def _kept(text: PrepareText, call: NDArray[Any], raw: Raw) -> dict[str, NDArray[Any]]:
    assert isinstance(raw, Mapping)  # the task has roles
    # Copies: the logits of the other positions can then be forgotten.
    return {role: text.kept_positions(call, tensor).copy() for role, tensor in raw.items()}


def _joined(parts: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    return {role: np.concatenate([part[role] for part in parts], axis=1) for role in parts[0]}
