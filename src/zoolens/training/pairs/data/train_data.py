"""The images and labels that trainers are given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class TrainData:
    """Images uint8 N×H×W×C, labels int32; trainers see them divided by 255."""

    train_x: NDArray[np.uint8]
    train_y: NDArray[np.int32]
    test_x: NDArray[np.uint8]
    test_y: NDArray[np.int32]
    classes: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        height, width, channels = self.train_x.shape[1:]
        return channels, height, width
