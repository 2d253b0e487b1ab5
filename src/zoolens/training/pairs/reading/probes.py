"""Experiments on single live layers that need only their answers, whatever the framework."""

from __future__ import annotations

from collections.abc import Callable
from math import isclose
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.training.pairs.reading.side_facts import NormFact, PaddingFact

# One channel's values of a batch: mean 1, variance 1 if divided by n, 2 if divided by n − 1.
_BATCH: Final = np.array([0.0, 2.0], np.float32)
STRIDED_INPUT: Final = np.arange(1.0, 17.0, dtype=np.float32).reshape(4, 4)
_KERNEL, _STRIDE = 3, 2


def norm_fact(layer: str, epsilon: float, step: Callable[[NDArray[Any]], tuple[float, float]]) -> NormFact:
    """`step`: mean and variance that a fresh layer (statistics 0 and 1) keeps after training on a batch."""
    mean, variance = step(_BATCH)
    kept = float(f"{1.0 - mean:.4g}")
    seen = (variance - kept) / mean if mean else 0.0
    divisor = next((name for name, value in (("n", 1.0), ("n - 1", 2.0)) if isclose(seen, value, rel_tol=0.01)), "?")
    return NormFact(layer=layer, epsilon=float(f"{epsilon:.6g}"), kept=kept, divisor=divisor)


def padding_fact(answer: NDArray[Any], asked: str) -> PaddingFact:
    """`answer`: what a 3×3 layer with stride 2, whose only weight is in the middle of its top row, makes of
    STRIDED_INPUT: the row above the first one is zeros."""
    before = 1 if not answer[0].any() else 0
    end = _STRIDE * (len(answer) - 1) - before + _KERNEL
    return PaddingFact(before=before, after=max(0, end - len(STRIDED_INPUT)), asked=asked)
