"""Trainings on other machines: a job travels with its first weights, the files of its output folder come back.

Only the training itself is elsewhere. The search, its journal and the store stay with whoever asked.
"""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Mapping
from concurrent.futures import wait
from functools import cache
from pathlib import Path
from typing import Any, Final

from zoolens.crosstrain.training.job import Job, Outcome
from zoolens.engine.executors.base import Executor, check_reachable
from zoolens.engine.machine import describe_machine, gpu_names
from zoolens.errors import Circumstance, ConstraintError

_FUNCTION: Final = "zoolens.crosstrain.training.fanout:train_here"
_LOOK: Final = 0.5  # seconds after which whoever waits looks whether it is still wanted


class RemoteTraining:
    """Trains on an executor. `close` lets go whoever waits."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def train(self, job: Job) -> Outcome:
        """The outcome of a job, whose files lie in its output folder then."""
        future = self._executor.submit(_FUNCTION, _message(job), gpu=job.gpu is not None)
        while not wait([future], timeout=_LOOK).done:
            if self.closed:
                future.cancel()
                raise Circumstance("The training was stopped.")
        answer = future.result()
        job.output.mkdir(parents=True, exist_ok=True)
        for name, content in answer["files"].items():
            (job.output / Path(name).name).write_bytes(content)
        return Outcome.model_validate(answer["outcome"])


def train_here(message: Mapping[str, Any]) -> dict[str, Any]:
    """On the node: train, and give back the outcome and the files of the output folder."""
    asked = Job.model_validate(message["job"])
    _check_machine(asked, message["machine"])
    check_reachable([str(asked.data)])
    with tempfile.TemporaryDirectory(prefix="zoolens-node-") as folder:
        weights = None
        if message["weights"] is not None:
            weights = Path(folder) / "initial.safetensors"
            weights.write_bytes(message["weights"])
        job = asked.model_copy(update={"weights": weights, "output": Path(folder) / "output"})
        outcome, _ = _workers().train(job)
        files = {path.name: path.read_bytes() for path in sorted(job.output.glob("*")) if path.is_file()}
    return {"outcome": outcome.model_dump(mode="json"), "files": files}


def this_machine() -> dict[str, Any]:
    """The properties of this machine that can change what is learnt, or how long it takes."""
    machine = describe_machine()
    return {"cpu": machine.cpu, "cores": machine.cores, "architecture": machine.architecture}


def _message(job: Job) -> dict[str, Any]:
    return {
        "job": job.model_dump(mode="json"),
        "weights": None if job.weights is None else job.weights.read_bytes(),
        "machine": _machine(job),
    }


def _machine(job: Job) -> dict[str, Any]:
    return {**this_machine(), **({} if job.gpu is None else {"gpus": list(gpu_names())})}


def _check_machine(job: Job, expected: Mapping[str, Any]) -> None:
    """A training is kept under the machine that it ran on, which decides its last digits."""
    here = _machine(job)
    different = [f"{name} {here[name]} instead of {expected[name]}" for name in here if here[name] != expected[name]]
    if different:
        raise ConstraintError(
            f"The node {platform.node()} is another kind of machine: {', '.join(different)}.",
            hint="Train on machines like the one that you start from, or start from one of them.",
        )


@cache
def _workers() -> Any:
    """The training processes of this process: they stay for the next job, and end when it does."""
    from zoolens.crosstrain.training.trainer_pool import Workers

    return Workers()
