"""The other end of `worker`: start one, ask it, and be sure that it is gone afterwards.

A worker that dies or does not answer in time is an error about the model it was reading; the next `ask` starts a new
one. Works where there are POSIX pipes and process groups (Linux, macOS).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from zoolens.engine.environments import Environment
from zoolens.engine.launcher import launch
from zoolens.engine.policy import worker_policy
from zoolens.engine.scratch import make_scratch, remove_scratch
from zoolens.engine.wire import Channel, read_tensors
from zoolens.errors import WorkerError
from zoolens.graph.model import Array
from zoolens.graph.worker import WEIGHTS

_GRACE: Final = 5.0  # seconds for a dead worker to be collected
_LAST_WORDS: Final = 4096  # bytes of what it printed

# One thread each, since there is a worker for every core; quiet; and no accelerator: structure is computed nowhere.
_CALM: Final = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "-1",
}


class Circumstance(WorkerError):
    """The worker failed for want of something on this machine, not because of the model."""


class WorkerProcess:
    """One worker for one importer module in one environment, started when first asked and again after its death.

    It belongs to one thread; `interrupt` alone may be called from another. Since it is always killed, frameworks never
    tidy up: what they leave in their temporary folder goes with it. `readable`: it is sandboxed, and may read these
    files beside what every worker reads; None: it is not, because it works on what the user wrote.
    """

    def __init__(
        self, module: str, environment: Environment | None = None, *, readable: Sequence[str] | None = None
    ) -> None:
        self._module = module
        self._environment = environment
        self._readable = readable
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._printed: IO[bytes] | None = None
        self._folder: Path | None = None  # for its temporary files
        self._answered = 0  # since it was started
        self._lock = threading.Lock()
        self._interrupted = False

    def ask(self, message: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """The worker's answer, or a WorkerError that says what became of it.

        A worker that has read other models before it dies gets a second chance: the fault may be theirs.
        """
        subject = str(message["subject"])
        try:
            answer = self._ask(message, timeout)
            self._answered += 1
        except TimeoutError:
            self.stop()
            raise WorkerError(f"Reading the structure of {subject} took more than {timeout:g} s.") from None
        except ValueError as error:
            self.stop()
            raise WorkerError(f"The process that read {subject} answered nonsense: {error}.") from error
        except (EOFError, OSError) as error:
            again = self._answered > 0
            death = self._death(subject, error)
            if again and not self._interrupted:
                return self.ask(message, timeout)
            raise death from error
        return answer

    def values(self, layout: Any, limit: int) -> dict[str, Array]:
        """The values that an answer with weights left in the worker's folder, `limit` bytes at the most."""
        assert self._folder is not None  # it has answered just now
        try:
            # It may have put a pipe or a link there.
            file = os.open(self._folder / WEIGHTS, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                return read_tensors(file, layout, limit)
            finally:
                os.close(file)
        except (OSError, KeyError, ValueError, TypeError, OverflowError, MemoryError) as error:
            self.stop()
            raise WorkerError(f"The process that read the weights answered nonsense: {error}.") from error

    def interrupt(self) -> None:
        """Kill the worker now and start no other: who waits in `ask` gets an error."""
        with self._lock:
            self._interrupted = True
            if self._process is not None:
                _kill(self._process)

    def stop(self) -> int:
        """End the worker and all it started; its exit status. The next `ask` starts another."""
        with self._lock:
            process, channel, printed, folder = self._process, self._channel, self._printed, self._folder
            self._process = self._channel = self._printed = self._folder = None
        self._answered = 0
        if process is None or channel is None or printed is None or folder is None:
            return 0
        _kill(process)
        channel.close()
        printed.close()
        code = process.wait()
        remove_scratch(folder)
        return code

    def _ask(self, message: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        channel = self._channel or self._start()
        channel.send(message)
        return channel.receive(timeout)

    def _start(self) -> Channel:
        folder = make_scratch()
        printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `stop`
        requests, request_end = os.pipe()
        answer_end, answers = os.pipe()
        channel = Channel(answer_end, request_end)
        try:
            self._launch(requests, answers, printed, folder)
        except BaseException:
            channel.close()
            printed.close()
            remove_scratch(folder)
            raise
        finally:
            os.close(requests)
            os.close(answers)
        self._channel, self._printed, self._folder = channel, printed, folder
        return channel

    def _launch(self, requests: int, answers: int, printed: IO[bytes], folder: Path) -> None:
        with self._lock:  # an interrupt comes before, and nothing is started, or after, and finds it
            if self._interrupted:
                raise Circumstance("The export was stopped.")
            policy = None
            if self._readable is not None:
                policy = worker_policy(folder, self._module, self._environment, self._readable)
            self._process = launch(
                "zoolens.graph.worker",
                {"answers": answers},
                self._environment,
                self._module,
                variables={**_CALM, "TMPDIR": str(folder)},
                policy=policy,
                stdin=requests,
                stdout=printed,
                stderr=subprocess.STDOUT,
                pass_fds=(answers,),
            )

    def _death(self, subject: str, error: Exception) -> WorkerError:
        if self._process is None:
            return Circumstance(f"The process that reads {subject} cannot be started: {error}.")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
        words = _last_words(self._printed)
        code = self.stop()
        how = f"died with signal {-code} ({_signal_name(-code)})" if code < 0 else f"exited with code {code}"
        sentence = f"The process that read {subject} {how}."
        if code == -signal.SIGKILL:
            return Circumstance(sentence, hint="Is there enough memory?")
        return WorkerError(sentence, hint=f"Its last words: {words}" if words else None)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _last_words(printed: IO[bytes] | None) -> str:
    if printed is None:
        return ""
    size = os.fstat(printed.fileno()).st_size
    tail = os.pread(printed.fileno(), _LAST_WORDS, max(0, size - _LAST_WORDS)).decode(errors="replace")
    return " | ".join([line.strip()[:300] for line in tail.splitlines() if line.strip()][-3:])


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
