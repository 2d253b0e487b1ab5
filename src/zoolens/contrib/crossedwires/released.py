"""Whether a regenerated initial design is the one of the released trials: the overlap φ shows in it."""

from __future__ import annotations

from typing import Final

import numpy as np

from zoolens.contrib.crossedwires.design import PUBLISHED_INITIAL, PUBLISHED_OVERLAP, PUBLISHED_SPACE
from zoolens.training.crosstrain.study.search.hyperspace import Point
from zoolens.training.crosstrain.study.study_plan import Search
from zoolens.training.crosstrain.training.trials import Study

_NAMES: Final = {"optimizer.epsilon": "adam_epsilon"}  # ours -> the release's
_ROUNDING: Final = 6e-10  # VGG16 was released with nine decimals


def published_search(overlap: float = PUBLISHED_OVERLAP) -> Search:
    return Search(split=None, overlap=overlap, design="published", initial=PUBLISHED_INITIAL)


def hits(points: tuple[Point, ...], study: Study) -> int:
    """How many of the points were released in this study; integers must be equal."""
    names = [dimension.name for dimension in PUBLISHED_SPACE]
    slack = [0.0 if dimension.integer else _ROUNDING for dimension in PUBLISHED_SPACE]
    ours = np.array([[point[name] for name in names] for point in points], np.float64)
    theirs = np.stack([study.column(_NAMES.get(name, name)) for name in names], axis=1)
    near = np.abs(ours[:, None] - theirs[None]) <= slack
    return int(near.all(axis=2).any(axis=1).sum())
