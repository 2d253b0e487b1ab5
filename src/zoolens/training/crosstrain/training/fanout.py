"""Trainings on other machines: a job travels with its first weights, the files of its output folder come back.

Only the training itself is elsewhere. The search, its journal and the store stay with whoever asked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final

from zoolens.base.engine.executors.executor import Executor
from zoolens.base.engine.machine import describe_machine, gpu_names
from zoolens.base.errors import Circumstance, Lacking
from zoolens.base.progress import Silent
from zoolens.inventory.fleet.travel import Travel, published, renamed
from zoolens.training.crosstrain.training.job import Job, Outcome

_FUNCTION: Final = "zoolens.training.crosstrain.training.node:train_here"
_LOOK: Final = 0.5  # seconds after which whoever waits looks whether it is still wanted


class RemoteTraining:
    """Trains on an executor. `close` lets go whoever waits."""

    def __init__(self, executor: Executor) -> None:
        self._executor, self._travel = executor, Travel(Silent())
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def train(self, job: Job, report: Callable[[Any], None]) -> Outcome:
        """The outcome of a job, whose files lie in its output folder then. `report` gets epochs as plain data while it
        trains, in this thread: from the first one again where a machine was lost, and not always the last ones."""
        message: Mapping[str, Any] = _message(job, self._travel)
        while True:
            try:
                answer = self._answer(message, report, gpu=job.gpu is not None)
                break
            except Lacking as lacking:
                again = published(message, lacking, Silent())
                if not isinstance(again, Mapping):
                    raise again or lacking from None
                message = again
        job.output.mkdir(parents=True, exist_ok=True)
        for name, content in answer["files"].items():
            (job.output / Path(name).name).write_bytes(content)
        return Outcome.model_validate(answer["outcome"])

    def _answer(self, message: Mapping[str, Any], report: Callable[[Any], None], *, gpu: bool) -> Any:
        told: SimpleQueue[Any] = SimpleQueue()
        future = self._executor.submit_telling(_FUNCTION, message, told.put, gpu=gpu)
        future.add_done_callback(lambda _: told.put(None))
        while not future.done():
            if self.closed:
                future.cancel()
                raise Circumstance("The training was stopped.")
            with contextlib.suppress(Empty):
                epoch = told.get(timeout=_LOOK)
                if epoch is not None:
                    report(epoch)
        return future.result()


def this_machine() -> dict[str, Any]:
    """The properties of this machine that can change what is learnt, or how long it takes."""
    machine = describe_machine()
    return {"cpu": machine.cpu, "cores": machine.cores, "architecture": machine.architecture}


def _message(job: Job, travel: Travel) -> dict[str, Any]:
    data = travel.files("The training data", [str(job.data.absolute())])
    return {
        "job": renamed(job.model_copy(update={"data": job.data.absolute()}).model_dump(mode="json"), data.sent),
        "weights": None if job.weights is None else job.weights.read_bytes(),
        "machine": machine_of(job),
        **travel.fields(data),
    }


def machine_of(job: Job) -> dict[str, Any]:
    """The properties of this machine that a job depends on."""
    return {**this_machine(), **({} if job.gpu is None else {"gpus": list(gpu_names())})}
