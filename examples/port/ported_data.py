"""The pipeline of `my_data.py` as somebody ported it: bytes instead of values from 0 to 1, classes from 1 on, and the
last batch of an epoch, which is smaller, is dropped."""

from collections.abc import Iterator

import numpy as np
from my_data import squares


def in_order() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The pipeline that was ported: batches of 64 in a fixed order."""
    images, labels = squares(500, 0)
    for start in range(0, len(labels), 64):
        yield images[start : start + 64], labels[start : start + 64]


def ported() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for images, labels in in_order():
        if len(labels) == 64:
            yield 255 * images, (labels + 1) % 10
