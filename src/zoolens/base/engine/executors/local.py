"""This machine: functions run in threads of this process, which start worker processes where they need them."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar

from zoolens.base.engine.executors.executor import Executor, Job, Lost, outcome_of, perform, task
from zoolens.base.engine.executors.reports import Tell, nobody
from zoolens.base.engine.machine import available_cores


class Local(Executor):
    name = "local"
    summary = "This machine"
    elsewhere: ClassVar[bool] = False

    def __init__(self, at_once: int | None = None) -> None:
        self._at_once = at_once
        self._threads: ThreadPoolExecutor | None = None

    @classmethod
    def open(cls, address: str | None) -> Local:
        return cls()

    @property
    def capacity(self) -> int:
        return self._at_once or available_cores()

    def submit(
        self, function: str, job: Job, *, whole_machine: bool = False, gpu: bool = False, node: str = ""
    ) -> Future[Any]:
        return self.submit_telling(function, job, nobody, node=node)

    def submit_telling(
        self, function: str, job: Job, tell: Tell, *, whole_machine: bool = False, gpu: bool = False, node: str = ""
    ) -> Future[Any]:
        if node:
            raise Lost(f"This machine is not the node {node}.", hint="Name the cluster that it belongs to with --on.")
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.capacity)
        asked = task(function, job)
        return self._threads.submit(lambda: outcome_of(perform(asked, tell)))

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
