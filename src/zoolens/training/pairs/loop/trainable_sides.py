"""The two sides of a paired training, wherever they live: in processes of their own, or in this one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from zoolens.base.engine.fork_server import Preloaded
from zoolens.base.errors import ModelError
from zoolens.training.pairs.data.batch import TrainingBatch
from zoolens.training.pairs.data.sources import BatchSource, described
from zoolens.training.pairs.live.live_training import Capture, Losses, NotSwitchable, Setting, TrainableNetwork
from zoolens.training.pairs.live.seeding import forget_names, seed_generators
from zoolens.training.pairs.loop.trainable_recognition import trainable
from zoolens.training.pairs.loop.training_course import TrainingCourse
from zoolens.training.pairs.networks.framework import Array
from zoolens.training.pairs.networks.recognition import recognised
from zoolens.training.pairs.sides.network_sides import (
    TIMEOUT,
    Device,
    InputShape,
    LiveSide,
    PortSide,
    SideName,
    WorkerSide,
)
from zoolens.training.pairs.sides.open_pair import OpenPair, PairOptions, opened


class TrainableSide(PortSide):
    """A side that can be trained; see `TrainableNetwork` for what its methods do."""

    keeps_switches: bool = False  # whether what was switched stays when a training begins with fresh objects

    @abstractmethod
    def begin(self, seed: int, *, fresh: bool = True) -> None:
        """Begin a training. `fresh`: call the user's function anew with all generators seeded, for new weights and new
        objects, which undoes what was switched; a live network has its first weights again instead."""

    @abstractmethod
    def next_steps(self, source: BatchSource, epoch: int, seed: int, count: int) -> Losses:
        """The next `count` steps of this epoch, fewer at its end. The first call for an epoch begins it; the call that
        reaches its end lets a schedule that counts epochs go on."""

    @abstractmethod
    def captured_step(self, batch: TrainingBatch, *, keep: bool = True) -> Capture:
        """One step on this batch and all that it computed; nothing of it where it is not kept. A schedule that counts
        epochs goes on after the last batch of one."""

    @abstractmethod
    def held_out_answers(self, source: BatchSource) -> Array:
        """The answers for the held-out samples in evaluation mode, in their order."""

    @abstractmethod
    def loss_of(self, answers: Array, targets: Array) -> float:
        """This side's loss of answers, whichever network gave them."""

    def code(self) -> str | None:
        """A digest of the user's files that were loaded, and the function; None where objects were handed over."""
        return None

    def interrupt(self) -> None:
        """Called from another thread: end what the side is doing, where it can be ended."""

    @abstractmethod
    def settings(self) -> dict[str, Setting]:
        """What decides about training, by the names of `live_training.SETTINGS`."""

    @abstractmethod
    def rates(self, epochs: Sequence[int]) -> tuple[float, ...] | None:
        """The learning rate of every step of a training whose epochs have so many steps; None: it cannot be known.
        Nothing is trained, and the side is as at the beginning of a training afterwards."""

    @abstractmethod
    def switch(self, name: str, value: Setting) -> None:
        """Change one setting of the live objects; NotSwitchable says why it cannot be done."""


class LiveTrainableSide(LiveSide, TrainableSide):
    """Objects, or a function that makes them, of a user of Python, in this process."""

    def __init__(self, made: Any, inputs: Sequence[InputShape], text: str) -> None:
        self._make: Callable[[], Any] | None = made if makes_objects(made) else None
        self._inputs = inputs
        if self._make:
            forget_names()  # as `begin` does, so that its tensors have the same names then
        first = self._make() if self._make else made
        super().__init__(first, inputs, text)
        self._course = TrainingCourse(trainable(first, self._network))
        self.keeps_switches = self._make is None

    @property
    def network(self) -> TrainableNetwork:
        return self._course.network

    def begin(self, seed: int, *, fresh: bool = True) -> None:
        if fresh and self._make is not None:
            forget_names()
            seed_generators(seed)
            made = self._make()
            shapes, kinds = [given.shape for given in self._inputs], [given.kind for given in self._inputs]
            self._network = recognised(made, shapes, kinds, self.text)
            self._course = TrainingCourse(trainable(made, self._network))
        elif fresh:
            self._network.assign(self._before)
        self._course.begin(seed)

    def next_steps(self, source: BatchSource, epoch: int, seed: int, count: int) -> Losses:
        return self._course.next_steps(source, epoch, seed, count)

    def captured_step(self, batch: TrainingBatch, *, keep: bool = True) -> Capture:
        captured = self._course.captured_step(batch)
        return captured if keep else {}

    def held_out_answers(self, source: BatchSource) -> Array:
        return self._course.held_out_answers(source)

    def loss_of(self, answers: Array, targets: Array) -> float:
        return self.network.loss_of(answers, targets)

    def settings(self) -> dict[str, Setting]:
        return self.network.settings()

    def rates(self, epochs: Sequence[int]) -> tuple[float, ...] | None:
        return self.network.rates(epochs)

    def switch(self, name: str, value: Setting) -> None:
        self.network.switch(name, value)

    def close(self) -> None:
        if self._make is None:
            super().close()


class WorkerTrainableSide(WorkerSide, TrainableSide):
    """A function of the user's code in a process of its own."""

    def _preloaded(self, name: SideName, device: Device) -> Preloaded | None:
        """Nothing: the key of a kept training has the versions of all packages that its process has imported."""
        return None

    def begin(self, seed: int, *, fresh: bool = True) -> None:
        self._ask({"do": "train_begin", "seed": seed, "fresh": fresh}, "beginning a training")

    def next_steps(self, source: BatchSource, epoch: int, seed: int, count: int) -> Losses:
        message = {"do": "train_steps", "source": described(source), "epoch": epoch, "seed": seed, "count": count}
        answer = self._ask(message, f"training it (epoch {epoch})")
        return np.asarray(self._tensors(answer)["losses"], np.float64)

    def captured_step(self, batch: TrainingBatch, *, keep: bool = True) -> Capture:
        message = {"do": "train_capture", "keep": keep, "ends_epoch": batch.ends_epoch}
        return self._tensors(self._ask(message, "training it for one step", _sent(batch)))

    def held_out_answers(self, source: BatchSource) -> Array:
        answer = self._ask({"do": "train_held_out", "source": described(source)}, "asking it about held-out samples")
        return self._tensors(answer)["answers"]

    def loss_of(self, answers: Array, targets: Array) -> float:
        sent = {"answers": answers, "targets": targets}
        return float(self._ask({"do": "train_loss"}, "computing its loss", sent)["loss"])

    def settings(self) -> dict[str, Setting]:
        answer: Mapping[str, Any] = self._ask({"do": "train_settings"}, "reading its settings")["settings"]
        return {name: tuple(value) if isinstance(value, list) else value for name, value in answer.items()}

    def rates(self, epochs: Sequence[int]) -> tuple[float, ...] | None:
        rates = self._ask({"do": "train_rates", "epochs": list(epochs)}, "reading its schedule")["rates"]
        return None if rates is None else tuple(float(rate) for rate in rates)

    def switch(self, name: str, value: Setting) -> None:
        answer = self._ask({"do": "train_switch", "name": name, "value": value}, f"switching {name}")
        if "refused" in answer:
            raise NotSwitchable(str(answer["refused"]))

    def interrupt(self) -> None:
        self._worker.kill()

    def code(self) -> str | None:
        return str(self._ask({"do": "train_code"}, "reading its files")["code"])


def _sent(batch: TrainingBatch) -> dict[str, Array]:
    return {**{f"input{number}": array for number, array in enumerate(batch.inputs)}, "targets": batch.targets}


def received(tensors: Mapping[str, Array], *, ends_epoch: bool) -> TrainingBatch:
    """The batch that was sent to this process."""
    inputs = tuple(array for name, array in tensors.items() if name.startswith("input"))
    return TrainingBatch(inputs, tensors["targets"], ends_epoch)


def makes_objects(side: Any) -> bool:
    """Whether a user of Python handed over a function that makes the objects, not the objects themselves."""
    from zoolens.training.pairs.networks.training_objects import framework_of

    return callable(side) and framework_of(side) is None and not isinstance(side, tuple)


def open_trainable_side(
    side: str | Any, inputs: Sequence[InputShape], letter: str, *, timeout: float = TIMEOUT, device: Device = "cpu"
) -> TrainableSide:
    """Opens a side that is to be trained, as `open_side` does. Live objects are trained where they are."""
    if isinstance(side, str):
        return WorkerTrainableSide(SideName.parse(side), inputs, timeout=timeout, device=device)
    name = getattr(side, "__name__", "network") if makes_objects(side) else "network"
    return LiveTrainableSide(side, inputs, f"{name} ({letter})")


def as_trainable(side: PortSide) -> TrainableSide:
    """A side that `open_trainable_side` opened."""
    if not isinstance(side, TrainableSide):
        raise ModelError(f"{side.text} was not opened for training.")
    return side


@contextmanager
def opened_for_training(a: Any, b: Any, inputs: Sequence[str], options: PairOptions) -> Iterator[OpenPair]:
    """Both sides, read and aligned, which can be trained; their processes end with the `with`."""
    open_ = partial(open_trainable_side, device=options.device)
    with opened(a, b, inputs, chosen=options.chosen, timeout=options.timeout, open_=open_) as pair:
        yield pair
