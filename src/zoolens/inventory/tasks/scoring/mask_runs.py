"""Masks of classes as runs: lengths and classes of stretches of equal pixels, row by row.

A mask of 640 × 480 pixels has a few thousand runs. Two masks are compared by the ends of their runs, without pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError

Classes = NDArray[np.uint16]
Lengths = NDArray[np.int64]

MAX_CLASSES: Final = 4096
# Not a class, but the numbers of these: pixels of a truth that count nowhere, and of an answer whose class the dataset
# does not have.
UNJUDGED: Final = 65535
ELSEWHERE: Final = 65534
# 6 MiB of one mask. A photograph of 12 million pixels has some 50,000; noise has as many as pixels.
MAX_RUNS: Final = 1 << 20


@dataclass(frozen=True)
class MaskRuns:
    """Runs of a mask of this height and width."""

    lengths: NDArray[np.integer[Any]]
    classes: NDArray[np.integer[Any]]
    size: tuple[int, int]

    @property
    def pixels(self) -> Classes:
        """The mask itself, height × width."""
        return np.repeat(self.classes.astype(np.uint16), self.lengths).reshape(self.size)


def mask_runs(mask: NDArray[Any]) -> MaskRuns:
    """Runs of a mask of classes, height × width."""
    flat = mask.reshape(-1)
    starts = np.flatnonzero(np.concatenate([[True], flat[1:] != flat[:-1]])) if flat.size else np.zeros(0, np.int64)
    if len(starts) > MAX_RUNS:
        raise ModelError(
            f"A mask of {mask.shape[1]} × {mask.shape[0]} pixels changes its class {len(starts):,} times, more than "
            f"the {MAX_RUNS:,} that are kept.",
            hint="Is this a mask? Noise and plain pictures change at every pixel.",
        )
    lengths = np.diff(starts, append=flat.size).astype(np.int32)
    height, width = mask.shape
    return MaskRuns(lengths, flat[starts].astype(np.uint16), (height, width))


@dataclass(frozen=True)
class Overlap:
    """Stretches of pixels where neither of two masks changes."""

    first: NDArray[np.integer[Any]]
    second: NDArray[np.integer[Any]]
    pixels: Lengths

    @property
    def equal(self) -> NDArray[np.bool_]:
        return np.asarray(self.first == self.second)


def overlap(first: MaskRuns, second: MaskRuns) -> Overlap:
    """What two masks of one size say of the same pixels."""
    ends = [np.cumsum(mask.lengths, dtype=np.int64) for mask in (first, second)]
    # Not np.union1d, which sorts both again from the start.
    merged = np.sort(np.concatenate(ends), kind="stable")
    both = merged[np.concatenate([merged[1:] != merged[:-1], [True]])] if len(merged) else merged
    there = [mask.classes[np.searchsorted(end, both)] for mask, end in zip((first, second), ends, strict=True)]
    return Overlap(there[0], there[1], np.diff(both, prepend=0))
