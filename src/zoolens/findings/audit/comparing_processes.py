"""Processes that compare networks for us: it is plain Python, of which one process does one thing at a time."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import TracebackType
from typing import Any, Final, Self

from zoolens.base.engine.executors.executor import task
from zoolens.base.engine.function_process import COMPUTING
from zoolens.base.engine.machine import available_cores
from zoolens.base.engine.pool import WorkerPool
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.ir.serialisation import unpack

WORTH_PROCESSES: Final = 40  # networks: fewer are compared before other processes have begun

Job = Mapping[str, Any]


class ComparingProcesses:
    """Worker processes, one for each core, started when they are first needed. Any number of threads may ask."""

    def __init__(self, networks: int) -> None:
        """`networks`: how many there are to compare; few are compared in the caller's own process."""
        self.count = available_cores() if networks >= WORTH_PROCESSES else 1
        self._pool = WorkerPool(stopped="The audit was stopped.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._pool.close()

    def result(self, function: Callable[[Job], Any], job: Job) -> Any:
        """What a function of a module returns for a job of plain data."""
        if self.count == 1:
            return function(job)
        name = f"{function.__module__}:{function.__qualname__}"
        return self._pool.ask(COMPUTING, task(name, job), "comparing networks")


def sent(packed: bytes) -> str:
    """A packed graph as a part of a job."""
    return base64.b64encode(packed).decode()


@lru_cache(maxsize=512)
def received(text: str) -> Graph:
    """The graph that was sent, unpacked once for all its comparisons."""
    return unpack(base64.b64decode(text))
