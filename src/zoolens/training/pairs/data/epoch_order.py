"""One epoch's samples in their order, augmented: the same on every side, from the seed and the epoch alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from zoolens.training.pairs.data.train_data import TrainData

_BORDER: Final = 4  # pixels of zeros around an image before it is cropped


@dataclass(frozen=True)
class EpochBatches:
    """`x` uint8 N×H×W×C and `y` int32, in order; batch i is rows i·batch_size to (i+1)·batch_size, the last one may
    be smaller. Both may be the dataset's own memory: read only."""

    x: NDArray[np.uint8]
    y: NDArray[np.int32]
    batch_size: int

    def slices(self) -> Iterator[slice]:
        return (slice(start, start + self.batch_size) for start in range(0, len(self.y), self.batch_size))


class SampleOrder(Protocol):
    """All that decides about the order of samples and their augmentation; a recipe is one."""

    @property
    def seed(self) -> int: ...
    @property
    def order(self) -> str: ...
    @property
    def augmentation(self) -> str: ...
    @property
    def batch_size(self) -> int: ...


def batches(data: TrainData, recipe: SampleOrder, epoch: int, *, salt: str = "") -> EpochBatches:
    """`epoch` counts from 1. `salt` (a framework's name) makes an order of its own where the recipe says so."""
    count = len(data.train_y)
    draws = EpochDraws(f"{recipe.seed}/{epoch}/{salt if recipe.order == 'own' else ''}", count)
    images = draws.augmented(data.train_x[draws.order], recipe.augmentation)
    return EpochBatches(images, data.train_y[draws.order], min(recipe.batch_size, count))


def steps(recipe: SampleOrder, samples: int) -> int:
    """Counts the steps of one epoch; the last, smaller batch is a step too."""
    return -(-samples // recipe.batch_size)


class EpochDraws:
    """What is random in one epoch of `count` samples, from a key alone. Random numbers are drawn by purpose, so that
    asking for one more kind changes none of the others."""

    def __init__(self, key: str, count: int) -> None:
        self._key, self._count = key, count
        self._drawn: dict[str, NDArray[np.uint64]] = {}

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """The samples' order: raw bits, since numpy promises those for ever and the sampling built on them only for one
        version."""
        return np.argsort(self._bits("order"), kind="stable")

    def augmented(self, images: NDArray[Any], augmentation: str, rows: slice = slice(None)) -> NDArray[Any]:
        """Images N×H×W×C, which are these rows of the epoch: flipped, and cropped where asked. They may be modified."""
        if augmentation != "none":
            _flip(images, (self._bits("flip")[rows] >> np.uint64(63)).astype(bool))
        if augmentation == "flip-crop":
            shifts = 2 * _BORDER + 1
            images = _cropped(images, self._below("down", shifts)[rows], self._below("right", shifts)[rows])
        return images

    def _bits(self, purpose: str) -> NDArray[np.uint64]:
        if purpose not in self._drawn:
            seed = int.from_bytes(hashlib.sha256(f"{self._key}/{purpose}".encode()).digest()[:16])
            self._drawn[purpose] = np.random.PCG64(seed).random_raw(self._count)
        return self._drawn[purpose]

    def _below(self, purpose: str, bound: int) -> NDArray[np.int64]:
        return (self._bits(purpose) >> np.uint64(32)).astype(np.int64) * bound >> 32


def _flip(images: NDArray[Any], chosen: NDArray[Any]) -> None:
    images[chosen] = images[chosen, :, ::-1]


def _cropped(images: NDArray[Any], down: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[Any]:
    height, width = images.shape[1:3]
    padded = np.pad(images, ((0, 0), (_BORDER, _BORDER), (_BORDER, _BORDER), (0, 0)))
    windows = sliding_window_view(padded, (height, width), axis=(1, 2))
    return np.ascontiguousarray(windows[np.arange(len(images)), down, right].transpose(0, 2, 3, 1))
