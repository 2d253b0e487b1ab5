"""A pool of worker processes: started when needed, kept for the next request of their kind, gone when we are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from zoolens.base.engine.environments import Environment, EnvSpec, ensure_environment
from zoolens.base.engine.process import Report, WorkerKind, WorkerProcess
from zoolens.base.errors import Circumstance, EnvironmentBuildError, WorkerError


class WorkerPool:
    """Worker processes of several kinds, reused from request to request.

    Use it in a `with`: leaving it ends every process, also those in the middle of a request. Any number of threads may
    call `ask` at once; each has a process of its own for that time.
    """

    def __init__(
        self,
        *,
        recycled: int | None = None,
        stopped: str = "The work was stopped.",
        say: Callable[[str], None] | None = None,
    ) -> None:
        self._recycled = recycled  # requests after which a process is replaced by a fresh one
        self._stopped = stopped  # the error of whoever waits for an answer when the pool is closed
        self._say = say  # is called when an environment has to be built
        self._idle: dict[WorkerKind, list[WorkerProcess]] = {}
        self._busy: set[WorkerProcess] = set()
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        return self._closed

    def ask(
        self,
        kind: WorkerKind,
        message: Mapping[str, Any],
        doing: str,
        *,
        timeout: float | None = None,
        report: Report | None = None,
    ) -> Any:
        """The answer of a worker of this kind; see `WorkerProcess.ask`.

        When a worker dies that has answered other requests before, the fault may be theirs: unless it has reported
        progress, the request is given to another one.
        """
        while True:
            worker = self._taken(kind)
            fresh, heard = worker.answered == 0, _Hearing(report)
            try:
                return worker.ask(message, doing, timeout=timeout, report=heard)
            except WorkerError as error:
                if self._closed:
                    raise Circumstance(self._stopped) from error
                if not worker.dead or fresh or heard.anything:
                    raise
            finally:
                self._give_back(worker)

    def retire(self, kind: WorkerKind) -> None:
        """End the workers of this kind that have nothing to do: no more requests for them will come."""
        with self._lock:
            idle = self._idle.pop(kind, [])
        for worker in idle:
            worker.stop()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle = [worker for workers in self._idle.values() for worker in workers]
            busy, self._idle = list(self._busy), {}
        for worker in busy:
            # Whoever waits for it gets an error and stops it.
            worker.kill()
        for worker in idle:
            worker.stop()

    def _taken(self, kind: WorkerKind) -> WorkerProcess:
        while (worker := self._idle_one(kind)) is not None:
            if worker.alive:
                return worker
            # Killed while it had nothing to do: no fault of this request.
            self._give_back(worker)
        worker = WorkerProcess(kind, self._environment(kind))
        with self._lock:
            if not self._closed:
                self._busy.add(worker)
                return worker
        worker.stop()
        raise Circumstance(self._stopped)

    def _idle_one(self, kind: WorkerKind) -> WorkerProcess | None:
        with self._lock:
            if self._closed:
                raise Circumstance(self._stopped)
            idle = self._idle.get(kind)
            if not idle:
                return None
            worker = idle.pop()
            self._busy.add(worker)
            return worker

    def _give_back(self, worker: WorkerProcess) -> None:
        with self._lock:
            self._busy.discard(worker)
            fresh_enough = self._recycled is None or worker.answered < self._recycled
            if fresh_enough and not self._closed and worker.alive:
                self._idle.setdefault(worker.kind, []).append(worker)
                return
        worker.stop()

    def _environment(self, kind: WorkerKind) -> Environment | None:
        """The environment of a kind, made now if it is not there, which may take minutes."""
        if isinstance(kind.environment, EnvSpec):
            return ensure_environment(kind.environment, (), self._tell)
        return kind.environment

    def _tell(self, text: str) -> None:
        if self._closed:  # makes `ensure_environment` end pip
            raise EnvironmentBuildError(self._stopped)
        if self._say is not None:
            self._say(text)


class _Hearing:
    """Passes progress on and remembers that there was some."""

    def __init__(self, report: Report | None) -> None:
        self._report = report
        self.anything = False

    def __call__(self, progress: Any) -> None:
        self.anything = True
        if self._report is not None:
            self._report(progress)
