"""This machine: functions run in threads of this process, which start worker processes where they need them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from queue import Empty, SimpleQueue
from typing import Any, ClassVar

from zoolens.base.engine.executors.executor import Executor, Job, outcome_of, perform, task
from zoolens.base.engine.executors.machine_turn import machine_turn
from zoolens.base.engine.executors.reports import Tell, nobody
from zoolens.base.engine.machine import available_cores
from zoolens.base.errors import Lost


class Local(Executor):
    name = "local"
    summary = "This machine"
    elsewhere: ClassVar[bool] = False

    def __init__(self, at_once: int | None = None, *, in_turn: bool = False) -> None:
        """`in_turn`: jobs of other callers on this machine are waited for (`machine_turn.py`). Never for jobs that may
        share out work themselves, which would wait for each other."""
        self._at_once, self._in_turn = at_once, in_turn
        self._threads: list[threading.Thread] = []
        self._waiting: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False

    @classmethod
    def open(cls, address: str | None) -> Local:
        return cls()

    @property
    def capacity(self) -> int:
        return self._at_once or available_cores()

    def submit(
        self, function: str, job: Job, *, whole_machine: bool = False, gpu: bool = False, node: str = ""
    ) -> Future[Any]:
        return self.submit_telling(function, job, nobody, whole_machine=whole_machine, node=node)

    def submit_telling(
        self, function: str, job: Job, tell: Tell, *, whole_machine: bool = False, gpu: bool = False, node: str = ""
    ) -> Future[Any]:
        if node:
            raise Lost(f"This machine is not the node {node}.", hint="Name the cluster that it belongs to with --on.")
        asked = task(function, job)

        def run() -> Any:
            with machine_turn(alone=whole_machine) if self._in_turn else nullcontext():
                return outcome_of(perform(asked, tell))

        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("This executor is closed.")
            if len(self._threads) < self.capacity:
                # Those of a ThreadPoolExecutor are waited for when Python ends: Ctrl-C would last as long as a job.
                self._threads.append(threading.Thread(target=self._work, daemon=True))
                self._threads[-1].start()
        self._waiting.put((future, run))
        return future

    def close(self) -> None:
        with self._lock:
            self._closed = True
        with suppress(Empty):
            while (waiting := self._waiting.get_nowait()) is not None:
                waiting[0].cancel()
        for _ in self._threads:
            self._waiting.put(None)

    def _work(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            future, run = waiting
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(run())
            except BaseException as error:
                future.set_exception(error)
