"""The data of a paired training, whatever the user named: one of our datasets, or data of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from zoolens.base.errors import DatasetError
from zoolens.base.progress import Progress
from zoolens.training.pairs.data.batch_choice import check_batches
from zoolens.training.pairs.data.recording import StreamRequest, is_function, recorded
from zoolens.training.pairs.data.recording_steps import RecordingPlan
from zoolens.training.pairs.data.sources import ArraySource, BatchSource
from zoolens.training.pairs.data.stream import ChannelOrder
from zoolens.training.pairs.data.stream_comparison import EPOCHS, StreamComparison, compare_streams
from zoolens.training.pairs.data.stream_writer import LIMIT
from zoolens.training.pairs.sides.network_sides import TIMEOUT, InputShape

BATCH = 64


@dataclass(frozen=True)
class DataChoice:
    """`data`: a dataset as recipes name it, `file.py:function`, a source of batches, or in Python what gives batches.
    `test_data`: the held-out part of data of one's own. `limits`: samples of a dataset to train on, and to test on.
    `record`: a folder where the recording of one's own data is kept."""

    data: Any = "demo"
    test_data: Any = None
    batch: int = BATCH
    augmentation: str = "none"
    limits: tuple[int | None, int | None] = (None, None)
    order: ChannelOrder | None = None
    epoch_steps: int | None = None
    record: Path | None = None
    record_limit: int = LIMIT  # bytes

    def __post_init__(self) -> None:
        check_batches(self.batch, self.augmentation, self.epoch_steps)
        for limit in self.limits:
            if limit is not None and limit < 1:
                raise DatasetError(f"A limit of samples must be at least 1; got {limit}.")


@contextmanager
def opened_data(
    choice: DataChoice,
    inputs: Sequence[InputShape],
    *,
    epochs: int,
    seeds: int,
    timeout: float = TIMEOUT,
    progress: Progress | None = None,
) -> Iterator[BatchSource]:
    """The batches for so many epochs and seeds. Data of one's own are recorded first, and gone afterwards unless there
    is a folder for them."""
    if isinstance(choice.data, BatchSource):
        yield choice.data
    elif isinstance(choice.data, str) and not is_function(choice.data):
        yield _dataset(choice, inputs)
    else:
        if choice.limits != (None, None):
            raise DatasetError(
                "Limits of samples are for datasets.", hint="Let your function return as much as is wanted."
            )
        plan = RecordingPlan(epochs, seeds, choice.batch, choice.epoch_steps, choice.augmentation)
        request = StreamRequest(choice.data, inputs, plan, choice.test_data, choice.order, choice.record_limit, timeout)
        with recorded(request, choice.record, progress) as stream:
            yield stream


def _dataset(choice: DataChoice, inputs: Sequence[InputShape]) -> BatchSource:
    own = {"--data-order": choice.order, "--epoch-steps": choice.epoch_steps, "--record": choice.record}
    given = [name for name, value in own.items() if value is not None]
    if given:
        raise DatasetError(
            f"{given[0]} is for data of your own, and {choice.data} is a dataset.",
            hint="Name a function with --data, as my_data.py:batches.",
        )
    if len(inputs) != 1:
        raise DatasetError(f"A dataset has samples for one input, and the networks have {len(inputs)}.")
    data = choice.data if choice.test_data is None else f"{choice.data}|{choice.test_data}"
    return ArraySource.of_dataset(data, inputs[0], choice.batch, choice.augmentation, choice.limits)


@dataclass(frozen=True)
class OpenData:
    """What both sides are trained on. `compared`: their own pipelines beside each other, where they have two."""

    a: BatchSource
    b: BatchSource
    compared: StreamComparison | None = None

    @property
    def own(self) -> bool:
        """Whether each side is trained on batches of its own."""
        return self.a is not self.b


@dataclass(frozen=True)
class Pipelines:
    """The data of both sides."""

    a: DataChoice
    b: DataChoice | None = None  # B's own data; None: those of A
    train_on: Literal["a", "own"] = "a"  # "own": each side on its own data


@contextmanager
def opened_pipelines(
    pipelines: Pipelines,
    inputs: Sequence[InputShape],
    *,
    epochs: int,
    seeds: int,
    timeout: float = TIMEOUT,
    progress: Progress | None = None,
) -> Iterator[OpenData]:
    """Open A's data, and B's where they are others, which are compared then."""
    a, b = pipelines.a, pipelines.b
    if b is None:
        with opened_data(a, inputs, epochs=epochs, seeds=seeds, timeout=timeout, progress=progress) as source:
            yield OpenData(source, source)
        return
    most = max(epochs, EPOCHS)
    with (
        opened_data(a, inputs, epochs=most, seeds=seeds, timeout=timeout, progress=progress) as ours,
        opened_data(b, inputs, epochs=most, seeds=seeds, timeout=timeout, progress=progress) as theirs,
    ):
        compared = compare_streams(ours, theirs)
        yield OpenData(ours, theirs if pipelines.train_on == "own" else ours, compared)
