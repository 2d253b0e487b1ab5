"""The contract of executors: functions are named, jobs and results are plain data, whoever submits keeps the store.

A function is named "module:function" and takes one job, a mapping of plain data (JSON values and bytes). It may run in
another process on another machine, and twice where a machine is lost, so it returns what it found and writes nowhere
but into temporary folders. Models are opened there as they are here: in sandboxed worker processes of that machine.

`current_executor.py` chooses the executor. A plug-in registers an `Executor` under `zoolens.executors`.
"""

from __future__ import annotations

import importlib
import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ClassVar, Final

from zoolens.base.engine import faults
from zoolens.base.engine.executors.at_work import at_work
from zoolens.base.engine.executors.job_events import EVENT, recorded_events, say_where_it_failed
from zoolens.base.engine.executors.reports import Tell, nobody, telling
from zoolens.base.engine.sandbox import trusted, trusting
from zoolens.base.engine.service import response
from zoolens.base.errors import AssetError, ConstraintError, Lost, ZoolensError, first_line
from zoolens.base.version import __version__

# Jobs that are submitted for each that can run, so that a worker that finishes finds the next one waiting.
_AHEAD: Final = 3

_SAME_PATH: Final = "Put it there under the same path, or use a file system that all nodes share."

Job = Mapping[str, Any]
_EVENTS: Final = "events"  # of an answer
TITLE: Final = "title"  # of a job, where it has one: what people are told that it is about


class Executor(ABC):
    """Runs named functions on jobs. Safe to use from several threads."""

    name: ClassVar[str]
    summary: ClassVar[str]
    # Whether functions run on other machines, so that distributing work is worth its cost.
    elsewhere: ClassVar[bool] = True
    # Whether work is to run once on every kind of machine that has an agent, and not just anywhere.
    each_kind: ClassVar[bool] = False
    # Whether a job may be bound to a machine by its name (`node`).
    knows_nodes: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def open(cls, address: str | None) -> Executor:
        """`address` is the whole text that the user gave, such as ray://host:port; None: only the name was given."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """How many jobs can run at once, about."""

    @abstractmethod
    def submit(
        self, function: str, job: Job, *, whole_machine: bool = False, gpu: bool = False, node: str = ""
    ) -> Future[Any]:
        """Run a function on a job. The future has its result, or the `ZoolensError` that it raised.

        `whole_machine`: it measures times, and nothing else of ours should run beside it. `gpu`: it needs one. `node`:
        the id of the machine that is to run it, for executors that have several; a `Lost` error says that it is gone.
        """

    def submit_telling(
        self, function: str, job: Job, tell: Tell, *, whole_machine: bool = False, gpu: bool = False, node: str = ""
    ) -> Future[Any]:
        """Does what `submit` does, and calls `tell`, in any thread, with everything that the job tells (`reports.py`),
        in order. An executor that cannot carry reports leaves this method alone: its jobs are then silent."""
        # Executors of plug-ins need not know machines by name.
        placed: dict[str, Any] = {"node": node} if node else {}
        return self.submit(function, job, whole_machine=whole_machine, gpu=gpu, **placed)

    def close(self) -> None:
        """Give up what is not finished. Nothing can be submitted afterwards."""


def run_jobs(
    executor: Executor,
    function: str,
    jobs: Iterable[Job],
    *,
    whole_machine: bool = False,
    gpu: bool = False,
    node_of: Callable[[int], str] | None = None,
    told: Callable[[int, Any], None] | None = None,
) -> Iterator[tuple[int, Any]]:
    """Yields the number of each job with its result or its `ZoolensError`, in the order in which they finish.

    Leaving early cancels the rest. Jobs are taken from the iterable as they are needed, so that waiting ones take no
    memory. `node_of`: the machine that a job of this number must run on. `told` is called in the caller's thread with
    the number of a running job and what it tells.
    """
    waiting = enumerate(jobs)
    futures: dict[Future[Any], int] = {}
    events: SimpleQueue[Future[Any] | _Report] = SimpleQueue()

    def submitted(number: int, job: Job) -> Future[Any]:
        tell = nobody if told is None else lambda message: events.put(_Report(number, message))
        node = node_of(number) if node_of is not None else ""
        try:
            return executor.submit_telling(function, job, tell, whole_machine=whole_machine, gpu=gpu, node=node)
        except ZoolensError as error:
            if not node:
                raise
            # One machine that cannot take its job is no reason for the others to lose theirs.
            failed: Future[Any] = Future()
            failed.set_exception(error)
            return failed

    try:
        while True:
            for number, job in islice(waiting, max(0, _AHEAD * executor.capacity - len(futures))):
                future = submitted(number, job)
                futures[future] = number
                future.add_done_callback(events.put)
            if not futures:
                return
            event = events.get()
            while isinstance(event, _Report):
                # A machine's last words may come after its result.
                if told is not None and event.number in futures.values():
                    told(event.number, event.message)
                event = events.get()
            error = event.exception()
            if error is not None and not isinstance(error, ZoolensError):
                raise error
            yield futures.pop(event), error or event.result()
    finally:
        for future in futures:
            future.cancel()


@dataclass(frozen=True)
class _Report:
    number: int
    message: Any


# --- jobs as messages


def task(function: str, job: Job) -> dict[str, Any]:
    """Returns a job as it is sent, with the user's permissions and the caller's version."""
    return {"function": function, "job": dict(job), "trust": trusted(), "version": __version__}


def perform(asked: Mapping[str, Any], tell: Tell | None = None, node: str = "") -> dict[str, Any]:
    """Returns, on the machine that runs the job, the result of a `task` or its error as plain data. `tell` takes what
    the job tells meanwhile to the caller. `node`: the machine's name in its cluster."""

    def described(request: Mapping[str, Any]) -> str:
        return f"{request['function']} on {platform.node()}"

    with telling(tell), recorded_events(asked["job"], tell, node) as events:
        answer = response(dict(asked), performed, described)
    return answer if events is None else {**answer, _EVENTS: events.told}


def outcome_of(answer: Mapping[str, Any], tell: Tell = nobody) -> Any:
    """Returns the result that `perform` described, or raises the error that it described. `tell` first gets the events
    of a job that is recorded, of which the last may not have arrived on their own."""
    for event in answer.get(_EVENTS, ()):
        tell({EVENT: event})
    if "error" in answer:
        raise faults.rebuild(answer["error"])
    return answer["ok"]


def performed(asked: Mapping[str, Any]) -> Any:
    """Returns what the function of a `task` returns."""
    if asked["version"] != __version__:
        raise ConstraintError(
            f"The node {platform.node()} has zoolens {__version__}, but the caller has {asked['version']}.",
            hint="Install the same version on all nodes.",
        )
    module, _, name = str(asked["function"]).partition(":")
    words = f"{name} {asked['job'].get(TITLE, '')}".strip()
    with trusting(bool(asked["trust"])), at_work(words):
        try:
            return getattr(importlib.import_module(module), name)(asked["job"])
        except ZoolensError:
            raise
        except Exception:
            say_where_it_failed()
            raise


def check_reachable(paths: Sequence[str], hint: str = _SAME_PATH) -> None:
    """Raises, on the machine that runs the job, an error that names the node and the first path that it lacks."""
    for path in paths:
        if not Path(path).exists():
            raise AssetError(
                f"The node {platform.node()} has no {path}.",
                hint=hint,
            )


def lost(executor: str, error: BaseException) -> Lost:
    """Returns the error of a job that the executor gave up."""
    return Lost(
        f"A job was lost on {executor}: {type(error).__name__}: {first_line(error).rstrip('.')}.",
        hint="Run the same command again: what is finished is kept.",
    )
