"""One training as it goes on in the process of its network: where in which epoch it is."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.training.pairs.data.batch import TrainingBatch
from zoolens.training.pairs.data.sources import BatchSource
from zoolens.training.pairs.live.live_training import Capture, Losses, TrainableNetwork
from zoolens.training.pairs.networks.framework import Array


class TrainingCourse:
    """The trainable network with the epoch that it is in; the rest of that epoch's batches waits here."""

    def __init__(self, network: TrainableNetwork) -> None:
        self.network = network
        self._place: tuple[str, int, int] | None = None
        self._left: Iterator[TrainingBatch] = iter(())
        self._done = 0

    def begin(self, seed: int) -> None:
        self._place = None
        self.network.begin(seed)

    def next_steps(self, source: BatchSource, epoch: int, seed: int, count: int) -> Losses:
        """See `TrainableSide.next_steps`."""
        place = source.fingerprint, epoch, seed
        if place != self._place:
            self._place, self._left, self._done = place, source.batches(epoch, seed), 0
        losses = self.network.steps(islice(self._left, count))
        self._done += len(losses)
        if len(losses) < count or self._done >= source.epoch_steps(epoch, seed):
            self._left = iter(())
            self.network.end_epoch()
        return losses

    def captured_step(self, batch: TrainingBatch) -> Capture:
        """See `TrainableSide.captured_step`."""
        captured = self.network.captured_step(batch)
        if batch.ends_epoch:
            self.network.end_epoch()
        return captured

    def held_out_answers(self, source: BatchSource) -> Array:
        """The answers for all held-out samples, in their order."""
        parts = [self.network.answers(batch.inputs) for batch in source.held_out()]
        if not parts:
            raise ModelError(f"{source.name} has no samples to test on.")
        return np.concatenate(parts)
