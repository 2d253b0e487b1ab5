"""Pictures of stripes: each second row repeats the row before it, or has it the other way round."""

import numpy as np

Pictures = tuple[np.ndarray, np.ndarray]


def stripes(samples: int, seed: int) -> Pictures:
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, samples)
    pictures = draw.standard_normal((samples, 1, 7, 7))
    for row in (2, 4, 6):
        pictures[:, 0, row] = pictures[:, 0, row - 1] * (2 * labels - 1)[:, None]
    return (pictures + 0.3 * draw.standard_normal(pictures.shape)).astype(np.float32), labels


def arrays() -> tuple[Pictures, Pictures]:
    """The pictures to train on, and those that are held out."""
    return stripes(1280, 0), stripes(1000, 1)
