"""One batch of training data, as both sides of a port take it."""

from __future__ import annotations

from dataclasses import dataclass

from zoolens.training.pairs.networks.framework import Array


@dataclass(frozen=True)
class TrainingBatch:
    """One array of samples for each input, and their targets. Arrays may be read-only memory of a file: whoever lets a
    network work in place copies them first."""

    # One array for each input of the networks, float32 or int64, with the channels of images first. It may be a
    # transposed view of memory with the channels last, so that turning it back copies nothing.
    inputs: tuple[Array, ...]
    targets: Array  # int64 where they are whole numbers, else float32
    # It is the last of an epoch, after which a schedule that counts epochs goes on; those who train whole epochs count
    # themselves.
    ends_epoch: bool = False

    @property
    def size(self) -> int:
        return len(self.targets)
