"""A Ray cluster: each job is a Ray task, which starts our own worker processes on its node.

`ray` is the cluster that RAY_ADDRESS names, or one on this machine for as long as it is needed; `ray://host:port` is a
cluster that is reached through Ray's client server. A job whose node is lost is run again on another, unless it is
bound to that node.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, ClassVar, Final

from zoolens.base.engine.executors.executor import Executor, Job, lost, outcome_of, perform, task
from zoolens.base.engine.executors.job_events import RECORD, lost_event
from zoolens.base.engine.executors.machine_turn import machine_turn
from zoolens.base.engine.executors.ray_reports import RayReports
from zoolens.base.engine.executors.ray_session import RaySession, Seen, wait_for_listener
from zoolens.base.engine.executors.reports import Tell, nobody
from zoolens.base.engine.executors.retrying import retried
from zoolens.base.engine.machine import available_cores
from zoolens.base.engine.retry_policy import machine_was_lost, retry_policy
from zoolens.base.errors import ConstraintError, Lost, MissingDependency, ZoolensError, first_line
from zoolens.base.safety.node_consent import ALLOWED, NODE_CODE, working_for_others
from zoolens.base.safety.scrubbing import scrubbed

_THREADS: Final = "OMP_NUM_THREADS"  # Ray sets it for its processes, which would change results
_TIMED: Final = "zoolens_timed"  # whether a job wants its machine for itself
_REPORTS: Final = "reports"  # of a message to a node: the mailbox that takes what it tells, and the job's number there
_LOOPBACK: Final = "127.0.0.1"
_NODES: Final = 60.0  # seconds for a node with cores to join
_FRESH: Final = 2.0  # seconds for which is believed what the cluster has
_STARTS: Final = 15.0  # seconds for a head that is just starting, or starting again
_HOST_AND_PORT: Final = re.compile(r"(?:ray://)?([^/]+:\d+)")
_LOOK: Final = 0.5  # seconds between two looks at who joined
_SETTINGS: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_worker_niceness": "0",  # otherwise 15: whatever else the machine does would count as time of the model
}

_joined_last: str | None = None  # the cluster that this process joined last, as it was named


class RayExecutor(Executor):
    name = "ray"
    summary = "A Ray cluster"
    knows_nodes: ClassVar[bool] = True

    def __init__(self, ray: Any, *, ends_cluster: bool, watched: str | None = None) -> None:
        """`watched`: the address of a cluster that others run, which may end and come back."""
        self._ray = ray
        self._ends_cluster = ends_cluster
        self._remote = ray.remote(_on_node)
        self._lock = threading.RLock()
        self._reports: RayReports | None = None
        self._attempts: set[Future[Any]] = set()
        self._known: dict[str, float] = {}
        self._known_until = 0.0
        self._gone: ZoolensError | None = None  # why there is no cluster any more
        self._closed = False
        self._session: RaySession | None = None
        if watched is not None:
            self._session = RaySession(ray, partial(_join, ray, watched), self._left, self._joined)
            self._lock = self._session.lock

    @classmethod
    def open(cls, address: str | None) -> RayExecutor:
        for name, value in _SETTINGS.items():
            os.environ.setdefault(name, value)
        try:
            import ray
        except ImportError as error:
            raise MissingDependency("Running on Ray", "ray", "ray") from error
        if ray.is_initialized():
            if address and address != _joined_last:
                raise ZoolensError(
                    f"This process is in a Ray cluster already, which need not be that at {address}.",
                    hint="Write --on ray (running_on('ray')) for that one, or call ray.shutdown() first.",
                )
            return cls(ray, ends_cluster=False)
        where = address or os.environ.get("RAY_ADDRESS")
        if not where:
            # Its node is this user's own, who says with --allow-code what may run on it.
            os.environ.setdefault(NODE_CODE, ALLOWED)
        _join(ray, where)
        # Ray's client server notices by itself when its cluster ends, and one that is started here ends with us.
        return cls(ray, ends_cluster=True, watched=where if where and "://" not in where else None)

    @property
    def capacity(self) -> int:
        return max(1, int(self._resources().get("CPU", 0)))

    def submit(
        self, function: str, job: Job, *, whole_machine: bool = False, gpu: bool = False, node: str = ""
    ) -> Future[Any]:
        return self._submit(task(function, job), nobody, whole_machine=whole_machine, gpu=gpu, node=node)

    def submit_telling(
        self, function: str, job: Job, tell: Tell, *, whole_machine: bool = False, gpu: bool = False, node: str = ""
    ) -> Future[Any]:
        if tell is nobody:
            return self.submit(function, job, whole_machine=whole_machine, gpu=gpu, node=node)
        with self._there():
            if self._reports is None:
                self._reports = RayReports(self._ray)
            reports = self._reports
        number = reports.listen(tell)
        asked = {**task(function, job), _REPORTS: number}
        try:
            future = self._submit(asked, tell, whole_machine=whole_machine, gpu=gpu, node=node)
        except ZoolensError:
            reports.forget(number)
            raise
        future.add_done_callback(lambda _: reports.forget(number))
        return future

    def _submit(self, asked: dict[str, Any], tell: Tell, *, whole_machine: bool, gpu: bool, node: str) -> Future[Any]:
        if gpu and not self._resources().get("GPU"):
            # Ray would wait for one for ever.
            raise ConstraintError("No node of the Ray cluster has a GPU for jobs.", hint="Start one with --num-gpus.")
        message = {**asked, _THREADS: os.environ.get(_THREADS), _TIMED: whole_machine}

        def start() -> Future[Any]:
            # Nodes come and go: what the largest has may be otherwise each time.
            needs = {"num_cpus": self._whole_machine(node) if whole_machine else 1, "num_gpus": 1 if gpu else 0}
            where: Any = "SPREAD"
            if node:
                from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

                where = NodeAffinitySchedulingStrategy(node, soft=False)
            # Ray's own retries have no pause, and nobody learns of them.
            return self._attempt(message, tell, {"max_retries": 0, "scheduling_strategy": where, **needs})

        # A job that is bound to one machine ends with it: whoever bound it knows another machine, or none.
        return start() if node else retried(start, retry_policy(), self._passing, partial(_tell_lost, asked, tell))

    def _attempt(self, message: dict[str, Any], tell: Tell, options: dict[str, Any]) -> Future[Any]:
        """Gives a job to the cluster, once."""
        with self._there():
            if self._reports is not None and _REPORTS in message:
                message = {**message, _REPORTS: (self._reports.mailbox, message[_REPORTS])}
            try:
                reference = self._remote.options(**options).remote(message)
                answer = reference.future()
            except Exception as error:
                # Ray raises nearly anything where the cluster is away.
                raise lost("Ray", error) from error
            translated = _translated(answer, tell)
            self._attempts.add(translated)
        translated.add_done_callback(self._attempts.discard)
        translated.add_done_callback(lambda done: self._cancel(reference) if done.cancelled() else None)
        return translated

    def _cancel(self, reference: Any) -> None:
        # A call after Ray's end would start another cluster; one that is gone knows the job no more.
        if self._ray.is_initialized():
            with suppress(Exception):
                self._ray.cancel(reference)

    def _passing(self, error: BaseException) -> bool:
        """Whether Ray lost a node or a process. A node that cannot even begin, for want of zoolens, never will."""
        return machine_was_lost(error) and not isinstance(error.__cause__, self._ray.exceptions.RayTaskError)

    def close(self) -> None:
        self._closed = True
        if self._session is not None:
            self._session.close()
        with self._lock:
            if self._reports is not None:
                self._reports.close()
            if self._ends_cluster:
                self._ray.shutdown()

    # --- a cluster that goes away

    @contextmanager
    def _there(self) -> Iterator[None]:
        """Inside, this process has joined a cluster. A call of Ray's without one would start another."""
        if self._session is not None:
            self._session.wait()
        with self._lock:
            if self._gone is not None:
                raise self._gone
            if self._closed:
                raise ZoolensError("This executor is closed.")
            yield

    def _left(self) -> None:
        if self._reports is not None:
            self._reports.close()

    def _joined(self, error: ZoolensError | None) -> None:
        """Gives the jobs out again that the cluster took with it."""
        self._gone = error
        if error is None:
            self._remote = self._ray.remote(_on_node)
            if self._reports is not None:
                self._reports.open()
        for attempt in list(self._attempts):  # each that ends leaves the set
            _settle(attempt, lost("Ray", error or ConnectionError("its cluster is gone")))

    def _resources(self) -> dict[str, float]:
        """What the cluster has, as of a few seconds ago: every job that ends asks for it."""
        with self._there():
            if time.monotonic() > self._known_until and self._answers():
                self._known, self._known_until = dict(self._ray.cluster_resources()), time.monotonic() + _FRESH
            return self._known

    def _answers(self) -> bool:
        """Whether the cluster that was joined is there at this moment. Ray 2.60 ends this process where it is asked
        about nodes while another cluster has its address (global_state_accessor.h: Check failed, Unauthenticated)."""
        return self._session is None or self._session.look() is Seen.SAME

    def _whole_machine(self, node: str) -> float:
        """The cores of this node. Without one, those of the largest: with so many for each job, no two of them share a
        machine; smaller nodes then time nothing. A cluster that has just been started gets its nodes one by one."""
        deadline = time.monotonic() + _NODES
        while True:
            with self._there():
                nodes = [one for one in self._ray.nodes() if one["Alive"]] if self._answers() else []
            alive = {str(one["NodeID"]): float(one["Resources"].get("CPU", 0)) for one in nodes}
            if node and node not in alive:
                raise Lost(f"The Ray cluster has no node {node[:12]}.", hint="Start its agent again.")
            cores = alive[node] if node else max(alive.values(), default=0)
            if cores:
                return cores
            if node or time.monotonic() > deadline:
                raise ConstraintError(
                    "No node of the Ray cluster has a CPU for jobs.", hint="Start one with --num-cpus."
                )
            time.sleep(_LOOK)


def _join(ray: Any, where: str | None) -> None:
    """Joins the cluster at this address; without one, starts one on this machine."""
    named = _HOST_AND_PORT.fullmatch(where or "")
    if named:
        wait_for_listener(named[1], _STARTS)
    own = {} if where else {"num_cpus": available_cores(), "include_dashboard": False, "_node_ip_address": _LOOPBACK}
    try:
        with warnings.catch_warnings(), _unnamed_secrets(ray), _alone(ray) if own else nullcontext():
            # What keeps us from the cluster is said below.
            warnings.simplefilter("ignore")
            # "local": not a cluster that somebody else happens to have started on this machine
            ray.init(address=where or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
        global _joined_last
        _joined_last = where
    except Exception as error:
        # Ray raises nearly anything: connection, version and value errors.
        raise ZoolensError(
            f"The Ray cluster{f' at {where}' if where else ''} cannot be used: {first_line(error).rstrip('.')}.",
            hint="Is it running, with the same versions of Python and Ray?",
        ) from error


@contextmanager
def _alone(ray: Any) -> Iterator[None]:
    """While a cluster is started here for us alone. Otherwise Ray 2.60 takes an address that others reach, even where
    it is given the loopback's, and listens on all of them: whoever reaches it can run code here."""
    constants = ray._private.ray_constants
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def _unnamed_secrets(ray: Any) -> Iterator[None]:
    """While the cluster is joined, Ray asks for the command line, which everybody on the cluster may then read: that of
    ours may hold the password of a store."""
    tools = ray._private.utils
    told = getattr(tools, "get_entrypoint_name", None)
    if told is None:
        yield
        return
    tools.get_entrypoint_name = lambda: scrubbed(str(told()))
    try:
        yield
    finally:
        tools.get_entrypoint_name = told


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keeps our handler of SIGTERM: `ray.init` of Ray 2.60 sets one of its own, and `ray.shutdown` the default, which
    ends the process where it stands; an agent stayed on the list. Handlers can be set in the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if ours is not None:
            signal.signal(signal.SIGTERM, ours)


def node_at(address: str) -> str:
    """The id that this machine has as a node of the Ray cluster at this address."""
    if "://" in address:
        raise ZoolensError(
            f"Through {address} only the node of the cluster's server can be asked, which may be another machine.",
            hint="Write --ray auto on a machine that is a node of the cluster.",
        )
    with _own_sigterm():
        executor = RayExecutor.open(address)
        try:
            return str(executor._ray.get_runtime_context().get_node_id())
        finally:
            executor.close()


def _on_node(asked: dict[str, Any]) -> dict[str, Any]:
    """Runs a job in Ray's process with the caller's number of threads."""
    threads = asked.pop(_THREADS)
    if threads is None:
        os.environ.pop(_THREADS, None)
    else:
        os.environ[_THREADS] = threads
    mailbox, number = asked.pop(_REPORTS, (None, 0))
    tell = None if mailbox is None else lambda message: mailbox.put.remote(number, message)
    with machine_turn(alone=asked.pop(_TIMED)), working_for_others():
        return perform(asked, tell, _this_node() if RECORD in asked["job"] else "")


def _this_node() -> str:
    """The id of this process's node. Nothing outside a cluster: whoever asks Ray there makes it start one."""
    import ray

    return str(ray.get_runtime_context().get_node_id()) if ray.is_initialized() else ""


def _tell_lost(asked: dict[str, Any], tell: Tell, error: BaseException, pause: float) -> None:
    if RECORD in asked["job"]:
        tell(lost_event(error, pause))


def _translated(answer: Future[Any], tell: Tell = nobody) -> Future[Any]:
    """A future of the function's own result or error. `tell`: see `outcome_of`."""
    translated: Future[Any] = Future()

    def settle(done: Future[Any]) -> None:
        if translated.done():
            return
        try:
            _settle(translated, None, outcome_of(done.result(), tell))
        except ZoolensError as error:
            _settle(translated, error)
        except BaseException as error:
            # Ray's own: a node was lost, or lacks zoolens.
            ended = lost("Ray", error)
            ended.__cause__ = error
            _settle(translated, ended)

    answer.add_done_callback(settle)
    return translated


def _settle(future: Future[Any], error: BaseException | None, result: Any = None) -> None:
    """Ends a future, unless it was cancelled or has ended: a cluster that is gone may still have its last word."""
    with suppress(InvalidStateError):
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
