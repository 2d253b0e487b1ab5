"""A Ray cluster: each job is a Ray task, which starts our own worker processes on its node.

`ray` is the cluster that RAY_ADDRESS names, or one on this machine for as long as it is needed; `ray://host:port` is a
cluster that is reached through Ray's client server. A job whose node is lost is run again on another, unless it is
bound to that node.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
import warnings
from concurrent.futures import Future
from typing import Any, ClassVar, Final

from zoolens.base.engine.executors.executor import Executor, Job, lost, outcome_of, perform, task
from zoolens.base.engine.executors.machine_turn import machine_turn
from zoolens.base.engine.executors.reports import Tell, nobody
from zoolens.base.engine.machine import available_cores
from zoolens.base.errors import ConstraintError, Lost, MissingDependency, ZoolensError, first_line

_TRIES: Final = 5  # of a job whose node or process is lost
_THREADS: Final = "OMP_NUM_THREADS"  # Ray sets it for its processes, which would change results
_TIMED: Final = "zoolens_timed"  # whether a job wants its machine for itself
_REPORTS: Final = "reports"  # of a message to a node: the mailbox that takes what it tells, and the job's number there
_LOOK: Final = 0.2  # seconds between two looks into the mailbox
_PATIENCE: Final = 1.0  # seconds of one look
_SETTINGS: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_worker_niceness": "0",  # otherwise 15: whatever else the machine does would count as time of the model
}

_log = logging.getLogger(__name__)


class RayExecutor(Executor):
    name = "ray"
    summary = "A Ray cluster"
    knows_nodes: ClassVar[bool] = True

    def __init__(self, ray: Any, *, ends_cluster: bool) -> None:
        self._ray = ray
        self._ends_cluster = ends_cluster
        self._remote = ray.remote(_on_node)
        self._lock = threading.Lock()
        self._reports: _Reports | None = None

    @classmethod
    def open(cls, address: str | None) -> RayExecutor:
        for name, value in _SETTINGS.items():
            os.environ.setdefault(name, value)
        try:
            import ray
        except ImportError as error:
            raise MissingDependency("Running on Ray", "ray", "ray") from error
        if ray.is_initialized():
            return cls(ray, ends_cluster=False)
        where = address or os.environ.get("RAY_ADDRESS")
        own = {} if where else {"num_cpus": available_cores(), "include_dashboard": False}
        try:
            with warnings.catch_warnings():
                # What keeps us from the cluster is said below.
                warnings.simplefilter("ignore")
                # "local": not a cluster that somebody else happens to have started on this machine
                ray.init(address=where or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
        except Exception as error:
            # Ray raises nearly anything: connection, version and value errors.
            raise ZoolensError(
                f"The Ray cluster{f' at {where}' if where else ''} cannot be used: {first_line(error).rstrip('.')}.",
                hint="Is it running, with the same versions of Python and Ray?",
            ) from error
        return cls(ray, ends_cluster=True)

    @property
    def capacity(self) -> int:
        return max(1, int(self._ray.cluster_resources().get("CPU", 0)))

    def submit(
        self, function: str, job: Job, *, whole_machine: bool = False, gpu: bool = False, node: str = ""
    ) -> Future[Any]:
        return self._submit(task(function, job), whole_machine=whole_machine, gpu=gpu, node=node)

    def submit_telling(
        self, function: str, job: Job, tell: Tell, *, whole_machine: bool = False, gpu: bool = False, node: str = ""
    ) -> Future[Any]:
        if tell is nobody:
            return self.submit(function, job, whole_machine=whole_machine, gpu=gpu, node=node)
        with self._lock:
            if self._reports is None:
                self._reports = _Reports(self._ray)
            reports = self._reports
        number = reports.listen(tell)
        asked = {**task(function, job), _REPORTS: (reports.mailbox, number)}
        try:
            future = self._submit(asked, whole_machine=whole_machine, gpu=gpu, node=node)
        except ZoolensError:
            reports.forget(number)
            raise
        future.add_done_callback(lambda _: reports.forget(number))
        return future

    def _submit(self, asked: dict[str, Any], *, whole_machine: bool, gpu: bool, node: str) -> Future[Any]:
        if gpu and not self._ray.cluster_resources().get("GPU"):
            # Ray would wait for one for ever.
            raise ConstraintError("No node of the Ray cluster has a GPU for jobs.", hint="Start one with --num-gpus.")
        needs = {"num_cpus": self._whole_machine(node) if whole_machine else 1, "num_gpus": 1 if gpu else 0}
        where: Any = "SPREAD"
        if node:
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

            where = NodeAffinitySchedulingStrategy(node, soft=False)
        # A job that is bound to one machine ends with it: whoever bound it knows another machine, or none.
        chosen = self._remote.options(max_retries=0 if node else _TRIES, scheduling_strategy=where, **needs)
        reference = chosen.remote({**asked, _THREADS: os.environ.get(_THREADS), _TIMED: whole_machine})
        translated = _translated(reference.future())
        translated.add_done_callback(lambda done: self._ray.cancel(reference) if done.cancelled() else None)
        return translated

    def close(self) -> None:
        if self._reports is not None:
            self._reports.close()
        if self._ends_cluster:
            self._ray.shutdown()

    def _whole_machine(self, node: str) -> float:
        """The cores of this node. Without one, those of the largest: with so many for each job, no two of them share a
        machine; smaller nodes then time nothing."""
        alive = {str(one["NodeID"]): float(one["Resources"].get("CPU", 0)) for one in self._ray.nodes() if one["Alive"]}
        if node and node not in alive:
            raise Lost(f"The Ray cluster has no node {node[:12]}.", hint="Start its agent again.")
        cores = alive[node] if node else max(alive.values(), default=0)
        if not cores:
            raise ConstraintError("No node of the Ray cluster has a CPU for jobs.", hint="Start one with --num-cpus.")
        return cores


def node_at(address: str) -> str:
    """The id that this machine has as a node of the Ray cluster at this address."""
    if "://" in address:
        raise ZoolensError(
            f"Through {address} only the node of the cluster's server can be asked, which may be another machine.",
            hint="Write --ray auto on a machine that is a node of the cluster.",
        )
    executor = RayExecutor.open(address)
    try:
        return str(executor._ray.get_runtime_context().get_node_id())
    finally:
        executor.close()


class _Mailbox:
    """Keeps on the cluster what jobs tell until the caller takes it.

    Ray's own Queue is an asynchronous actor, which does not keep the order in which one job calls it.
    """

    def __init__(self) -> None:
        self._reports: list[tuple[int, Any]] = []

    def put(self, number: int, message: Any) -> None:
        self._reports.append((number, message))

    def take(self) -> list[tuple[int, Any]]:
        taken, self._reports = self._reports, []
        return taken


class _Reports:
    """What jobs tell comes through a mailbox on the cluster; a thread of ours hands it on.

    The mailbox is an actor that takes no core. When its node is lost Ray starts it again elsewhere, without what was in
    it. A generator task would need no actor, but one that runs again after a loss may tell other things than before,
    and Ray counts what was told: the result would take the place of a report.
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self.mailbox = ray.remote(_Mailbox).options(num_cpus=0, max_restarts=-1).remote()
        self._listeners: dict[int, Tell] = {}
        self._numbers = itertools.count()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._hand_on, daemon=True)
        self._thread.start()

    def listen(self, tell: Tell) -> int:
        number = next(self._numbers)
        self._listeners[number] = tell
        return number

    def forget(self, number: int) -> None:
        self._listeners.pop(number, None)

    def close(self) -> None:
        """Waits until the thread has ended: a call after Ray's end would start another cluster."""
        self._closed.set()
        self._thread.join(2 * _PATIENCE)

    def _hand_on(self) -> None:
        asked = None
        while not self._closed.wait(_LOOK):
            if not self._listeners:
                continue
            asked = asked or self.mailbox.take.remote()
            try:
                reports = self._ray.get(asked, timeout=_PATIENCE)
            except TimeoutError:
                # It starts. What is asked for again would lose what is on its way.
                continue
            except Exception as error:
                # Its node is lost, or all of the cluster, which the jobs' own errors say.
                _log.debug("reports of jobs: %s", first_line(error))
                reports = []
            asked = None
            for number, message in reports:
                self._listeners.get(number, nobody)(message)


def _on_node(asked: dict[str, Any]) -> dict[str, Any]:
    """Runs a job in Ray's process with the caller's number of threads."""
    threads = asked.pop(_THREADS)
    if threads is None:
        os.environ.pop(_THREADS, None)
    else:
        os.environ[_THREADS] = threads
    mailbox, number = asked.pop(_REPORTS, (None, 0))
    tell = None if mailbox is None else lambda message: mailbox.put.remote(number, message)
    with machine_turn(alone=asked.pop(_TIMED)):
        return perform(asked, tell)


def _translated(answer: Future[Any]) -> Future[Any]:
    """A future of the function's own result or error."""
    translated: Future[Any] = Future()

    def settle(done: Future[Any]) -> None:
        if not translated.set_running_or_notify_cancel():
            return
        try:
            translated.set_result(outcome_of(done.result()))
        except ZoolensError as error:
            translated.set_exception(error)
        except BaseException as error:
            # Ray's own: a node was lost too often, or lacks zoolens.
            translated.set_exception(lost("Ray", error))

    answer.add_done_callback(settle)
    return translated
