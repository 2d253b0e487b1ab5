"""The contract of executors: functions are named, jobs and results are plain data, whoever submits keeps the store.

A function is named "module:function" and takes one job, a mapping of plain data (JSON values and bytes). It may run in
another process on another machine, and twice where a machine is lost, so it returns what it found and writes nowhere
but into temporary folders. Models are opened there as they are here: in sandboxed worker processes of that machine.

`running_on` chooses the executor, as the command line's `--on` does; `current_executor` is asked by the few places that
can share out their work. A plug-in registers an `Executor` under `zoolens.executors`.
"""

from __future__ import annotations

import importlib
import platform
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Final

import zoolens
from zoolens.base import plugins
from zoolens.base.engine import faults
from zoolens.base.engine.sandbox import trusted, trusting
from zoolens.base.engine.service import response
from zoolens.base.errors import AssetError, ConstraintError, WorkerError, ZoolensError, first_line

_AHEAD: Final = 3  # jobs that are submitted for each that can run: whoever is done finds the next one there

Job = Mapping[str, Any]


class Executor(ABC):
    """Safe to use from several threads. `elsewhere`: its functions run on other machines, so that work is worth sharing
    out; otherwise whoever has work does it directly."""

    name: ClassVar[str]
    summary: ClassVar[str]
    elsewhere: ClassVar[bool] = True

    @classmethod
    @abstractmethod
    def open(cls, address: str | None) -> Executor:
        """`address` is the whole text that the user gave, such as ray://host:port; None: only the name was given."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """How many jobs can run at once, about."""

    @abstractmethod
    def submit(self, function: str, job: Job, *, whole_machine: bool = False, gpu: bool = False) -> Future[Any]:
        """Run a function on a job. The future has its result, or the `ZoolensError` that it raised.

        `whole_machine`: it measures times, and nothing else of ours should run beside it. `gpu`: it needs one.
        """

    def close(self) -> None:
        """Give up what is not finished. Nothing can be submitted afterwards."""


def run_jobs(
    executor: Executor, function: str, jobs: Iterable[Job], *, whole_machine: bool = False
) -> Iterator[tuple[int, Any]]:
    """The number of each job and its result or its `ZoolensError`, as they come. Leaving early cancels the rest.

    Jobs are taken as they are needed, so that those which wait take no memory."""
    waiting = enumerate(jobs)
    futures: dict[Future[Any], int] = {}
    try:
        while True:
            for number, job in islice(waiting, max(0, _AHEAD * executor.capacity - len(futures))):
                futures[executor.submit(function, job, whole_machine=whole_machine)] = number
            if not futures:
                return
            for future in wait(futures, return_when=FIRST_COMPLETED).done:
                error = future.exception()
                if error is not None and not isinstance(error, ZoolensError):
                    raise error
                yield futures.pop(future), error or future.result()
    finally:
        for future in futures:
            future.cancel()


# --- which one


class _Chosen:
    """Opened when it is first asked for: to start or to reach a cluster takes seconds."""

    def __init__(self, where: str | Executor) -> None:
        self._where = where
        self._executor = where if isinstance(where, Executor) else None
        self._lock = threading.Lock()
        if isinstance(where, str):
            _kind(where)  # an unknown name is said at once

    def executor(self) -> Executor:
        with self._lock:
            if self._executor is None:
                self._executor = open_executor(str(self._where))
            return self._executor

    def close(self) -> None:
        if self._executor is not None:
            self._executor.close()


_current: ContextVar[_Chosen | None] = ContextVar("zoolens_executor", default=None)


def current_executor() -> Executor:
    """The executor that `running_on` chose for this thread, or this machine."""
    from zoolens.base.engine.executors.local import Local

    chosen = _current.get()
    return Local() if chosen is None else chosen.executor()


@contextmanager
def running_on(where: str | Executor) -> Iterator[None]:
    """Inside, work that can be shared out runs on this executor: "local", "ray", "ray://host:port".

    It holds for this thread (and for tasks that inherit its context)."""
    chosen = _Chosen(where)
    before = _current.set(chosen)
    try:
        yield
    finally:
        _current.reset(before)
        chosen.close()


def open_executor(where: str) -> Executor:
    return _kind(where).open(where if "://" in where else None)


def _kind(where: str) -> type[Executor]:
    kind: type[Executor] = plugins.load(plugins.EXECUTORS, where.partition("://")[0])
    return kind


# --- what travels


def task(function: str, job: Job) -> dict[str, Any]:
    """A job as it travels: with what the user granted, and which zoolens asks."""
    return {"function": function, "job": dict(job), "trust": trusted(), "version": zoolens.__version__}


def perform(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Runs on the other side: call the function of a `task`, and describe what came of it as plain data."""
    return response(dict(asked), performed, lambda request: f"{request['function']} on {platform.node()}")


def outcome_of(answer: Mapping[str, Any]) -> Any:
    """The result that `perform` describes; the error that it describes is raised."""
    if "error" in answer:
        raise faults.rebuild(answer["error"])
    return answer["ok"]


def performed(asked: Mapping[str, Any]) -> Any:
    """What the function of a `task` returns."""
    if asked["version"] != zoolens.__version__:
        raise ConstraintError(
            f"The node {platform.node()} has zoolens {zoolens.__version__}, and {asked['version']} asks it.",
            hint="Install the same version on all nodes.",
        )
    module, _, name = str(asked["function"]).partition(":")
    with trusting(bool(asked["trust"])):
        return getattr(importlib.import_module(module), name)(asked["job"])


def check_reachable(paths: Sequence[str]) -> None:
    """Runs on the other side: raises an error that names this node and the first path that it does not have."""
    for path in paths:
        if not Path(path).exists():
            raise AssetError(
                f"The node {platform.node()} has no {path}.",
                hint="Put it there under the same path, or use a file system that all nodes share.",
            )


def lost(executor: str, error: BaseException) -> WorkerError:
    """A job that the executor gave up."""
    return WorkerError(
        f"A job was lost on {executor}: {type(error).__name__}: {first_line(error).rstrip('.')}.",
        hint="Run the same command again: what is finished is kept.",
    )
