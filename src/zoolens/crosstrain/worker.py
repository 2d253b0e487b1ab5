"""The process that imports one framework and trains one job after another; `workers` starts it and speaks to it.

One JSON message a line comes on standard input, {"job": …}; answers go to a descriptor of their own, since frameworks
print to standard output: {"epoch": …} after each epoch, then {"done": outcome}, {"failed": sentence} where the job
met an unexpected error, or {"error": …} where a user can mend it. Predictions, weights and the outcome lie in the job's
output folder before it is done. The process ends when its standard input does, even in the middle of a job.
"""

from __future__ import annotations

import io
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final

import numpy as np

from zoolens import plugins
from zoolens.crosstrain.data import load
from zoolens.crosstrain.job import Epoch, Job, Outcome
from zoolens.crosstrain.trainers.base import TrainData, Trained, Trainer
from zoolens.crosstrain.weights import read_weights, write_weights
from zoolens.engine.wire import Channel, end_with_parent
from zoolens.errors import ZoolensError
from zoolens.runtimes.base import first_line

NO_ROOM: Final = "The training process ran out of memory."
PREDICTIONS: Final = "predictions.npy"
WEIGHTS: Final = "weights.safetensors"
OUTCOME: Final = "outcome.json"

Message = dict[str, Any]
Send = Callable[[Mapping[str, Any]], None]


class Worker:
    """One trainer. The data of the last job stay mapped: the next one most likely has the same."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._loaded: tuple[Path, TrainData] | None = None

    def answer(self, request: Mapping[str, Any], send: Send) -> Message:
        try:
            job = Job.model_validate(request["job"])
            return {"done": self.carry_out(job, lambda epoch: send({"epoch": epoch.model_dump()})).model_dump()}
        except ZoolensError as error:
            return {"error": {"type": type(error).__name__, "message": error.message, "hint": error.hint}}
        except MemoryError:  # outside of the training itself, where it is an outcome
            return {"failed": NO_ROOM}
        except (Exception, SystemExit) as error:
            return {"failed": _unexpected(error)}

    def carry_out(self, job: Job, report: Callable[[Epoch], None]) -> Outcome:
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
    with NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    Path(file.name).replace(path)


def main(settings: Mapping[str, Any], _began_ns: int = 0) -> None:
    """Serve until standard input ends. `answers`: the descriptor to write to; `trainer`: its entry point's name."""
    answers = int(settings["answers"])
    reading = os.dup(sys.stdin.fileno())
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)  # a framework that asks a question gets no answer, and does not eat a request
    os.close(empty)
    os.set_inheritable(answers, False)
    threading.Thread(target=end_with_parent, args=(reading, os.getppid()), daemon=True).start()
    channel = Channel(reading, answers)
    worker = Worker(plugins.load(plugins.TRAINERS, settings["trainer"])())
    try:
        while True:
            channel.send(worker.answer(channel.receive(), channel.send))
    except (EOFError, BrokenPipeError):
        os._exit(0)  # frameworks crash or hang in their exit handlers, and there is nothing left to save


def _unexpected(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"The training met an unexpected {type(error).__name__}{place}: {first_line(error)}"
