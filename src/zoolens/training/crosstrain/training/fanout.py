"""Trainings on other machines: a job travels with its first weights, the files of its output folder come back.

Only the training itself is elsewhere. The search, its journal and the store stay with whoever asked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final

from zoolens.base.engine.executors.executor import Executor
from zoolens.base.engine.machine import describe_machine, gpu_names
from zoolens.base.errors import Circumstance
from zoolens.training.crosstrain.training.job import Job, Outcome

_FUNCTION: Final = "zoolens.training.crosstrain.training.node:train_here"
_LOOK: Final = 0.5  # seconds after which whoever waits looks whether it is still wanted


class RemoteTraining:
    """Trains on an executor. `close` lets go whoever waits."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def train(self, job: Job, report: Callable[[Any], None]) -> Outcome:
        """The outcome of a job, whose files lie in its output folder then. `report` gets epochs as plain data while it
        trains, in this thread: from the first one again where a machine was lost, and not always the last ones."""
        told: SimpleQueue[Any] = SimpleQueue()
        future = self._executor.submit_telling(_FUNCTION, _message(job), told.put, gpu=job.gpu is not None)
        future.add_done_callback(lambda _: told.put(None))
        while not future.done():
            if self.closed:
                future.cancel()
                raise Circumstance("The training was stopped.")
            with contextlib.suppress(Empty):
                epoch = told.get(timeout=_LOOK)
                if epoch is not None:
                    report(epoch)
        answer = future.result()
        job.output.mkdir(parents=True, exist_ok=True)
        for name, content in answer["files"].items():
            (job.output / Path(name).name).write_bytes(content)
        return Outcome.model_validate(answer["outcome"])


def this_machine() -> dict[str, Any]:
    """The properties of this machine that can change what is learnt, or how long it takes."""
    machine = describe_machine()
    return {"cpu": machine.cpu, "cores": machine.cores, "architecture": machine.architecture}


def _message(job: Job) -> dict[str, Any]:
    return {
        "job": job.model_dump(mode="json"),
        "weights": None if job.weights is None else job.weights.read_bytes(),
        "machine": machine_of(job),
    }


def machine_of(job: Job) -> dict[str, Any]:
    """The properties of this machine that a job depends on."""
    return {**this_machine(), **({} if job.gpu is None else {"gpus": list(gpu_names())})}
