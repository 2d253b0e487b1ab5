"""The contract of a trainer: one class in one file, registered under the entry-point group `zoolens.trainers`.

- the framework is imported in `train` or below it, never at module import;
- one job at a time; a trainer's process serves many jobs after each other, so a job leaves nothing global behind;
- seeds are set before the network is made;
- batches are `order.batches`: the same samples in the same order with the same augmentation on every side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from zoolens.crosstrain.training.job import Epoch, Job, Outcome

Weights = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class TrainData:
    """Images uint8 N×H×W×C, labels int32; trainers see them divided by 255."""

    train_x: NDArray[np.uint8]
    train_y: NDArray[np.int32]
    test_x: NDArray[np.uint8]
    test_y: NDArray[np.int32]
    classes: int


@dataclass(frozen=True)
class Trained:
    """`weights` by the names and in the layout of `network`, where the job asks for them."""

    outcome: Outcome
    predictions: NDArray[np.int32]
    weights: Weights | None = None


class Trainer(ABC):
    name: ClassVar[str]
    summary: ClassVar[str]
    distributions: ClassVar[tuple[str, ...]]  # whose versions change the numbers; the first one is "the" version
    extra: ClassVar[str | None] = None
    variables: ClassVar[Mapping[str, str]] = {}  # environment of its process, such as KERAS_BACKEND

    @abstractmethod
    def train(self, job: Job, data: TrainData, weights: Weights | None, report: Callable[[Epoch], None]) -> Trained:
        """Train and test. Out of memory and a loss that is not finite are outcomes; captures go to `job.output`."""
