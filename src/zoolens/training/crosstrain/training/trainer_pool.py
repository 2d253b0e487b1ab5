"""The training processes: started when needed, kept for the next job, gone when we are.

There is one process for each framework, device and number of threads, and another one for each job that is trained
beside it. A job whose process dies has failed; the next one gets a new process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from zoolens.base.engine.executors.current_executor import current_executor
from zoolens.base.engine.pool import WorkerPool
from zoolens.base.engine.process import WorkerKind
from zoolens.base.engine.scratch import kept_scratch
from zoolens.base.errors import WorkerError
from zoolens.training.crosstrain.training.fanout import RemoteTraining
from zoolens.training.crosstrain.training.job import Epoch, Job, Outcome
from zoolens.training.crosstrain.training.trainer_process import PREDICTIONS
from zoolens.training.crosstrain.training.trainers.registry import trainer_named

_RECYCLED: Final = 200  # jobs, after which a process makes room for a fresh one
_JAX_FOLDER: Final = "JAX_COMPILATION_CACHE_DIR"

Report = Callable[[Epoch], None]
Message = TypeVar("Message", Epoch, Outcome)


def ignore(_: Epoch) -> None:
    """For whoever does not want to hear of every epoch."""


class Workers:
    """Use it in a `with`: leaving it ends every process, also those in the middle of a job. Any number of threads may
    call `train` at once. Where `running_on` chose other machines, it trains there."""

    def __init__(self, *, recycled: int = _RECYCLED) -> None:
        self._pool = WorkerPool(recycled=recycled, stopped="The training was stopped.")
        executor = current_executor()
        self._elsewhere = RemoteTraining(executor) if executor.elsewhere else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._pool.close()
        if self._elsewhere is not None:
            self._elsewhere.close()

    def train(self, job: Job, report: Report = ignore) -> tuple[Outcome, NDArray[np.int32]]:
        """The outcome and the class answered for every test sample. What went wrong while training is an outcome;
        what a user can mend (an unknown architecture, a framework that is not installed) is raised."""
        try:
            outcome = self._here(job, report) if self._elsewhere is None else _there(self._elsewhere, job, report)
        except WorkerError as error:
            if self._pool.closed:
                raise
            outcome = Outcome(framework=job.framework, versions={}, status="failed", message=str(error))
        complete = outcome.status in ("finished", "non-finite")
        return outcome, read_predictions(job) if complete else np.empty(0, np.int32)

    def _here(self, job: Job, report: Report) -> Outcome:
        answer = self._pool.ask(
            _kind(job),
            {"job": job.model_dump(mode="json")},
            f"training {job.recipe.architecture}",
            report=lambda epoch: report(_understood(Epoch, epoch)),
        )
        return _understood(Outcome, answer)


def _there(training: RemoteTraining, job: Job, report: Report) -> Outcome:
    """Every epoch is reported once: as it comes, or with the outcome."""
    trainer_named(job.framework)  # an unknown one is said here
    reported = 0

    def came(told: Any) -> None:
        nonlocal reported
        epoch = _understood(Epoch, told)
        if epoch.number == reported + 1:
            reported += 1
            report(epoch)

    outcome = training.train(job, came)
    for epoch in outcome.epochs[reported:]:
        report(epoch)
    return outcome


def read_predictions(job: Job) -> NDArray[np.int32]:
    """What a finished job answered."""
    path = job.output / PREDICTIONS
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise WorkerError(f"The predictions {path} cannot be read: {error}.") from error
    if array.ndim != 1 or array.dtype != np.int32:
        raise WorkerError(f"The predictions {path} are not one class per sample.")
    predictions: NDArray[np.int32] = array
    return predictions


def _kind(job: Job) -> WorkerKind:
    """Threads are part of it, since some frameworks read their number only when they start."""
    trainer = trainer_named(job.framework)
    return WorkerKind(
        "training process",
        "zoolens.training.crosstrain.training.trainer_process",
        trainer.__module__,
        variables=tuple(_variables(trainer.variables, job.device, job.threads).items()),
        settings=(("trainer", job.framework),),
    )


def _understood(model: type[Message], answer: Any) -> Message:
    try:
        return model.model_validate(answer)
    except ValidationError as error:
        raise WorkerError(f"The training process returned an invalid answer: {error}.") from error


def _variables(own: Mapping[str, str], device: str, threads: int | None) -> dict[str, str]:
    """The trainer's own; threads; and no GPU memory for a CPU job."""
    variables = {"TF_CPP_MIN_LOG_LEVEL": "3", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    if threads is not None:
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
        variables |= dict.fromkeys(names, str(threads))
    if device == "cpu":
        variables |= {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu", **_compiled_programs(threads)}
    return {**variables, **own}


def _compiled_programs(threads: int | None) -> dict[str, str]:
    """Let JAX keep what it compiled until our process ends, or in the folder that the user gave it.

    To compile a small network takes ten times as long as to train it, and the jobs of a study mostly share one program.
    XLA may divide its loops by the number of threads, which JAX's own key does not hold: each number has a folder. On
    a GPU nothing is kept: the kernels that a compilation happens to choose are part of the noise that a study measures.
    """
    try:
        kept = Path(os.environ.get(_JAX_FOLDER) or kept_scratch("programs compiled by JAX"))
    except OSError:
        return {}
    return {
        _JAX_FOLDER: str(kept / f"threads-{threads or 'all'}"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.05",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
