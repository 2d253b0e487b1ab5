"""Points in four clouds that overlap."""

import numpy as np

Points = tuple[np.ndarray, np.ndarray]


def clouds(samples: int, seed: int) -> Points:
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 4, samples)
    points = np.eye(4)[labels] + 0.4 * draw.standard_normal((samples, 4))
    return points.astype(np.float32), labels


def arrays() -> tuple[Points, Points]:
    """The points to train on, and those that are held out."""
    return clouds(640, 0), clouds(1000, 1)
