"""What two networks are trained on: the same batches in the same order, which each side reads in its own process.

A source describes itself as plain data, from which `source_reopening.open_source` opens it again in another process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np

from zoolens.base.errors import DatasetError
from zoolens.training.pairs.data.batch import TrainingBatch
from zoolens.training.pairs.data.epoch_order import batches as ordered
from zoolens.training.pairs.data.prepared_data import load, prepared
from zoolens.training.pairs.networks.framework import Array
from zoolens.training.pairs.sides.data_inputs import as_image
from zoolens.training.pairs.sides.network_sides import InputShape

TEST_BATCH: Final = 256
TargetKind = Literal["classes", "one-hot", "probabilities", "numbers"]
Description = dict[str, Any]  # JSON; "kind" is one of `source_reopening`


class BatchSource(ABC):
    """Batches that are the same for whoever reads them."""

    kind: ClassVar[str]
    name: str  # for people
    # "one-hot" rows and "probabilities" (smoothed or mixed classes) have their largest number at the class; "numbers"
    # have no class.
    target_kind: TargetKind = "classes"
    classes: int | None  # how many there are; None: targets are numbers
    samples: int  # of the first epoch
    steps: int  # of the first epoch
    held_out_samples: int
    fingerprint: str  # of the content, with all that decides about the order
    batch: int | None = None  # samples of a step, where all but the last have the same

    @abstractmethod
    def batches(self, epoch: int, seed: int) -> Iterator[TrainingBatch]:
        """Yields the batches of one epoch, in order, augmented. `epoch` counts from 1. The same two numbers give the
        same batches."""

    def epoch_steps(self, epoch: int, seed: int) -> int:
        """How many batches `batches` gives."""
        return self.steps

    @abstractmethod
    def held_out(self) -> Iterator[TrainingBatch]:
        """The samples that are not trained on, always in the same order."""

    @abstractmethod
    def description(self) -> Description:
        """What `open_source` needs, without the kind."""


@dataclass(frozen=True)
class _NamedData:
    dataset: str
    train_limit: int | None
    test_limit: int | None


@dataclass(frozen=True)
class _SampleOrder:
    """Both sides replay one order."""

    seed: int
    augmentation: str
    batch_size: int
    order: str = "shared"


class ArraySource(BatchSource):
    """Images of one of our datasets with their classes, as `crosstrain` prepares, orders and augments them.

    Their values are divided by 255. Images of another size than the network's are resized by PIL (bilinear), and grey
    ones are repeated where three channels are asked for, as `port check` has it.
    """

    kind: ClassVar[str] = "arrays"

    def __init__(
        self, folder: Path, shape: tuple[int, ...], batch: int, augmentation: str, name: str, fingerprint: str
    ) -> None:
        self._folder, self._shape, self._augmentation = folder, tuple(shape), augmentation
        self.batch: int = batch
        self._data = load(folder)
        self.name, self.fingerprint = name, fingerprint
        self.classes = self._data.classes
        self.samples, self.held_out_samples = len(self._data.train_y), len(self._data.test_y)
        self.steps = -(-self.samples // batch)
        channels, height, width = self._shape
        grey = self._data.train_x.shape[3] == 1 and channels == 3
        self._as_is = tuple(self._data.train_x.shape[1:3]) == (height, width)
        if not grey and self._data.train_x.shape[3] != channels:
            raise DatasetError(
                f"The images of {name} have {self._data.train_x.shape[3]} channels; the input has {channels}.",
                hint="Change --input.",
            )

    @classmethod
    def of_dataset(
        cls, dataset: str, given: InputShape, batch: int, augmentation: str, limits: tuple[int | None, int | None]
    ) -> ArraySource:
        """`dataset`: as a recipe names it. `limits`: samples to train on, and to test on."""
        if given.kind != "float" or len(given.shape) != 3:
            raise DatasetError(
                f"{dataset} has images, but the networks' input is not one image.",
                hint="Give --input channels, height and width, or record a stream of your own data.",
            )
        data = prepared(_NamedData(dataset, *limits))
        key = f"{data.record.fingerprint}/{'x'.join(map(str, given.shape))}/{batch}/{augmentation}"
        return cls(data.folder, given.shape, batch, augmentation, data.record.name, key)

    def batches(self, epoch: int, seed: int) -> Iterator[TrainingBatch]:
        given = ordered(self._data, _SampleOrder(seed, self._augmentation, self.batch), epoch)
        for part in given.slices():
            yield TrainingBatch((self._images(given.x[part]),), given.y[part])

    def held_out(self) -> Iterator[TrainingBatch]:
        for start in range(0, self.held_out_samples, TEST_BATCH):
            part = slice(start, start + TEST_BATCH)
            yield TrainingBatch((self._images(self._data.test_x[part]),), np.array(self._data.test_y[part]))

    def description(self) -> Description:
        return {
            "folder": str(self._folder), "shape": list(self._shape), "batch": self.batch,
            "augmentation": self._augmentation, "name": self.name, "fingerprint": self.fingerprint,
        }  # fmt: skip

    def _images(self, images: Array) -> Array:
        if not self._as_is:
            return np.stack([as_image(image, self._shape) for image in images])
        turned = images.transpose(0, 3, 1, 2)
        if turned.shape[1] != self._shape[0]:
            turned = np.repeat(turned, self._shape[0], axis=1)
        return np.ascontiguousarray(turned).astype(np.float32) / np.float32(255)


def described(source: BatchSource) -> Description:
    """Plain data from which `open_source` opens the source in another process."""
    return {"kind": source.kind, **source.description()}
