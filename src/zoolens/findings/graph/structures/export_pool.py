"""Many graphs at once: a worker for every core, each with one framework, busy until the last model is done.

Jobs are grouped by the module of their importer and its environment, so that a worker imports one framework once. A
core that has nothing to do joins the group with the most work left for each of its workers, unless so little is left
that it would be done before another worker had imported its framework.
"""

from __future__ import annotations

import base64
import queue
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

from zoolens.base import plugins
from zoolens.base.engine.environments import Environment, EnvSpec
from zoolens.base.engine.machine import available_cores
from zoolens.base.engine.policy import Rights
from zoolens.base.engine.pool import WorkerPool
from zoolens.base.engine.process import WorkerKind
from zoolens.base.engine.sandbox import trusted
from zoolens.base.errors import Circumstance, EnvironmentBuildError, WorkerTimeout, ZoolensError
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.ir.serialisation import unpack
from zoolens.inventory.frameworks.placeholder_modules import TORCH_ALONE

TIMEOUT: Final = 300.0  # seconds for one model, the import of its framework included
WORTH_A_WORKER: Final = 5.0  # seconds of work left; what it takes to start Python and import a framework

_GRACE: Final = 5.0

# One thread each, since there is a worker for every core; quiet; and no accelerator: structure is computed nowhere.
_CALM: Final = (
    ("OMP_NUM_THREADS", "1"),
    ("OPENBLAS_NUM_THREADS", "1"),
    ("MKL_NUM_THREADS", "1"),
    ("NUMEXPR_NUM_THREADS", "1"),
    ("TF_NUM_INTRAOP_THREADS", "1"),
    ("TF_NUM_INTEROP_THREADS", "1"),
    ("TF_CPP_MIN_LOG_LEVEL", "3"),
    ("CUDA_VISIBLE_DEVICES", "-1"),
    (TORCH_ALONE, "1"),  # torch's compiler takes as long to import as torch itself
)

K = TypeVar("K")
Group = tuple[str, EnvSpec | None]


@dataclass(frozen=True)
class ExportJob(Generic[K]):
    """One structure to be read. `key` is the caller's own, `importer` is "module:attribute", and `weight` is about how
    many seconds it takes; the longest are done first."""

    key: K
    importer: str
    request: Request
    environment: EnvSpec | None = None
    weight: float = 1.0
    raw: bool = False  # as imported, not canonical

    @property
    def module(self) -> str:
        return self.importer.partition(":")[0]

    @property
    def message(self) -> dict[str, Any]:
        return {**self.request.as_message(), "importer": self.importer, "raw": self.raw}


@dataclass(frozen=True)
class Exported(Generic[K]):
    """What became of a job: a packed graph, or why there is none.

    `circumstantial`: the failure says nothing about the model, only about this machine at this moment.
    """

    job: ExportJob[K]
    seconds: float
    packed: bytes | None = field(default=None, repr=False)
    error: str | None = None
    hint: str | None = None
    circumstantial: bool = False

    @property
    def reason(self) -> str | None:
        """Error and hint in one line."""
        return f"{self.error} {self.hint}" if self.hint else self.error

    @cached_property
    def graph(self) -> Graph | None:
        return None if self.packed is None else unpack(self.packed)


def export_locally(
    jobs: Iterable[ExportJob[K]],
    *,
    workers: int | None = None,
    say: Callable[[str], None] | None = None,
    timeout: float = TIMEOUT,
) -> Iterator[Exported[K]]:
    """Yield graphs as worker processes of this machine finish them, in any order.

    Workers are sandboxed unless the user trusts the models. A job that fails, crashes its process or takes too long is
    an error of its own and stops no other. When the caller stops listening, or is interrupted, every worker ends at
    once. `say` is told about environments that are being made.
    """
    plan = _Plan(jobs)
    crew = _Crew(plan, say, timeout, trust=trusted())
    total = plan.left
    try:
        crew.start(min(workers or available_cores(), total))
        for _ in range(total):
            yield crew.next_done()
    finally:
        crew.stop()


def reader(module: str, environment: Environment | EnvSpec | None, files: Iterable[str] | None) -> WorkerKind:
    """The worker that reads structures with the importers of `module`. It is sandboxed and may read `files`; None: it
    is not, because it works on what the user wrote or trusts."""
    return WorkerKind(
        "structure process",
        "zoolens.findings.graph.structures.graph_worker",
        module,
        environment,
        variables=_CALM,
        rights=None if files is None else Rights(files=tuple(files)),
        own_folder=True,  # it is always killed, so frameworks never tidy up what they leave there
    )


class _Plan(Generic[K]):
    """What is still to be done, and by how many. Safe for several threads."""

    def __init__(self, jobs: Iterable[ExportJob[K]]) -> None:
        waiting: dict[Group, list[ExportJob[K]]] = defaultdict(list)
        for job in jobs:
            waiting[job.module, job.environment].append(job)
        self.files = {group: tuple(files_of(members)) for group, members in waiting.items()}
        self._waiting = {group: deque(sorted(members, key=_by_weight)) for group, members in waiting.items()}
        self._busy: Counter[Group] = Counter()
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        return sum(map(len, self._waiting.values()))

    def join(self) -> Group | None:
        """The group that one more worker helps most; None: no group needs one."""
        with self._lock:
            shares = {group: self._share(group) for group in self._waiting if self._wants_help(group)}
            if not shares:
                return None
            chosen = max(shares, key=lambda group: shares[group])
            self._busy[chosen] += 1
            return chosen

    def leave(self, group: Group) -> None:
        with self._lock:
            self._busy[group] -= 1

    def next(self, group: Group) -> ExportJob[K] | None:
        with self._lock:
            return self._waiting[group].popleft() if self._waiting[group] else None

    def _wants_help(self, group: Group) -> bool:
        if not self._waiting[group]:
            return False
        return not self._busy[group] or self._weight(group) > WORTH_A_WORKER

    def _share(self, group: Group) -> float:
        return self._weight(group) / (1 + self._busy[group])

    def _weight(self, group: Group) -> float:
        return sum(job.weight for job in self._waiting[group])


def files_of(jobs: Iterable[ExportJob[Any]]) -> Iterator[str]:
    """Everything that these jobs may read; one worker serves them all. The subject of a library is a name and no path,
    whatever it looks like."""
    of_files = {point.value for point in plugins.registered(plugins.GRAPH_FILES).values()}
    for job in jobs:
        if job.importer in of_files:
            yield from (job.request.subject, *job.request.files.values())


def _by_weight(job: ExportJob[Any]) -> float:
    return -job.weight


class _Crew(Generic[K]):
    """Threads, each with one worker process at a time."""

    def __init__(
        self, plan: _Plan[K], say: Callable[[str], None] | None, timeout: float, *, trust: bool = False
    ) -> None:
        self._plan = plan
        self._trust = trust
        self._timeout = timeout
        self._pool = WorkerPool(stopped="The export was stopped.", say=say)
        self._done: queue.SimpleQueue[Exported[K] | BaseException] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._stopped = threading.Event()

    def start(self, count: int) -> None:
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def next_done(self) -> Exported[K]:
        done = self._done.get()
        if isinstance(done, BaseException):  # a mistake of ours, met in a thread
            raise done
        return done

    def stop(self) -> None:
        self._stopped.set()
        self._pool.close()
        for thread in self._threads:  # one that waits for somebody else's environment may take its time
            thread.join(_GRACE)

    def _work(self) -> None:
        try:
            while not self._stopped.is_set() and (group := self._plan.join()) is not None:
                try:
                    self._serve(group)
                finally:
                    self._plan.leave(group)
        except BaseException as error:
            self._done.put(error)

    def _serve(self, group: Group) -> None:
        module, spec = group
        kind = reader(module, spec, None if self._trust else self._plan.files[group])
        try:
            while not self._stopped.is_set() and (job := self._plan.next(group)) is not None:
                try:
                    self._done.put(_exported(job, self._pool, kind, self._timeout))
                except EnvironmentBuildError as error:
                    self._give_up(job, group, error)
        finally:
            self._pool.retire(kind)

    def _give_up(self, job: ExportJob[K] | None, group: Group, error: ZoolensError) -> None:
        while job is not None:
            self._done.put(_failed(job, 0.0, error, circumstantial=True))
            job = self._plan.next(group)


def _exported(job: ExportJob[K], pool: WorkerPool, kind: WorkerKind, timeout: float) -> Exported[K]:
    started = time.monotonic()
    subject = job.request.subject
    problem: ZoolensError
    try:
        answer = pool.ask(kind, job.message, f"reading {subject}", timeout=timeout)
        return Exported(job, time.monotonic() - started, base64.b64decode(answer["graph"]))
    except EnvironmentBuildError:
        raise
    except WorkerTimeout:
        problem = ZoolensError(f"Reading the structure of {subject} took more than {timeout:g} s.")
    except ZoolensError as error:
        problem = error
    except (KeyError, TypeError, ValueError) as error:  # a worker that was taken over may answer anything
        problem = ZoolensError(f"The structure process returned an invalid answer while reading {subject}: {error}.")
    return _failed(job, time.monotonic() - started, problem, circumstantial=isinstance(problem, Circumstance))


def _failed(job: ExportJob[K], seconds: float, error: ZoolensError, *, circumstantial: bool) -> Exported[K]:
    return Exported(job, seconds, error=error.message, hint=error.hint, circumstantial=circumstantial)
