"""The training processes: started when needed, kept for the next job, gone when we are.

There is one process for each framework, device and number of threads, and another one for each job that is trained
beside it. A job whose process dies has failed; the next one gets a new process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import IO, Any, Final, Self

import numpy as np
import psutil
from numpy.typing import NDArray

from zoolens import errors, plugins
from zoolens.crosstrain.job import Epoch, Job, Outcome
from zoolens.crosstrain.worker import NO_ROOM, PREDICTIONS
from zoolens.engine.launcher import launch
from zoolens.engine.wire import Channel
from zoolens.errors import WorkerError, ZoolensError

_RECYCLED: Final = 200  # jobs, after which a process makes room for a fresh one
_GRACE: Final = 5.0  # seconds for a dead process to be collected
_LAST_WORDS: Final = 4096  # bytes of what it printed

Kind = tuple[str, str, int | None]  # framework, device, threads
Report = Callable[[Epoch], None]


def ignore(_: Epoch) -> None:
    """For who does not want to hear of every epoch."""


class Workers:
    """Use it in a `with`: leaving it ends every process, also those in the middle of a job. Any number of threads may
    call `train` at once."""

    def __init__(self, *, recycled: int = _RECYCLED) -> None:
        self._recycled = recycled
        self._idle: dict[Kind, list[_Process]] = {}
        self._all: set[_Process] = set()
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle = [process for processes in self._idle.values() for process in processes]
            everyone, self._all, self._idle = self._all, set(), {}
        for process in everyone:
            process.stop()  # who waits for a busy one is told, and releases it
        for process in idle:
            process.release()

    def train(self, job: Job, report: Report = ignore) -> tuple[Outcome, NDArray[np.int32]]:
        """The outcome and the class answered for every test sample. What went wrong while training is an outcome;
        what a user can mend (an unknown architecture, a framework that is not installed) is raised."""
        process = self._taken((job.framework, job.device, job.threads))
        try:
            outcome = process.train(job, report)
        except _Lost as error:
            if self._closed:
                raise WorkerError("The training was stopped.") from error
            return _failed(job, process.death(error)), np.empty(0, np.int32)
        finally:
            self._give_back(process)
        complete = outcome.status in ("finished", "non-finite")
        return outcome, read_predictions(job) if complete else np.empty(0, np.int32)

    def _taken(self, kind: Kind) -> _Process:
        with self._lock:
            if self._closed:
                raise WorkerError("The training was stopped.")
            idle = self._idle.get(kind, [])
            while idle:
                process = idle.pop()
                if process.alive:
                    return process
                self._all.discard(process)  # killed while it had nothing to do: no fault of the next job
                process.stop()
                process.release()
            process = _Process(kind)
            self._all.add(process)
            return process

    def _give_back(self, process: _Process) -> None:
        with self._lock:
            if process.usable and process.jobs < self._recycled and not self._closed:
                self._idle.setdefault(process.kind, []).append(process)
                return
            self._all.discard(process)
        process.stop()
        process.release()


def read_predictions(job: Job) -> NDArray[np.int32]:
    """What a finished job answered."""
    path = job.output / PREDICTIONS
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise WorkerError(f"The predictions {path} cannot be read: {error}.") from error
    if found.ndim != 1 or found.dtype != np.int32:
        raise WorkerError(f"The predictions {path} are not one class per sample.")
    predictions: NDArray[np.int32] = found
    return predictions


class _Lost(Exception):
    """The process is gone, or speaks nonsense."""


class _Process:
    """One worker. It belongs to the thread that took it; `stop` may be called from any."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.jobs = 0
        self.usable = True
        trainer = plugins.load(plugins.TRAINERS, kind[0])
        self._printed: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `stop`
        requests, request_end = os.pipe()
        answer_end, answers = os.pipe()
        self._channel = Channel(answer_end, request_end)
        self._stopped = threading.Lock()
        try:
            self._process = launch(
                "zoolens.crosstrain.worker",
                {"answers": answers, "trainer": kind[0]},
                None,
                trainer.__module__,
                variables=_variables(trainer.variables, kind),
                stdin=requests,
                stdout=self._printed,
                stderr=subprocess.STDOUT,
                pass_fds=(answers,),
            )
        except BaseException:
            self._channel.close()
            self._printed.close()
            raise
        finally:
            os.close(requests)
            os.close(answers)

    @property
    def alive(self) -> bool:
        """A killed process cannot be waited for until the last of its threads has ended; it is a zombie before."""
        try:
            return self._process.poll() is None and psutil.Process(self._process.pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def train(self, job: Job, report: Report) -> Outcome:
        self.usable = False  # until the answer is read to its end
        self.jobs += 1
        answer = self._answer(job)
        while isinstance(answer, Epoch):
            report(answer)
            answer = self._answer()
        self.usable = True
        if isinstance(answer, ZoolensError):
            raise answer
        return answer if isinstance(answer, Outcome) else _failed(job, answer)

    def _answer(self, job: Job | None = None) -> Epoch | Outcome | ZoolensError | str:
        """The next thing it says, after it is given a job if there is one; a sentence if that failed."""
        try:
            if job is not None:
                self._channel.send({"job": job.model_dump(mode="json")})
            return _understood(self._channel.receive())
        except (EOFError, OSError, ValueError, KeyError) as error:
            raise _Lost(str(error)) from error

    def death(self, error: Exception) -> str:
        """What became of the process, in a sentence."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
        code = self._process.poll()
        if code is None:
            return f"The training process answered nonsense: {error}."
        if code == -signal.SIGKILL:
            return "The training process was killed; is there enough memory?"
        how = f"died of signal {-code}" if code < 0 else f"exited with code {code}"
        words = self._last_words()
        if "bad_alloc" in words:
            return NO_ROOM
        return f"The training process {how}{f': {words}' if words else ''}."

    def stop(self) -> None:
        """Kill it with all it started; more than once is fine."""
        self.usable = False
        with self._stopped:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if self._process.poll() is None:
                    os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def release(self) -> None:
        """Close our ends; only who reads from them knows when."""
        self._channel.close()
        self._printed.close()

    def _last_words(self) -> str:
        size = os.fstat(self._printed.fileno()).st_size
        tail = os.pread(self._printed.fileno(), _LAST_WORDS, max(0, size - _LAST_WORDS)).decode(errors="replace")
        return next((line.strip()[:300] for line in reversed(tail.splitlines()) if line.strip()), "")


def _understood(message: Mapping[str, Any]) -> Epoch | Outcome | ZoolensError | str:
    if "epoch" in message:
        return Epoch.model_validate(message["epoch"])
    if "done" in message:
        return Outcome.model_validate(message["done"])
    if "error" in message:
        return _error(message["error"])
    return str(message["failed"])


def _variables(own: Mapping[str, str], kind: Kind) -> dict[str, str]:
    """The trainer's own; threads, which some frameworks read only when they start; and no GPU memory for a CPU job."""
    _, device, threads = kind
    found = {"TF_CPP_MIN_LOG_LEVEL": "3", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    if threads is not None:
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
        found |= dict.fromkeys(names, str(threads))
    if device == "cpu":
        found |= {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
    return {**found, **own}


def _failed(job: Job, sentence: str) -> Outcome:
    return Outcome(framework=job.framework, versions={}, status="failed", message=sentence)


def _error(told: Mapping[str, Any]) -> ZoolensError:
    kind = getattr(errors, str(told.get("type")), ZoolensError)
    kind = kind if isinstance(kind, type) and issubclass(kind, ZoolensError) else ZoolensError
    error: ZoolensError = kind.__new__(kind)  # some make their message themselves: it is made already
    ZoolensError.__init__(error, str(told.get("message")), hint=told.get("hint"))
    return error
