"""The initial design of the published study (CrossedWires, Zvyagin et al. 2021), drawn again.

It reproduces what `skopt.Optimizer(space, random_state=0)` of scikit-optimize answers to its first asks under a
Gaussian process: one integer is drawn for the estimator, then for each point one uniform number per dimension, in the
order of the space, stretched by the last bit so that the upper end can be hit, scaled to the range, integers rounded
to the nearest. All subspaces of the study began at the same state, so they share the same ten points in proportion.

Inferred from the release (assets crossedwires): the order of the dimensions below, the ranges, φ = 0.25 (the paper
says 0.5) and uniform priors hit 160 of 160 points of each architecture. 120 of the 160 are equal to the last bit, the
others to within two units in the last place. VGG16 was released with nine decimals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.training.crosstrain.study.search.hyperspace import Axis, Point
from zoolens.training.crosstrain.study.study_plan import Dimension
from zoolens.training.crosstrain.training.trials import Hyperparameter

PUBLISHED_SPACE: Final = (
    Dimension(name="learning_rate", low=1e-8, high=0.1),
    Dimension(name="batch_size", low=10, high=1000, integer=True),
    Dimension(name="optimizer.epsilon", low=1e-8, high=1.0),
    Dimension(name="epochs", low=1, high=50, integer=True),
)
PUBLISHED_OVERLAP: Final = 0.25
PUBLISHED_INITIAL: Final = 10

_INCLUSIVE: Final = float(np.nextafter(1.0, 2.0))


def published_points(axes: Sequence[Axis], random_state: int = 0) -> Iterator[Point]:
    """scikit-optimize's initial points of one subspace, without end."""
    for axis in axes:
        if axis.choices:
            raise ZoolensError(
                f"The published design knows no choices, and {axis.name} is a list of them.",
                hint="Use design: halton.",
            )
    return _points(axes, np.random.RandomState(random_state % (1 << 32)))


def _points(axes: Sequence[Axis], generator: np.random.RandomState) -> Iterator[Point]:
    generator.randint(0, np.iinfo(np.int32).max)  # went to the estimator
    while True:
        yield {axis.name: _drawn(axis, float(generator.random_sample()) * _INCLUSIVE) for axis in axes}


def _drawn(axis: Axis, share: float) -> Hyperparameter:
    low, high = (math.log10(axis.low), math.log10(axis.high)) if axis.log else (axis.low, axis.high)
    value = share * (high - low) + low
    value = min(max(10**value if axis.log else value, axis.low), axis.high)
    return int(np.round(value)) if axis.integer else value
