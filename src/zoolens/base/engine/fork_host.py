"""The process that imports modules once and is forked for each worker (`fork_server.py`).

A fork has only the thread that forked. So the server has no other: where importing a library left one that does not
know of forks, it refuses, and workers are started as ever. It ends when its parent does.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.machinery
import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

_PARENT_CHECK_MS: Final = 2000
_IDLE_SECONDS: Final = 600.0
LONGEST_MESSAGE: Final = 1 << 16
_MOST_DESCRIPTORS: Final = 16
# Threads of libraries that prepare for forks themselves (pthread_atfork): the allocator of pyarrow ends and forgets its
# own. OpenBLAS ends all of its threads before a fork and starts them again when it needs them.
_FORK_SAFE_THREADS: Final = frozenset({"jemalloc_bg_thd"})

Stamp = tuple[int, int, int]


def main(settings: Mapping[str, Any], began_ns: int) -> NoReturn:
    host = _Host(settings)
    with contextlib.suppress(OSError):
        host.serve()
    os._exit(0)


class Preloading:
    """What the fork of a server knows of the imports that came before its own code."""

    def __init__(self, names: frozenset[str]) -> None:
        """`names`: packages that were imported before, which a process that is started would not have yet."""
        self._names = names
        self._path = list(sys.path)
        self._variable: str | None = None
        self._watch_variables()

    def mismatch(self) -> str | None:
        """Why the code that ran here might have imported something else in a process of its own, if so: it changed a
        variable of the environment, or it can import from a folder that has a module of the same name."""
        if self._variable is not None:
            return f"it changes the environment variable {self._variable}"
        for entry in sys.path:
            if entry not in self._path:
                for name in self._names:
                    spec = importlib.machinery.PathFinder.find_spec(name, [entry])
                    # A folder that is no package loses against a package that is further down the path.
                    if spec is not None and spec.loader is not None:
                        return f"{entry} has a module {name}"
        return None

    def _watch_variables(self) -> None:
        put, unset = os.putenv, os.unsetenv

        def putenv(name: Any, value: Any) -> None:
            self._variable = self._variable or os.fsdecode(name)
            put(name, value)

        def unsetenv(name: Any) -> None:
            self._variable = self._variable or os.fsdecode(name)
            unset(name)

        # os.environ calls these by their names in os.
        os.putenv, os.unsetenv = putenv, unsetenv


class _Host:
    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._parent = int(settings["parent"])
        self._control = socket.socket(fileno=settings["control"])
        os.set_inheritable(self._control.fileno(), False)
        worker, *modules = settings["modules"]
        self._worker = importlib.import_module(worker)
        before = _packages()
        self._unfit = _imported(modules)
        self._names = _packages() - before
        if self._unfit is None:
            # Ends the threads of libraries that prepare for forks.
            os.waitpid(_fork() or os._exit(0), 0)
        self._stamps = _stamps(_loaded_files())
        self._workers: dict[int, tuple[int, int | None, socket.socket]] = {}  # by the descriptor of its status
        self._forked = False
        # A search for cycles would write to all memory that forks share.
        gc.freeze()

    def serve(self) -> None:
        """Returns when the parent has ended; or, once all workers have ended, when it wants no more or has asked for
        nothing for a long time."""
        asked = time.monotonic()
        asking = True
        while os.getppid() == self._parent and (self._workers or (asking and time.monotonic() - asked < _IDLE_SECONDS)):
            ready = self._ready(asking)
            for status in list(self._workers):
                self._look_after(status, ready)
            if self._control.fileno() in ready:
                asked = time.monotonic()
                asking = self._fork_one()
        for status in list(self._workers):
            self._reap(status)

    def _ready(self, asking: bool) -> set[int]:
        """Descriptors at which something has happened."""
        poll = select.poll()
        if asking:
            poll.register(self._control, select.POLLIN)
        for status, (_, exited, _) in self._workers.items():
            poll.register(status, 0)
            if exited is not None:
                poll.register(exited, select.POLLIN)
        return {descriptor for descriptor, _ in poll.poll(_PARENT_CHECK_MS)}

    def _look_after(self, status: int, ready: set[int]) -> None:
        pid, exited, channel = self._workers[status]
        if exited in ready:
            assert exited is not None
            found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            code = 0 if found is None else found.si_status
            _tell(channel, {"code": code if found is None or found.si_code == os.CLD_EXITED else -code})
            os.close(exited)
            self._workers[status] = pid, None, channel
        elif status in ready:
            self._reap(status)

    def _reap(self, status: int) -> None:
        """End a worker that nobody asks any more, with all that it started."""
        pid, exited, channel = self._workers.pop(status)
        for kill in (os.kill, os.killpg):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        if exited is not None:
            os.close(exited)
        channel.close()

    def _fork_one(self) -> bool:
        """Answer a request; False: this server is of no use any more."""
        message, descriptors, _, _ = socket.recv_fds(self._control, LONGEST_MESSAGE, _MOST_DESCRIPTORS)
        if not message:
            return False
        status = socket.socket(fileno=descriptors[0])
        refusal = self._refusal()
        if refusal is not None:
            _tell(status, refusal)
            return False
        pid = _fork()
        if pid == 0:
            self._become(json.loads(message), status, descriptors[1:])
        for descriptor in descriptors[1:]:
            os.close(descriptor)
        self._workers[status.fileno()] = pid, os.pidfd_open(pid), status
        return True

    def _refusal(self) -> Mapping[str, Any] | None:
        if self._unfit is None:
            threads = _threads() - _FORK_SAFE_THREADS
            if threads:
                self._unfit = f"threads are left: {', '.join(sorted(threads))}"
        if self._unfit is not None:
            return {"unfit": self._unfit}
        # The first worker is what it was started for, and what it loaded is as old as this request.
        if self._forked and _stamps(self._stamps) != self._stamps:
            return {"stale": True}
        self._forked = True
        return None

    def _become(self, order: dict[str, Any], status: socket.socket, descriptors: list[int]) -> NoReturn:
        """Be the worker, in the child."""
        try:
            began = time.monotonic_ns()
            os.setsid()
            output, *passed = descriptors
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(output)
            self._close()
            os.chdir(order["cwd"])
            if order["folder"] is not None:
                os.environ["TMPDIR"] = order["folder"]
            # What was found for the server's own folder.
            tempfile.tempdir = None
            _draw_anew()
            _tell(status, {"pid": os.getpid()})
            status.close()
            settings = {**order, "descriptors": passed, "parent": os.getppid(), "preloading": Preloading(self._names)}
            self._worker.main(settings, began)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)

    def _close(self) -> None:
        self._control.close()
        for _, exited, channel in self._workers.values():
            if exited is not None:
                os.close(exited)
            channel.close()


def _fork() -> int:
    with warnings.catch_warnings():
        # Python and JAX warn of threads in general; which there are is examined here.
        warnings.simplefilter("ignore")
        return os.fork()


def _imported(modules: Iterable[str]) -> str | None:
    """Import the modules; why that failed, if it did. A worker that is started will say it in its own words."""
    for name in modules:
        try:
            importlib.import_module(name)
        except BaseException as error:
            return f"{name} cannot be imported: {type(error).__name__}"
    return None


def _packages() -> frozenset[str]:
    return frozenset(name.partition(".")[0] for name in list(sys.modules))


def _threads() -> frozenset[str]:
    """The names of all threads of this process but the one that asks."""
    names = set()
    for task in Path("/proc/self/task").iterdir():
        if int(task.name) != os.getpid():
            with contextlib.suppress(OSError):
                names.add((task / "comm").read_text().strip())
    return frozenset(names)


def _loaded_files() -> set[str]:
    """Files of modules and libraries that are loaded here, and the folders of packages, where others are installed."""
    modules = dict(sys.modules)
    files = {name: str(getattr(module, "__file__", None) or "") for name, module in modules.items()}
    mapped = {line.split(maxsplit=5)[5] for line in Path("/proc/self/maps").read_text().splitlines() if " /" in line}
    parents = [Path(file).parents for name, file in files.items() if file and "." not in name]
    folders = {str(parent) for above in parents for parent in above[:2]} & set(sys.path)
    return {name for name in (*files.values(), *mapped, *folders) if name.startswith("/")}


def _stamps(names: Iterable[str]) -> dict[str, Stamp | None]:
    return {name: file_stamp(name) for name in names}


def file_stamp(name: str) -> Stamp | None:
    """What changes when a file is written or replaced; None where there is none."""
    try:
        found = Path(name).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _draw_anew() -> None:
    """numpy seeds its global generator when it is imported; all forks would draw the same numbers. Python does this for
    its own one."""
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


def _tell(channel: socket.socket, message: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):
        channel.send(json.dumps(message).encode())
