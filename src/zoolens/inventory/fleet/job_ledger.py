"""What becomes of the jobs that a command gives to other machines, written into the store while they run.

An executor is wrapped (`JobLedger.around`): it then notes what is given out, where it starts, what it says and how it
ends. A thread writes all that changed once in a second, so that a job costs well under a millisecond, and learns what
somebody wants cancelled. A store that cannot be written to costs the record, never the work.
"""

from __future__ import annotations

import getpass
import logging
import os
import platform
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, Self
from uuid import uuid4

from zoolens.base.engine.executors.executor import TITLE, Executor, Job
from zoolens.base.engine.executors.job_events import EVENT, RECORD
from zoolens.base.engine.executors.reports import Tell, nobody
from zoolens.base.errors import Cancelled, ZoolensError
from zoolens.base.store.database import Database
from zoolens.base.store.jobs import Cancellations, write_jobs
from zoolens.inventory.fleet.budget import BudgetWatch
from zoolens.inventory.fleet.job_entry import JobEntry

LEASE: Final = 60.0  # seconds of silence after which the jobs of a driver are lost
WRITE_EVERY: Final = 1.0  # seconds
_AGAIN: Final = "Run the same command again: what is finished is kept."

_log = logging.getLogger(__name__)


class JobLedger:
    """The jobs of one driver. Use it as a context manager around the work; all methods may be called by any thread."""

    def __init__(
        self,
        database: Database,
        command: str,
        *,
        budget: BudgetWatch | None = None,
        every: float = WRITE_EVERY,
        lease: float = LEASE,
    ) -> None:
        self._database, self._budget, self._every = database, budget, every
        self._driver = {"id": uuid4().hex, "name": this_driver(), "command": command, "lease": lease}
        self._entries: dict[str, JobEntry] = {}
        self._futures: dict[str, tuple[Future[Any], Future[Any]]] = {}
        self._changed: set[str] = set()
        self._final: set[str] = set()  # jobs of which nothing further will be heard
        self._asked = Cancellations({})
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write_on, daemon=True)
        self._unwritten: Exception | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._write(ended=True)
        if self._unwritten is not None:
            _log.warning("The record of these jobs is incomplete: %s", self._unwritten)

    def around(self, executor: Executor) -> Executor:
        """The executor, whose jobs are recorded where they have a `RECORD`."""
        return _Recorded(executor, self)

    def came_of(self, job_id: str, runs: Sequence[str], errors: Sequence[str], remarks: Sequence[str] = ()) -> None:
        """What a job's answer says: the runs that were stored, and what went wrong. `remarks` are put into its log."""
        with self._lock:
            self._entries[job_id].came_of(runs, errors, remarks)
            self._changed.add(job_id)
            self._final.add(job_id)

    def given_up(self, job_id: str) -> None:
        """A job that ended with an error is not given out again."""
        with self._lock:
            self._entries[job_id].given_up()
            self._final.add(job_id)
            self._changed.add(job_id)

    # --- for `_Recorded`

    def given(self, job: Job) -> JobEntry:
        about = job[RECORD]
        with self._lock:
            entry = self._entries.setdefault(about["id"], JobEntry(about["id"], str(job.get(TITLE, ""))))
            entry.given_out(about)
            self._changed.add(entry.id)
        return entry

    def watch(self, entry: JobEntry, outer: Future[Any], inner: Future[Any]) -> None:
        """Looks after a job until its future is settled."""
        with self._lock:
            self._futures[entry.id] = (outer, inner)
        inner.add_done_callback(lambda done: _hand_on(done, outer))
        outer.add_done_callback(lambda done: self._settled(entry, done, inner))
        self._cancel_asked()

    def told(self, entry: JobEntry, message: Any) -> bool:
        """Takes note of what a job tells. Whether it was meant for us alone."""
        with self._lock:
            if entry.told(message):
                self._changed.add(entry.id)
        return isinstance(message, dict) and EVENT in message

    def _settled(self, entry: JobEntry, outer: Future[Any], inner: Future[Any]) -> None:
        inner.cancel()
        with self._lock:
            self._futures.pop(entry.id, None)
            entry.settled(outer)
            if self._budget is not None:
                self._budget.count(entry)
            self._changed.add(entry.id)

    # --- the thread

    def _write_on(self) -> None:
        while True:
            self._write()
            self._cancel_asked()
            if self._stop.wait(self._every):
                return

    def _write(self, *, ended: bool = False) -> None:
        with self._lock:
            chosen, self._changed = self._changed, set()
            rows = [self._entries[job].row() for job in chosen if job in self._entries]
        try:
            self._asked = write_jobs(self._database, self._driver, rows, ended=ended)
            self._unwritten = None
        except Exception as error:
            # Whatever it is: this thread writes on, and the work is worth more than its record.
            self._unwritten = error
            with self._lock:
                self._changed |= chosen
            return
        with self._lock:
            for job in (chosen & self._final) - self._changed:
                # A driver may give out very many.
                self._final.discard(job)
                self._entries.pop(job, None)

    def _cancel_asked(self) -> None:
        with self._lock:
            asked = [(outer, self._asked.by(job)) for job, (outer, _) in self._futures.items()]
            over = {} if self._budget is None else self._budget.refused(list(self._entries.values()))
            refused = [(self._futures[job][0], error) for job, error in over.items() if job in self._futures]
        for outer, error in refused:
            settle(outer, error)
        for outer, by in asked:
            if by:
                settle(outer, Cancelled(f"Cancelled by {by}.", hint=_AGAIN))


def settle(future: Future[Any], error: ZoolensError) -> None:
    """Ends a future that nobody ended yet."""
    with suppress(Exception):
        if not future.done():
            future.set_exception(error)


def _hand_on(inner: Future[Any], outer: Future[Any]) -> None:
    # It may have been cancelled at this very moment.
    with suppress(Exception):
        if inner.cancelled():
            outer.cancel()
        elif (error := inner.exception()) is not None:
            outer.set_exception(error)
        else:
            outer.set_result(inner.result())


def this_driver() -> str:
    """Who and which process this is, for people."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = str(os.getuid()) if hasattr(os, "getuid") else "somebody"
    return f"{user}@{platform.node()}:{os.getpid()}"


class _Recorded(Executor):
    """An executor whose jobs are written into a ledger."""

    name, summary = "recorded", "Another executor, whose jobs are recorded"

    def __init__(self, executor: Executor, ledger: JobLedger) -> None:
        self._executor, self._ledger = executor, ledger

    @classmethod
    def open(cls, address: str | None) -> Executor:
        raise NotImplementedError("It is made around another executor.")

    @property
    def capacity(self) -> int:
        return self._executor.capacity

    def submit(
        self, function: str, job: Job, *, whole_machine: bool = False, gpu: bool = False, node: str = ""
    ) -> Future[Any]:
        return self.submit_telling(function, job, nobody, whole_machine=whole_machine, gpu=gpu, node=node)

    def submit_telling(
        self, function: str, job: Job, tell: Tell, *, whole_machine: bool = False, gpu: bool = False, node: str = ""
    ) -> Future[Any]:
        entry = self._ledger.given(job)
        outer: Future[Any] = Future()

        def listen(message: Any) -> None:
            if not self._ledger.told(entry, message):
                tell(message)

        try:
            inner = self._executor.submit_telling(
                function, job, listen, whole_machine=whole_machine, gpu=gpu, node=node
            )
        except ZoolensError as error:
            inner = Future()
            inner.set_exception(error)
            self._ledger.watch(entry, outer, inner)
            raise
        self._ledger.watch(entry, outer, inner)
        return outer
