"""Data of one's own: what a user's loader gives, with its own order and augmentation."""

from collections.abc import Iterator

import numpy as np


def squares(samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy images of 32×32×3 with a bright square in one of ten places: the place is the class."""
    draw = np.random.default_rng(seed)
    images = draw.random((samples, 32, 32, 3), dtype=np.float32)
    labels = draw.integers(0, 10, samples)
    for image, label in zip(images, labels, strict=True):
        row, column = divmod(int(label), 5)
        image[4 + 14 * row : 10 + 14 * row, 1 + 6 * column : 7 + 6 * column] += 0.3
    return images, labels


def arrays() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """All samples at once: those to train on, and those that are held out."""
    return squares(2000, 0), squares(500, 1)


def batches() -> tuple[Iterator[tuple[np.ndarray, np.ndarray]], list[tuple[np.ndarray, np.ndarray]]]:
    """The same as a stream: shuffled anew each time it is asked for, with a random contrast."""
    return varied(*squares(2000, 0)), [squares(500, 1)]


def varied(images: np.ndarray, labels: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    draw = np.random.default_rng()
    order = draw.permutation(len(labels))
    for start in range(0, len(order), 64):
        chosen = order[start : start + 64]
        contrast = draw.uniform(0.8, 1.2, (len(chosen), 1, 1, 1)).astype(np.float32)
        yield images[chosen] * contrast, labels[chosen]
