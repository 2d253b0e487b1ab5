"""Pairs of texts that a model takes one by one: the answers to both are kept beside each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.findings.measure.judged_output import Raw
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.datasets.text_dataset import TextPair

Array = NDArray[Any]
Read = Callable[[Array], NDArray[np.float32]]


def has_pairs(dataset: Dataset) -> bool:
    """Whether samples are pairs of texts."""
    if not len(dataset):
        return False
    value = dataset.read(0).value
    return value.dtype == object and isinstance(value.item(), TextPair)


def beside(answers: Sequence[tuple[Raw, ...]]) -> tuple[Raw, ...]:
    """The answers of each output to a batch; to both texts of pairs, inputs × 2 × numbers."""
    if len(answers) == 1:
        return answers[0]
    rows = [[np.asarray(raw).reshape(len(raw), -1) for raw in half] for half in answers]
    return tuple(np.stack(both, axis=1) for both in zip(*rows, strict=True))


def reading_both(read: Read) -> Read:
    """Reads the vectors of the two texts of each pair, and puts one behind the other."""
    return lambda raw: np.concatenate([read(raw[:, 0]), read(raw[:, 1])], axis=1)
