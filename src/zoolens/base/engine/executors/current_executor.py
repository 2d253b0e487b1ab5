"""Which executor runs the work that can be distributed: `running_on` chooses it, as the option `--on` does.

The few places that can distribute their work ask `current_executor`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from zoolens.base import plugins
from zoolens.base.engine.executors.executor import Executor
from zoolens.base.engine.executors.local import Local
from zoolens.base.errors import ZoolensError


class _Chosen:
    """An executor that is opened on first use: to start or to reach a cluster takes seconds."""

    def __init__(self, where: str | Executor) -> None:
        self._where = where
        self._executor = where if isinstance(where, Executor) else None
        self._lock = threading.Lock()
        if isinstance(where, str):
            # An unknown name is an error at once, not after minutes of work.
            _kind(where)

    def executor(self) -> Executor:
        with self._lock:
            if self._executor is None:
                self._executor = open_executor(str(self._where))
            return self._executor

    def close(self) -> None:
        if self._executor is not None:
            self._executor.close()


_current: ContextVar[_Chosen | None] = ContextVar("zoolens_executor", default=None)


def current_executor(*, each_kind: bool = False) -> Executor:
    """Returns the executor that `running_on` chose for this thread, by default this machine. `each_kind`: the caller
    can say on which machine each job is to run."""
    chosen = _current.get()
    executor = Local() if chosen is None else chosen.executor()
    if executor.each_kind and not each_kind:
        raise ZoolensError(
            f"Only evaluations run on every kind of machine (--on {executor.name}).",
            hint="Write --on ray for this work, or leave --on out.",
        )
    return executor


@contextmanager
def running_on(where: str | Executor) -> Iterator[None]:
    """Runs distributable work inside the `with` on this executor: "local", "ray", "ray://host:port", "each-kind".

    The choice holds for this thread and for tasks that inherit its context.
    """
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
