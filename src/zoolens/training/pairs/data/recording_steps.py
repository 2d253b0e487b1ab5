"""Records a source step by step, in the process that holds it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from zoolens.base.errors import DatasetError
from zoolens.training.pairs.data.batch_choice import check_batches
from zoolens.training.pairs.data.plain_arrays import plain_array
from zoolens.training.pairs.data.returned_data import ArrayData, BatchData, DataSource, Part, inputs_and_targets
from zoolens.training.pairs.data.stream import StreamIndex
from zoolens.training.pairs.data.stream_writer import BatchRecorder

_MOST_BATCHES: Final = 100_000  # of one epoch


@dataclass(frozen=True)
class RecordingPlan:
    """How much of a source is needed. `batch_size` and `augmentation` concern samples that come without batches.
    `epoch_steps`: batches of an epoch, for streams that never end."""

    epochs: int
    seeds: int
    batch_size: int
    epoch_steps: int | None = None
    augmentation: str = "none"

    def __post_init__(self) -> None:
        check_batches(self.batch_size, self.augmentation, self.epoch_steps)
        if self.epochs < 1 or self.seeds < 1:
            raise DatasetError("A recording has at least one epoch and one seed.")


class BatchRecording:
    """`steps` records one batch after the other; `finish` afterwards writes the index."""

    def __init__(self, recorder: BatchRecorder, source: DataSource, plan: RecordingPlan) -> None:
        self._recorder, self._source, self._plan = recorder, source, plan
        self._passes: list[list[int]] = []
        self._test: list[int] = []

    def steps(self) -> Iterator[None]:
        if isinstance(self._source.train, ArrayData):
            yield from self._samples(self._source.train)
        else:
            yield from self._epochs(self._source.train)
        if self._source.test is not None:
            yield from self._held_out(self._source.test)

    def _samples(self, data: ArrayData) -> Iterator[None]:
        plan = self._plan
        if plan.epoch_steps is not None:
            raise DatasetError("--epoch-steps is for streams of batches; arrays have an end.", hint="Leave it out.")
        self._passes.append([self._recorder.add(data.inputs, data.targets, "the arrays")])
        self._recorder.notes.append(
            f"The samples are shuffled anew for every epoch and seed, in batches of {plan.batch_size}."
        )
        yield

    def _epochs(self, data: BatchData) -> Iterator[None]:
        plan, total = self._plan, self._plan.epochs * self._plan.seeds
        if plan.augmentation != "none":
            raise DatasetError(
                "A stream of batches is replayed as it comes.",
                hint="Leave --augmentation out, and augment in your function.",
            )
        for number in range(total):
            blocks: list[int] = []
            before = self._recorder.given
            for count, batch in enumerate(data.epoch(plan.epoch_steps)):
                if count >= _MOST_BATCHES or self._recorder.given - before > self._recorder.limit:
                    raise _endless(count, self._recorder.given - before)
                place = f"batch {count + 1} of epoch {number + 1}"
                blocks.append(self._recorder.add(*inputs_and_targets(batch, place), place))
                yield
            if not blocks:
                raise DatasetError(
                    f"The stream is empty in epoch {number + 1}.", hint="It must give batches each time."
                )
            self._passes.append(blocks)
        self._recorder.notes.append(self._order_note())

    def _order_note(self) -> str:
        total = len(self._passes)
        if total == 1:
            return "One epoch of the stream was recorded."
        if all(first == second for first, second in pairwise(self._passes)):
            return "The stream is the same in each epoch and for each seed: seeds differ in the first weights alone."
        return f"{total} epochs of the stream were recorded, {self._plan.epochs} for each seed."

    def _held_out(self, data: Part) -> Iterator[None]:
        if isinstance(data, ArrayData):
            batches: Iterator[object] = _cut(data, self._plan.batch_size)
        else:
            batches = data.epoch(None)
        before = self._recorder.given
        for count, batch in enumerate(batches):
            if count >= _MOST_BATCHES or self._recorder.given - before > self._recorder.limit:
                raise _endless(count, self._recorder.given - before, "The held-out part")
            place = f"held-out batch {count + 1}"
            self._test.append(self._recorder.add(*inputs_and_targets(batch, place), place, held_out=True))
            yield
        if not self._test:
            raise DatasetError("The held-out part is empty.")

    def finish(self, source: str, code: str | None) -> StreamIndex:
        plan = self._plan
        return self._recorder.finish(
            source,
            code,
            passes=self._passes,
            test=self._test,
            epochs=plan.epochs,
            seeds=plan.seeds,
            shuffled=isinstance(self._source.train, ArrayData),
            batch_size=plan.batch_size,
            augmentation=plan.augmentation,
            epoch_steps=plan.epoch_steps,
        )


def _endless(batches: int, size: int, what: str = "One epoch of the stream") -> DatasetError:
    """Equal batches are kept once, so that the recording of a stream that repeats itself does not grow."""
    return DatasetError(
        f"{what} has not ended after {batches} batches ({size / (1 << 20):.4g} MiB).",
        hint="If it never ends, say with --epoch-steps how many batches are an epoch; a held-out part must end.",
    )


def _cut(data: ArrayData, size: int) -> Iterator[object]:
    targets = plain_array(data.targets, "The held-out targets")
    several = data.inputs if isinstance(data.inputs, tuple | list) else (data.inputs,)
    inputs = [plain_array(array, "The held-out inputs") for array in several]
    if any(len(array) != len(targets) for array in inputs):
        raise DatasetError(f"The held-out part has {len(inputs[0])} inputs and {len(targets)} targets.")
    for start in range(0, len(targets), size):
        rows = slice(start, start + size)
        cut = tuple(np.asarray(array[rows]) for array in inputs)
        yield (cut if len(cut) > 1 else cut[0]), targets[rows]
