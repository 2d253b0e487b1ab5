"""The process that imports one framework and trains one job after another; `trainer_pool.Workers` starts it.

A request is {"job": …}. Progress is an epoch, the answer is the outcome. Predictions, weights and the outcome lie in
the job's output folder before the answer is given.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from zoolens.base import plugins
from zoolens.base.engine.service import Service
from zoolens.base.paths import replaced_file
from zoolens.training.crosstrain.training.job import Epoch, Job, Outcome
from zoolens.training.crosstrain.training.trainers.trainer import Trained, Trainer
from zoolens.training.crosstrain.training.weights import read_weights, write_weights
from zoolens.training.pairs.data.prepared_data import load
from zoolens.training.pairs.data.train_data import TrainData

PREDICTIONS: Final = "predictions.npy"
WEIGHTS: Final = "weights.safetensors"
OUTCOME: Final = "outcome.json"


class TrainerWorker:
    """One trainer. The data of the last job stay mapped: the next one most likely has the same."""

    def __init__(self, trainer: Trainer, report: Callable[[dict[str, Any]], None]) -> None:
        self._trainer = trainer
        self._report = report
        self._loaded: tuple[Path, TrainData] | None = None

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        job = Job.model_validate(request["job"])
        return self.carry_out(job, lambda epoch: self._report(epoch.model_dump())).model_dump()

    def carry_out(self, job: Job, report: Callable[[Epoch], None]) -> Outcome:
        self._trainer.check_known(job)
        weights = read_weights(job.weights) if job.weights else None
        job.output.mkdir(parents=True, exist_ok=True)
        trained = self._trainer.train(job, self._data(job.data), weights, report)
        keep(trained, job.output)
        return trained.outcome

    def _data(self, folder: Path) -> TrainData:
        if self._loaded is None or self._loaded[0] != folder:
            self._loaded = (folder, load(folder))
        return self._loaded[1]


def keep(trained: Trained, folder: Path) -> None:
    """Each file whole or absent, the outcome last: where it lies, the others do."""
    packed = io.BytesIO()
    np.save(packed, trained.predictions.astype(np.int32), allow_pickle=False)
    _write(folder / PREDICTIONS, packed.getvalue())
    if trained.weights is not None:
        write_weights(folder / WEIGHTS, trained.weights, {"framework": trained.outcome.framework})
    _write(folder / OUTCOME, trained.outcome.model_dump_json().encode())


def _write(path: Path, content: bytes) -> None:
    with replaced_file(path) as file:
        file.write(content)


def main(settings: Mapping[str, Any], began_ns: int) -> None:
    """`trainer` of the settings is the name of an entry point."""
    service = Service(settings, began_ns)
    worker = TrainerWorker(plugins.load(plugins.TRAINERS, settings["trainer"])(), service.report)
    service.serve(worker.answer, doing)


def doing(_: Mapping[str, Any]) -> str:
    return "The training process"
