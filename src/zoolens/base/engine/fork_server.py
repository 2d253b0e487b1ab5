"""Processes that have imported modules, from which workers are forked: a framework is imported once in a session.

A server is kept for equal modules, variables, paths and limits, and is started anew where one of these, or a file that
it loaded, has changed. It imports, and runs nothing else: each worker is a fork of that same state. Servers end with
this process, also when it is killed (`fork_host.py`).
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from zoolens.base.engine.fork_host import LONGEST_MESSAGE, file_stamp
from zoolens.base.engine.launcher import launch
from zoolens.base.engine.scratch import make_scratch, remove_scratch

HOST: Final = "zoolens.base.engine.fork_host"
MOST_SERVERS: Final = 3  # one that holds TensorFlow takes 0.9 GB
_IMPORT_SECONDS: Final = 300.0  # a server that imports for longer is not waited for


@dataclass(frozen=True)
class Preloaded:
    """Modules that a server imports in this order, and the files besides code that they read when they are imported."""

    modules: tuple[str, ...]
    files: tuple[str, ...] = ()


class ForkedProcess:
    """A worker that a server forked, with what `subprocess.Popen` has of it. The server keeps its process number until
    this object has received the exit code, or is closed, which kills the worker."""

    def __init__(self, pid: int, status: socket.socket, output: int) -> None:
        self.pid = pid
        self.stdout = os.fdopen(output, "rb")
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        return self._received(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._received(timeout)
        if code is None:
            raise subprocess.TimeoutExpired([f"worker {self.pid}"], timeout or 0)
        return code

    def _received(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            self._status.settimeout(timeout)
            with contextlib.suppress(TimeoutError, BlockingIOError):
                message = _message(self._status)
                # A server that ended took its workers with it.
                self.returncode = int(message.get("code", -signal.SIGKILL))
                self._status.close()
        return self.returncode


def forked_process(
    preloaded: Preloaded,
    worker: str,
    settings: Mapping[str, Any],
    passed: Sequence[int],
    variables: Mapping[str, str],
    folder: Path | None = None,
) -> ForkedProcess | None:
    """Run `main(settings, began)` of the module `worker` in a fork of a process that has imported the modules.

    `passed`: descriptors, which become settings["descriptors"]. `variables`: of the environment, beside ours. `folder`:
    for temporary files. settings["preloading"] is a `fork_host.py: Preloading`. None: these modules cannot be forked
    here, so that the worker must be started.
    """
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return None
    try:
        cwd = str(Path.cwd())
    except OSError:
        return None
    state = (cwd, *_state(preloaded, worker, variables))
    order = {**settings, "cwd": cwd, "folder": None if folder is None else str(folder)}
    # The second time with a new server, where the first one has ended, or has loaded files that are changed now.
    for _ in range(2):
        with _lock:
            if state in _unfit:
                return None
            server = _server(state, preloaded, worker, variables)
        answer, process = server.fork(order, passed)
        if process is not None:
            return process
        _retire(server)
        if "unfit" in answer:
            break
    with _lock:
        _unfit.add(state)
    return None


class _Server:
    def __init__(self, preloaded: Preloaded, worker: str, variables: Mapping[str, str], state: object) -> None:
        self.state = state
        self.used = time.monotonic()
        self._control, inherited = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        folder = make_scratch()
        try:
            process = launch(
                HOST,
                {
                    "modules": (worker, *preloaded.modules),
                    "control": inherited.fileno(),
                    "parent": os.getpid(),
                },
                None,
                HOST,
                variables={**variables, "TMPDIR": str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(inherited.fileno(),),
            )
        except BaseException:
            self._control.close()
            remove_scratch(folder)
            raise
        finally:
            inherited.close()
        self.pid = process.pid
        self._process = process
        self.end = weakref.finalize(self, _end, process, os.getpid(), self._control, folder)

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        """Order nothing more of it. It ends once all its workers have."""
        self._control.close()

    def fork(self, order: Mapping[str, Any], passed: Sequence[int]) -> tuple[Mapping[str, Any], ForkedProcess | None]:
        """The server's answer, and the process if it forked one."""
        self.used = time.monotonic()
        status, given = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reading, writing = os.pipe()
        try:
            message = json.dumps(order).encode()
            socket.send_fds(self._control, [message], [given.fileno(), writing, *passed])
            given.close()
            status.settimeout(_IMPORT_SECONDS)
            answer = _message(status)
        except TimeoutError:
            self.end()
            answer = {"unfit": "importing takes too long"}
        except (OSError, ValueError):
            answer = {}
        except BaseException:
            status.close()
            os.close(reading)
            raise
        finally:
            given.close()
            os.close(writing)
        if "pid" in answer:
            return answer, ForkedProcess(int(answer["pid"]), status, reading)
        status.close()
        os.close(reading)
        return answer, None


_lock = threading.Lock()
_servers: dict[tuple[int, object], _Server] = {}  # by process, since a fork of ours has servers of its own
_retired: list[_Server] = []  # they take no more orders, and end with the last of their workers
_unfit: set[object] = set()


def end_servers() -> None:
    """Let all servers of this process end, each once the last of its workers has, and give their memory back."""
    with _lock:
        for key in [known for known in _servers if known[0] == os.getpid()]:
            _end_later(_servers.pop(key))


def _server(state: object, preloaded: Preloaded, worker: str, variables: Mapping[str, str]) -> _Server:
    """The server of this state, which must be asked for under the lock."""
    key = os.getpid(), state
    if key not in _servers:
        own = sorted((known for known in _servers if known[0] == os.getpid()), key=lambda known: _servers[known].used)
        for oldest in own[: max(0, len(own) - MOST_SERVERS + 1)]:
            _end_later(_servers.pop(oldest))
        _servers[key] = _Server(preloaded, worker, variables, state)
    return _servers[key]


def _retire(server: _Server) -> None:
    with _lock:
        if _servers.get((os.getpid(), server.state)) is server:
            del _servers[os.getpid(), server.state]
        _end_later(server)


def _end_later(server: _Server) -> None:
    server.close()
    _retired.append(server)
    for ended in [known for known in _retired if known.ended]:
        _retired.remove(ended)
        ended.end()


def _state(preloaded: Preloaded, worker: str, variables: Mapping[str, str]) -> tuple[object, ...]:
    """What a worker would inherit if it was started now, as far as a library may look at it when it is imported."""
    limits = [resource.getrlimit(number) for number in range(getattr(resource, "RLIM_NLIMITS", 16))]
    return (
        worker,
        preloaded.modules,
        tuple(file_stamp(path) for path in preloaded.files),
        tuple(sorted({**os.environ, **variables}.items())),
        sys.executable,
        tuple(str(Path(entry or ".").absolute()) for entry in sys.path),
        tuple(limits),
        tuple(sorted(os.sched_getaffinity(0))),
        os.getpriority(os.PRIO_PROCESS, 0),
        _umask(),
    )


def _umask() -> str:
    """The rights that new files do not get; os.umask would have to change them to read them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((line for line in lines if line.startswith("Umask:")), "")


def _message(channel: socket.socket) -> Mapping[str, Any]:
    """The next message; empty where the other side has ended."""
    try:
        line = channel.recv(LONGEST_MESSAGE)
    except ConnectionError:
        line = b""
    return json.loads(line) if line else {}


def _end(process: subprocess.Popen[bytes], owner: int, control: socket.socket, folder: Path) -> None:
    if os.getpid() != owner:
        return
    control.close()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    remove_scratch(folder)
