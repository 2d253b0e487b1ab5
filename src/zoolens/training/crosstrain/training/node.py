"""The work of a node: it trains a job that another machine sent, and sends back the outcome and its files."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from zoolens.base.engine.executors.reports import teller
from zoolens.base.errors import ConstraintError
from zoolens.base.progress import Silent
from zoolens.inventory.fleet.arrival import arrived
from zoolens.training.crosstrain.training.fanout import machine_of
from zoolens.training.crosstrain.training.job import Job
from zoolens.training.crosstrain.training.trainer_pool import Workers


def train_here(message: Mapping[str, Any]) -> dict[str, Any]:
    """Train, and give back the outcome and the files of the output folder."""
    _check_machine(Job.model_validate(message["job"]), message["machine"])
    with arrived(message, Silent()) as found:  # what is told from here are epochs
        answer: dict[str, Any] = found.restored(_trained(found.job))
    return answer


def _trained(message: Mapping[str, Any]) -> dict[str, Any]:
    asked = Job.model_validate(message["job"])
    with tempfile.TemporaryDirectory(prefix="zoolens-node-") as folder:
        weights = None
        if message["weights"] is not None:
            weights = Path(folder) / "initial.safetensors"
            weights.write_bytes(message["weights"])
        job = asked.model_copy(update={"weights": weights, "output": Path(folder) / "output"})
        tell = teller()
        outcome, _ = _workers().train(job, lambda epoch: tell(epoch.model_dump(mode="json")))
        files = {path.name: path.read_bytes() for path in sorted(job.output.glob("*")) if path.is_file()}
    return {"outcome": outcome.model_dump(mode="json"), "files": files}


def _check_machine(job: Job, expected: Mapping[str, Any]) -> None:
    """A training is kept under the machine that it ran on, which decides its last digits."""
    here = machine_of(job)
    different = [f"{name} {here[name]} instead of {expected[name]}" for name in here if here[name] != expected[name]]
    if different:
        raise ConstraintError(
            f"The node {platform.node()} is another kind of machine: {', '.join(different)}.",
            hint="Train on machines like the one that you start from, or start from one of them.",
        )


@cache
def _workers() -> Workers:
    """The training processes of this process: they stay for the next job, and end when it does."""
    return Workers()
