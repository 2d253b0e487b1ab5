"""One worker process: started for a module, spoken to in plain data and tensors, certain to be gone afterwards.

It lives in a process group of its own, which is killed with everything that it started when we say so, when this object
goes, or when we end. Then its scratch folder is removed. Works where there are POSIX pipes and process groups (Linux,
macOS).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from zoolens.base.engine import faults
from zoolens.base.engine.environments import Environment, EnvSpec
from zoolens.base.engine.fork_server import ForkedProcess, Preloaded, forked_process
from zoolens.base.engine.launcher import launch
from zoolens.base.engine.policy import Rights, worker_policy
from zoolens.base.engine.sandbox import Policy
from zoolens.base.engine.scratch import make_scratch, remove_scratch
from zoolens.base.engine.scratch_quota import MOST_BYTES, MOST_ENTRIES, unwatch_scratch, watch_scratch
from zoolens.base.engine.wire import Arena, Channel, Tensor, decoded, encoded
from zoolens.base.errors import Circumstance, WorkerError, WorkerTimeout, ZoolensError

_TAIL_LINES: Final = 40
_GRACE: Final = 5.0  # seconds for a dead process to be collected

Report = Callable[[Any], None]
_Process = subprocess.Popen[bytes] | ForkedProcess


@dataclass(frozen=True)
class WorkerKind:
    """What a worker is: workers of equal kinds can stand in for each other.

    `name` is for sentences ("training process"). `main(settings, began_ns)` of `module` is run; `settings` come to what
    `Service` needs. `plugin` is the module whose package it needs beside ours. Without `rights` it is not sandboxed.
    `own_folder`: also without a sandbox its temporary folder is its own, and goes with it. `preloaded`: where that is
    possible, it is forked from a process that has imported these; for workers of our own environment without a sandbox.
    """

    name: str
    module: str
    plugin: str
    environment: Environment | EnvSpec | None = None
    variables: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    rights: Rights | None = None
    own_folder: bool = False
    preloaded: Preloaded | None = None


class WorkerProcess:
    """It belongs to one thread; `kill` alone may be called from another. `answered` counts the requests that it has
    answered, `dead` says that it ended by itself while we waited for an answer."""

    def __init__(self, kind: WorkerKind, environment: Environment | None = None) -> None:
        """`environment` is that of the kind where it only specifies one."""
        if isinstance(kind.environment, Environment):
            environment = kind.environment
        self.kind = kind
        self.answered = 0
        self.dead = False
        self._channel = Channel(-1, -1)
        shared: list[Channel | Arena] = [self._channel]
        # Of the pipes: those that the process inherits.
        ends: list[int] = []
        folder: Path | None = None
        try:
            self.inputs, self.outputs = _arena(shared), _arena(shared)
            # Pipes of our own: frameworks print to standard output, and would garble the messages.
            request_end, self._channel.writing = os.pipe()
            ends.append(request_end)
            self._channel.reading, answer_end = os.pipe()
            ends.append(answer_end)
            folder = make_scratch() if kind.rights or kind.own_folder else None
            passed = (request_end, answer_end, self.inputs.descriptor, self.outputs.descriptor)
            self._process = _start(kind, environment, passed, folder)
        except (OSError, ZoolensError) as error:
            _close(folder, *shared)
            if isinstance(error, ZoolensError):
                raise
            raise Circumstance(f"The {kind.name} cannot be started: {error}.") from error
        finally:
            for end in ends:
                os.close(end)
        self._run: tuple[Any, bytes] = None, b""  # the last layout that was run, and its message
        # The last message without an error, and its answer.
        self._arrived: tuple[bytes | None, Any] = None, None
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._listener = threading.Thread(target=_keep_tail, args=(self._process, self._tail), daemon=True)
        self._listener.start()
        self._over_quota = threading.Event()
        # No reference to this object, which must be able to go.
        if folder is not None and kind.rights is not None:
            watch_scratch(folder, partial(_kill_over_quota, self._process, self._over_quota))
        # Runs once: when asked, when this object goes, or when the interpreter exits.
        self._finalizer = weakref.finalize(
            self, _end, self._process, os.getpid(), folder, self._channel, self.inputs, self.outputs
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def forked(self) -> bool:
        """Whether it was forked from a process that has imported what it needs."""
        return isinstance(self._process, ForkedProcess)

    @property
    def running(self) -> bool:
        """Whether it has not been stopped; it may have died since."""
        return self._finalizer.alive

    @property
    def alive(self) -> bool:
        """Whether the process can still answer. A killed one is a zombie until the last of its threads has ended."""
        import psutil

        try:
            return (
                self.running
                and self._process.poll() is None
                and psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE
            )
        except psutil.NoSuchProcess:
            return False

    def ask(
        self,
        message: Mapping[str, Any],
        doing: str,
        tensors: Mapping[str, Tensor] | None = None,
        *,
        timeout: float | None = None,
        report: Report | None = None,
    ) -> Any:
        """Send one request and wait for its answer; an error in the worker is raised here as the same error."""
        self.send(message, doing, tensors)
        return self.receive(doing, timeout=timeout, report=report)

    def send(self, message: Mapping[str, Any], doing: str, tensors: Mapping[str, Tensor] | None = None) -> None:
        """Send one request. Its answer must be received before the next one is sent."""
        if not self.running:
            raise WorkerError(f"The {self.kind.name} has ended.", hint="Start another one.")
        layout = {} if tensors is None else {"tensors": self.inputs.write(tensors)}
        with self._explained(doing, None):
            self._channel.send({**message, **layout})

    def receive(self, doing: str, *, timeout: float | None = None, report: Report | None = None) -> Any:
        """The answer to what was sent; progress that comes before it is given to `report`. `timeout` is in seconds, for
        all of it together."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._explained(doing, timeout):
                message = self._next(deadline)
            if "progress" not in message:
                break
            if report is not None:
                self._reported(report, message["progress"])
        self.answered += 1
        if isinstance(message.get("error"), Mapping):
            raise faults.rebuild(message["error"], of_worker=True)
        return message.get("ok")

    @property
    def descriptor(self) -> int:
        """Becomes readable when an answer arrives, or when the process has ended."""
        return self._channel.reading

    def start_run(self, parts: Sequence[Mapping[str, Tensor]]) -> None:
        """For event loops: send the request {"do": "run"} with the tensors of these parts, one below the other.

        OSError: the process has ended, and `ended` explains it.
        """
        layout = self.inputs.write_rows(parts)
        if self._run[0] is not layout:
            self._run = layout, encoded({"do": "run", "tensors": layout}) + b"\n"
        self._channel.send_line(self._run[1])

    def start(self, message: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """For event loops: send any request with tensors. Errors are as those of `start_run`."""
        self._channel.send({**message, "tensors": self.inputs.write(tensors)})

    def receive_arrived(self) -> tuple[bool, Any]:
        """For event loops, once `descriptor` is readable: whether the answer has arrived in full, and the answer. An
        answer in the same words as the last one is the same object, which must not be modified.

        It never waits. EOFError, OSError or ValueError: the process has ended or talks nonsense, and `ended` explains
        it.
        """
        line = self._channel.line_arrived()
        if line is None:
            return False, None
        if line == self._arrived[0]:
            self.answered += 1
            return True, self._arrived[1]
        message = decoded(line)
        if "progress" in message:
            return False, None
        self.answered += 1
        if isinstance(message.get("error"), Mapping):
            raise faults.rebuild(message["error"], of_worker=True)
        self._arrived = line, message.get("ok")
        return True, self._arrived[1]

    def ended(self, error: Exception, doing: str) -> WorkerError:
        """Stop a process whose `start_run`, `start` or `receive_arrived` raised this, and say how it ended. It takes
        seconds."""
        return self._death(doing) if isinstance(error, EOFError | OSError) else self.nonsense(error, doing)

    def _next(self, deadline: float | None) -> dict[str, Any]:
        if deadline is None:
            return self._channel.receive()
        left = deadline - time.monotonic()
        # A worker that never stops talking would always have something to read.
        if left <= 0:
            raise TimeoutError
        return self._channel.receive(left)

    def _reported(self, report: Report, progress: Any) -> None:
        try:
            report(progress)
        except BaseException:
            # The answer would be taken for that of the next request.
            self.stop()
            raise

    def kill(self) -> None:
        """Kill the process now. Whoever waits for its answer gets an error and is to stop it."""
        if self.running:
            _kill(self._process)

    def stop(self) -> None:
        """Kill the process and all it started, and release what it shared with us. Calling it twice is fine."""
        self._finalizer()

    def nonsense(self, error: Exception, doing: str = "") -> WorkerError:
        """Stop a worker whose answer cannot be one: it may have been taken over. The error to raise."""
        self.stop()
        while_doing = f" while {doing}" if doing else ""
        return WorkerError(f"The {self.kind.name} returned an invalid answer{while_doing}: {error}.")

    @contextmanager
    def sensible(self, doing: str = "") -> Iterator[None]:
        """Ends the worker, as `nonsense` does, if parsing its answer inside the `with` fails."""
        try:
            yield
        except (LookupError, ValueError, TypeError, AttributeError, OverflowError, MemoryError) as error:
            raise self.nonsense(error, doing) from error

    @contextmanager
    def _explained(self, doing: str, timeout: float | None) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            self.stop()
            raise WorkerTimeout(
                f"The {self.kind.name} was stopped: no answer in {timeout:g} s while {doing}.",
                hint="Allow more time, or give it less to do at once.",
            ) from error
        except (EOFError, OSError) as error:
            raise self._death(doing) from error
        except ValueError as error:
            raise self.nonsense(error, doing) from error
        except BaseException:
            # Ctrl-C: the answer would be taken for that of the next request.
            self.stop()
            raise

    def _death(self, doing: str) -> WorkerError:
        self.dead = True
        code: int | None = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(_GRACE)
        self.stop()
        self._listener.join(_GRACE)
        if self._over_quota.is_set():
            return WorkerError(
                f"The {self.kind.name} was stopped while {doing}: its temporary files took more than "
                f"{MOST_BYTES >> 30} GiB or were more than {MOST_ENTRIES:,}.",
                hint="If you trust the model, add --trust.",
            )
        return faults.death(self.kind.name, code, doing, list(self._tail))


def _arena(shared: list[Channel | Arena]) -> Arena:
    arena = Arena.create()
    shared.append(arena)
    return arena


def _start(kind: WorkerKind, environment: Environment | None, passed: tuple[int, ...], folder: Path | None) -> _Process:
    settings = {**dict(kind.settings), "parent": os.getpid(), "spawned_ns": time.monotonic_ns()}
    if kind.preloaded is not None and kind.rights is None and environment is None:
        forked = forked_process(kind.preloaded, kind.module, settings, passed, dict(kind.variables), folder)
        if forked is not None:
            return forked
    own_folder = {"TMPDIR": str(folder)} if folder is not None and kind.own_folder else {}
    return launch(
        kind.module,
        {**settings, "descriptors": passed},
        environment,
        kind.plugin,
        variables={**dict(kind.variables), **own_folder},
        policy=_policy(kind, environment, folder),
        # A framework that asks a question gets no answer.
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=passed,
    )


def _policy(kind: WorkerKind, environment: Environment | None, folder: Path | None) -> Policy | None:
    if kind.rights is None or folder is None:
        return None
    return worker_policy(folder, kind.plugin, environment, kind.rights)


def _end(process: _Process, owner: int, folder: Path | None, *shared: Channel | Arena) -> None:
    # A forked child of ours must not end a worker that is not its own.
    if os.getpid() != owner:
        return
    _kill(process)
    process.wait()
    _close(folder, *shared)


def _close(folder: Path | None, *shared: Channel | Arena) -> None:
    for channel_or_arena in shared:
        channel_or_arena.close()
    if folder is not None:
        unwatch_scratch(folder)
        remove_scratch(folder)


def _kill(process: _Process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        # The whole group: compilers and helpers that a framework has started would outlive it.
        os.killpg(process.pid, signal.SIGKILL)


def _kill_over_quota(process: _Process, over_quota: threading.Event) -> None:
    over_quota.set()
    _kill(process)


def _keep_tail(process: _Process, tail: deque[str]) -> None:
    """Drain what the worker and its framework print, so that they never block, and keep the end of it."""
    assert process.stdout is not None  # asked for in `_start`
    with process.stdout as stream:
        # With a limit: a worker that never ends a line must not fill our memory.
        while line := stream.readline(1 << 12):
            if text := line.decode(errors="replace").strip():
                tail.append(text[:300])
