"""What a worker process does with its network for training, by the names of requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from zoolens.base.engine.service import Message
from zoolens.training.pairs.data.source_reopening import open_source
from zoolens.training.pairs.data.sources import BatchSource
from zoolens.training.pairs.live.live_training import NotSwitchable, TrainableNetwork
from zoolens.training.pairs.loop.trainable_sides import received
from zoolens.training.pairs.loop.training_course import TrainingCourse
from zoolens.training.pairs.networks.framework import Array


class TrainingRequests:
    """Answers the requests to train that reach a worker."""

    def __init__(
        self,
        make: Callable[[], TrainableNetwork],  # of the objects that the worker has
        renew: Callable[[int], None],  # calls the user's function anew with all generators seeded
        sent: Callable[[Message], dict[str, Array]],  # the tensors of a request
        written: Callable[[Mapping[str, Array]], Any],  # the tensors of its answer
    ) -> None:
        self._make, self._renew, self._sent, self._written = make, renew, sent, written
        self._course: TrainingCourse | None = None
        self._source: tuple[Mapping[str, Any], BatchSource] | None = None
        self.answers: dict[str, Callable[[Message], Any]] = {
            "train_begin": self._begin,
            "train_steps": self._steps,
            "train_capture": self._capture,
            "train_held_out": self._held_out,
            "train_loss": self._loss,
            "train_settings": lambda _: {"settings": self._open().network.settings()},
            "train_rates": lambda request: {"rates": self._open().network.rates(list(map(int, request["epochs"])))},
            "train_switch": self._switch,
        }

    def _open(self) -> TrainingCourse:
        if self._course is None:
            self._course = TrainingCourse(self._make())
        return self._course

    def _opened(self, description: Mapping[str, Any]) -> BatchSource:
        if self._source is None or self._source[0] != description:
            self._source = description, open_source(description)
        return self._source[1]

    def _begin(self, request: Message) -> Any:
        seed = int(request["seed"])
        if request["fresh"]:
            self._renew(seed)
            self._course = None
        self._open().begin(seed)
        return {}

    def _steps(self, request: Message) -> Any:
        source = self._opened(request["source"])
        epoch, seed, count = (int(request[name]) for name in ("epoch", "seed", "count"))
        return {"tensors": self._written({"losses": self._open().next_steps(source, epoch, seed, count)})}

    def _capture(self, request: Message) -> Any:
        batch = received(self._sent(request), ends_epoch=bool(request["ends_epoch"]))
        captured = self._open().captured_step(batch)
        return {"tensors": self._written(captured if request["keep"] else {})}

    def _held_out(self, request: Message) -> Any:
        answers = self._open().held_out_answers(self._opened(request["source"]))
        return {"tensors": self._written({"answers": np.ascontiguousarray(answers)})}

    def _loss(self, request: Message) -> Any:
        given = self._sent(request)
        return {"loss": self._open().network.loss_of(given["answers"], given["targets"])}

    def _switch(self, request: Message) -> Any:
        """A refusal is an answer: errors lose their kind on the way to another process."""
        value = request["value"]
        try:
            self._open().network.switch(str(request["name"]), tuple(value) if isinstance(value, list) else value)
        except NotSwitchable as error:
            return {"refused": error.message}
        return {}
