"""A recorded stream: the batches that both sides of a port replay, byte for byte and in the same order.

A folder with two files: `arrays.bin` holds the arrays as they came, `index.json` says where each one lies and in which
order. The index is written last, so that a recording which was killed is no recording. Only numpy is needed here: a
side's own process reads the stream too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import read_bytes, size_of
from zoolens.training.pairs.data.batch import TrainingBatch
from zoolens.training.pairs.data.batch_choice import Augmentation
from zoolens.training.pairs.data.epoch_order import EpochDraws
from zoolens.training.pairs.data.sources import BatchSource, TargetKind
from zoolens.training.pairs.networks.framework import Array

INDEX: Final = "index.json"
ARRAYS: Final = "arrays.bin"
ALIGNMENT: Final = 64  # bytes: where an array begins
_LARGEST_INDEX: Final = 1 << 28  # bytes

ChannelOrder = Literal["channels_first", "channels_last"]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RecordedInput(_Model):
    """One input of the networks, as it was recorded."""

    shape: tuple[PositiveInt, ...]  # as `--input` has it, channels first
    kind: Literal["float", "int"]
    order: ChannelOrder | None  # that of the recorded arrays; None where there is none

    @property
    def recorded_shape(self) -> tuple[int, ...]:
        return self.shape if self.order != "channels_last" else (*self.shape[1:], self.shape[0])


class RecordedTargets(_Model):
    """The targets, as they were recorded."""

    shape: tuple[PositiveInt, ...]  # of one sample's target
    dtype: Literal["int64", "float32"]
    kind: TargetKind
    classes: PositiveInt | None  # the largest class that occurs, plus one


class SampleBlock(_Model):
    """Samples that lie together: where the array of each input begins, and last that of the targets."""

    samples: PositiveInt
    offsets: tuple[NonNegativeInt, ...]


class StreamIndex(_Model):
    """`passes`: the blocks of each recorded epoch, those of the first seed first. Where `shuffled`, there is one pass
    instead: its samples are put in another order for each epoch and seed, augmented, and cut into batches."""

    format: Literal["zoolens recorded stream 1"] = "zoolens recorded stream 1"
    source: str
    code: str | None  # SHA-256 of the file of the user's function
    recorded: str  # when
    digest: str = Field(pattern="^[0-9a-f]{64}$")  # of what is replayed, in its order
    bytes: NonNegativeInt
    inputs: tuple[RecordedInput, ...] = Field(min_length=1)
    targets: RecordedTargets
    blocks: tuple[SampleBlock, ...] = Field(min_length=1)
    passes: tuple[tuple[NonNegativeInt, ...], ...] = Field(min_length=1)
    test: tuple[NonNegativeInt, ...]
    epochs: PositiveInt
    seeds: PositiveInt
    shuffled: bool
    batch_size: PositiveInt
    augmentation: Augmentation = "none"
    epoch_steps: PositiveInt | None = None
    notes: tuple[str, ...]

    @property
    def itemsizes(self) -> tuple[int, ...]:
        """Bytes of one sample in each array of a block."""
        widths = [(4 if given.kind == "float" else 8) * prod(given.shape) for given in self.inputs]
        return (*widths, (8 if self.targets.dtype == "int64" else 4) * prod(self.targets.shape))


class RecordedStream(BatchSource):
    """Open one with `RecordedStream.open`; every process that replays it maps the same file."""

    kind: ClassVar[str] = "recorded"

    def __init__(self, folder: Path, index: StreamIndex) -> None:
        self.folder, self.about = folder, index
        self.name, self.fingerprint = index.source, index.digest
        self.target_kind, self.classes = index.targets.kind, index.targets.classes
        self.samples = sum(index.blocks[block].samples for block in index.passes[0])
        self.held_out_samples = sum(index.blocks[block].samples for block in index.test)
        self.steps = self.epoch_steps(1, 0)
        self.batch = index.batch_size if index.shuffled else None

    @classmethod
    def open(cls, folder: Path) -> RecordedStream:
        """The stream in a folder; a folder that holds no finished recording, or a damaged one, is refused."""
        try:
            index = StreamIndex.model_validate_json(read_bytes(folder / INDEX, _LARGEST_INDEX))
            size = size_of(folder / ARRAYS)
        except FileNotFoundError as error:
            raise DatasetError(f"{folder} holds no finished recording of a stream.") from error
        except OSError as error:
            raise DatasetError(f"The recorded stream in {folder} cannot be read: {error.strerror}.") from error
        except ValidationError as error:
            what = error.errors()[0]
            place = ".".join(map(str, what["loc"]))
            raise _damaged(folder, f"{place}: {what['msg']}" if place else what["msg"]) from error
        _check(folder, index, size)
        return cls(folder, index)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what was recorded, for whoever reads the result."""
        return self.about.notes

    def epoch_steps(self, epoch: int, seed: int) -> int:
        blocks = self._pass(epoch, seed)
        return -(-self.samples // self.about.batch_size) if self.about.shuffled else len(blocks)

    def description(self) -> dict[str, Any]:
        return {"folder": str(self.folder)}

    def batches(self, epoch: int, seed: int) -> Iterator[TrainingBatch]:
        """The batches of one epoch in order. Epochs count from 1; `seed` is the number of a seed, from 0."""
        blocks = self._pass(epoch, seed)
        if self.about.shuffled:
            return self._shuffled(blocks[0], epoch, seed)
        return (self._batch(block) for block in blocks)

    def as_given(self) -> Iterator[TrainingBatch]:
        """The samples of arrays before they are shuffled and augmented, in batches."""
        block = self.about.blocks[self.about.passes[0][0]]
        *inputs, targets = self._arrays(block)
        for start in range(0, block.samples, self.about.batch_size):
            rows = slice(start, start + self.about.batch_size)
            yield self._made([array[rows] for array in inputs], targets[rows])

    def held_out(self) -> Iterator[TrainingBatch]:
        """The held-out part in order; nothing where there is none."""
        return (self._batch(block) for block in self.about.test)

    def _pass(self, epoch: int, seed: int) -> tuple[int, ...]:
        """A stream that the user's code shuffles has the epochs that were recorded, and no other."""
        about = self.about
        if about.shuffled:
            return about.passes[0]
        if not (1 <= epoch <= about.epochs and 0 <= seed < about.seeds):
            raise DatasetError(
                f"The recorded stream of {about.source} has {about.epochs} epochs for each of {about.seeds} seeds; "
                f"epoch {epoch} of the seed with the number {seed} is asked for.",
                hint="Record it again with as many as are needed.",
            )
        return about.passes[seed * about.epochs + epoch - 1]

    @cached_property
    def _memory(self) -> Array:
        """All bytes, read-only. A plain array: slices of numpy's memmap are slow to make."""
        return np.memmap(self.folder / ARRAYS, np.uint8, "r").view(np.ndarray)

    @cached_property
    def _layout(self) -> list[tuple[tuple[int, ...], Any, int]]:
        """Returns for each array of a block the shape and type of a sample, and its bytes."""
        about = self.about
        shapes = [given.recorded_shape for given in about.inputs] + [about.targets.shape]
        types = ["float32" if given.kind == "float" else "int64" for given in about.inputs] + [about.targets.dtype]
        return list(zip(shapes, map(np.dtype, types), about.itemsizes, strict=True))

    def _arrays(self, block: SampleBlock) -> list[Array]:
        """The arrays of a block in the order of the recording: read-only views."""
        return [
            self._memory[offset : offset + width * block.samples].view(kind).reshape(block.samples, *shape)
            for offset, (shape, kind, width) in zip(block.offsets, self._layout, strict=True)
        ]

    def _batch(self, number: int) -> TrainingBatch:
        *inputs, targets = self._arrays(self.about.blocks[number])
        return self._made(inputs, targets)

    def _made(self, inputs: list[Array], targets: Array) -> TrainingBatch:
        turned = [
            array.transpose(0, array.ndim - 1, *range(1, array.ndim - 1)) if given.order == "channels_last" else array
            for array, given in zip(inputs, self.about.inputs, strict=True)
        ]
        return TrainingBatch(tuple(turned), _floating(targets) if self.about.targets.kind == "one-hot" else targets)

    def _shuffled(self, number: int, epoch: int, seed: int) -> Iterator[TrainingBatch]:
        block = self.about.blocks[number]
        *inputs, targets = self._arrays(block)
        draws = EpochDraws(f"port/{seed}/{epoch}", block.samples)
        for start in range(0, block.samples, self.about.batch_size):
            rows = slice(start, start + self.about.batch_size)
            chosen = draws.order[rows]
            yield self._made([self._augmented(array[chosen], draws, rows) for array in inputs], targets[chosen])

    def _augmented(self, images: Array, draws: EpochDraws, rows: slice) -> Array:
        if self.about.augmentation == "none":
            return images
        if self.about.inputs[0].order == "channels_last":
            return draws.augmented(images, self.about.augmentation, rows)
        turned = draws.augmented(images.transpose(0, 2, 3, 1), self.about.augmentation, rows)
        return turned.transpose(0, 3, 1, 2)


def _floating(targets: Array) -> Array:
    return targets if targets.dtype == np.float32 else targets.astype(np.float32)


def _check(folder: Path, index: StreamIndex, size: int) -> None:
    """An index may come from elsewhere: nothing that it says is used before it fits the file."""
    if size != index.bytes:
        raise _damaged(folder, f"{ARRAYS} has {size} bytes, and the index says {index.bytes}")
    for block in index.blocks:
        if len(block.offsets) != len(index.itemsizes):
            raise _damaged(folder, "a block has another number of arrays")
        for offset, width in zip(block.offsets, index.itemsizes, strict=True):
            if offset % ALIGNMENT or offset + width * block.samples > size:
                raise _damaged(folder, "a block lies outside the file")
    used = {number for numbers in (*index.passes, index.test) for number in numbers}
    if used and max(used) >= len(index.blocks):
        raise _damaged(folder, "an epoch names a block that does not exist")
    if not all(index.passes) or len(index.passes) != (1 if index.shuffled else index.epochs * index.seeds):
        raise _damaged(folder, "it has another number of epochs than it says")
    if index.augmentation != "none" and [len(given.shape) for given in index.inputs] != [3]:
        raise _damaged(folder, "what is not an image cannot be augmented")


def _damaged(folder: Path, why: str) -> DatasetError:
    return DatasetError(
        f"The recorded stream in {folder} is damaged: {why}.", hint="Delete that folder and record it again."
    )
