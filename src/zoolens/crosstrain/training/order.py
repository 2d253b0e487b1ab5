"""One epoch's samples in their order, augmented: the same on every side, from the recipe's seed and the epoch alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from zoolens.crosstrain.training.recipe import Recipe
from zoolens.crosstrain.training.trainers.base import TrainData

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


def batches(data: TrainData, recipe: Recipe, epoch: int, *, salt: str = "") -> EpochBatches:
    """`epoch` counts from 1. `salt` (a framework's name) makes an order of its own where the recipe says so."""
    draw = _Draws(recipe, epoch, salt if recipe.order == "own" else "")
    count = len(data.train_y)
    # raw bits, since numpy promises those for ever and the sampling built on them only for one version
    order = np.argsort(draw.bits("order", count), kind="stable")
    images = data.train_x[order]
    if recipe.augmentation != "none":
        _flip(images, (draw.bits("flip", count) >> np.uint64(63)).astype(bool))
    if recipe.augmentation == "flip-crop":
        images = _cropped(
            images, draw.below("down", count, 2 * _BORDER + 1), draw.below("right", count, 2 * _BORDER + 1)
        )
    return EpochBatches(images, data.train_y[order], min(recipe.batch_size, count))


def steps(recipe: Recipe, samples: int) -> int:
    """In one epoch; the last, smaller batch is a step too."""
    return -(-samples // recipe.batch_size)


class _Draws:
    """Random numbers by purpose, so that asking for one more kind changes none of the others."""

    def __init__(self, recipe: Recipe, epoch: int, salt: str) -> None:
        self._key = f"{recipe.seed}/{epoch}/{salt}"

    def bits(self, purpose: str, count: int) -> NDArray[np.uint64]:
        seed = int.from_bytes(hashlib.sha256(f"{self._key}/{purpose}".encode()).digest()[:16])
        bits: NDArray[np.uint64] = np.random.PCG64(seed).random_raw(count)
        return bits

    def below(self, purpose: str, count: int, bound: int) -> NDArray[np.int64]:
        return (self.bits(purpose, count) >> np.uint64(32)).astype(np.int64) * bound >> 32


def _flip(images: NDArray[np.uint8], chosen: NDArray[Any]) -> None:
    images[chosen] = images[chosen, :, ::-1]


def _cropped(images: NDArray[np.uint8], down: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.uint8]:
    height, width = images.shape[1:3]
    padded = np.pad(images, ((0, 0), (_BORDER, _BORDER), (_BORDER, _BORDER), (0, 0)))
    windows = sliding_window_view(padded, (height, width), axis=(1, 2))
    return np.ascontiguousarray(windows[np.arange(len(images)), down, right].transpose(0, 2, 3, 1))
