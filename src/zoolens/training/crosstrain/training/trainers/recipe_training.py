"""One job, whatever the framework: a recipe's live side is built, trained epoch by epoch, and tested after each.

`pairs/loop/single_run.py: train_once` is the loop of a user's sides, and another: it stands outside of the side's
process and asks for as many steps as take a second, tests once at the end, and its loss of an epoch is the mean over
steps. A job runs in its side's process, where a whole epoch lies on the device, and its loss is the mean over samples.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.training.crosstrain.training.job import Epoch, Job, Outcome, Status
from zoolens.training.crosstrain.training.trainers.trainer import Trained, Weights
from zoolens.training.crosstrain.training.weights import write_weights
from zoolens.training.pairs.data.epoch_order import EpochBatches, batches
from zoolens.training.pairs.data.train_data import TrainData
from zoolens.training.pairs.live.live_training import Capture, Losses
from zoolens.training.pairs.semantics import Semantics

Report = Callable[[Epoch], None]


class RecipeSide(ABC):
    """The network, optimizer and loop that a job's recipe makes in one framework."""

    def __init__(self, job: Job, data: TrainData) -> None:
        self.job, self.data = job, data
        self.semantics = Semantics()  # read from the live objects, as far as they are built
        self.parameters: int | None = None  # the number of learned numbers; None before the network is built

    @abstractmethod
    def build(self, weights: Weights | None) -> None:
        """Make the live objects with these first weights; None: with the side's own from the seed."""

    @abstractmethod
    def losses(self, epoch: EpochBatches) -> Iterator[Losses]:
        """Train on all batches in order; the mean loss of each step, of some steps at a time. Whoever asks may stop."""

    @abstractmethod
    def captured_step(self, images: NDArray[np.uint8], labels: NDArray[np.int32], *, keep: bool) -> Capture:
        """One step on this batch and all that it computed, by the names of `Job.capture`; the loss alone where it is
        not kept."""

    @abstractmethod
    def predict(self) -> tuple[NDArray[np.int32], bool]:
        """The class answered for every test sample, and whether all answers were finite."""

    @abstractmethod
    def weights(self) -> Weights:
        """Copies of the tensors as they are now, by the names and in the layout of `network`."""

    @staticmethod
    @abstractmethod
    def is_out_of_memory(error: Exception) -> bool:
        """Whether the framework says so by this error."""


class RecipeTraining:
    """What is known of a job so far, whatever happens next."""

    def __init__(self, side: RecipeSide, report: Report) -> None:
        self._side, self._job, self._report = side, side.job, report
        self._began = time.perf_counter()
        self._status: Status = "finished"
        self._message = ""
        self._epochs: list[Epoch] = []
        self._steps = 0
        self._predictions = np.empty(0, np.int32)
        self._weights: Weights | None = None

    def train(self, weights: Weights | None, versions: Mapping[str, str]) -> Trained:
        """Out of memory and a loss that is not finite are outcomes."""
        _check(self._job)
        try:
            self._train(weights)
        except Exception as error:
            if not self._side.is_out_of_memory(error):
                raise
            self._status, self._message = "out-of-memory", f"The memory of {self._job.device} is not enough."
        outcome = Outcome(
            framework=self._job.framework,
            versions=dict(versions),
            status=self._status,
            message=self._message,
            epochs=tuple(self._epochs),
            steps=self._steps,
            parameters=self._side.parameters,
            semantics=self._side.semantics,
            seconds=time.perf_counter() - self._began,
        )
        return Trained(outcome, self._predictions, self._weights)

    def _train(self, weights: Weights | None) -> None:
        side, job = self._side, self._job
        side.build(weights)
        orders = _orders(job, side.data)
        for number in range(1, job.recipe.epochs + 1):
            began = time.perf_counter()
            loss = self._epoch(next(orders))
            seconds = time.perf_counter() - began
            correct = self._test()
            total = len(self._predictions)
            self._epochs.append(Epoch(number=number, loss=loss, correct=correct, total=total, seconds=seconds))
            self._report(self._epochs[-1])
            if self._status != "finished" or (job.capture and self._steps >= max(job.capture)):
                break
        if job.keep_weights:
            self._weights = side.weights()

    def _epoch(self, epoch: EpochBatches) -> float | None:
        """The mean loss over the samples that were trained on; None where it is not finite."""
        sizes = np.array([len(epoch.y[part]) for part in epoch.slices()])
        total, done = 0.0, 0
        for losses in self._captured(epoch) if self._job.capture else self._side.losses(epoch):
            bad = np.flatnonzero(~np.isfinite(losses))
            if len(bad):
                self._not_finite(f"The loss of step {self._steps + int(bad[0]) + 1} is not finite.")
            self._steps += len(losses)
            if len(bad):
                return None
            total += float(losses @ sizes[done : done + len(losses)])
            done += len(losses)
        return total / float(sizes[:done].sum())

    def _captured(self, epoch: EpochBatches) -> Iterable[Losses]:
        """Steps one by one, until the last one that is to be captured."""
        job, losses = self._job, []
        for number, part in enumerate(epoch.slices(), start=self._steps + 1):
            keep = number in job.capture
            state = self._side.captured_step(epoch.x[part], epoch.y[part], keep=keep)
            if keep:
                path = job.output / f"capture-{number}.safetensors"
                write_weights(path, state, {"framework": job.framework})
            losses.append(float(state["loss"]))
            if number >= max(job.capture):
                break
        return [np.array(losses)]

    def _test(self) -> int:
        """How many test samples are answered correctly; the answers are kept."""
        self._predictions, finite = self._side.predict()
        if self._status == "finished" and not finite:
            self._not_finite(f"The answers to test samples are not finite after step {self._steps}.")
        return int((self._predictions == self._side.data.test_y).sum())

    def _not_finite(self, message: str) -> None:
        self._status, self._message = "non-finite", message


def _check(job: Job) -> None:
    if job.capture and job.recipe.shipped:
        raise ModelError(
            "A network as its library ships it has no layers in common with another framework's.",
            hint="Use mode: aligned to compare layer by layer.",
        )
    if job.recipe.precision == "tf32" and job.device == "cpu":
        raise ModelError("A CPU has no TF32.", hint="Use precision: float32, or a GPU.")


def _orders(job: Job, data: TrainData) -> Iterator[EpochBatches]:
    """The epochs' samples; beside a GPU, the next epoch's are put in order while it works on this one's."""
    numbers = range(1, job.recipe.epochs + 1)
    order: Callable[[int], Any] = partial(batches, data, job.recipe, salt=job.framework)
    if job.device == "cpu":
        yield from map(order, numbers)
        return
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(order, 1)
        for number in numbers:
            now = coming.result()
            if number < job.recipe.epochs:
                coming = thread.submit(order, number + 1)
            yield now
