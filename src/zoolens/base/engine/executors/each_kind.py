"""Every kind of machine: each job runs on the node that its caller names, or on this machine where it names none.

`each-kind` reaches nodes through the Ray cluster that RAY_ADDRESS names, `each-kind://host:port` through Ray's client
server. The cluster is opened for the first job with a node, so that agents of this machine alone need none.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from typing import Any, ClassVar

from zoolens.base.engine.executors.executor import Executor, Job
from zoolens.base.engine.executors.local import Local
from zoolens.base.engine.executors.ray import RayExecutor
from zoolens.base.engine.executors.reports import Tell, nobody
from zoolens.base.errors import Lost


class EachKind(Executor):
    name = "each-kind"
    summary = "Every kind of machine that has an agent"
    each_kind: ClassVar[bool] = True
    knows_nodes: ClassVar[bool] = True

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._here = Local(in_turn=True)
        self._cluster: RayExecutor | None = None
        self._lock = threading.Lock()

    @classmethod
    def open(cls, address: str | None) -> EachKind:
        return cls(None if address is None else f"ray://{address.partition('://')[2]}")

    @property
    def capacity(self) -> int:
        return self._here.capacity + (0 if self._cluster is None else self._cluster.capacity)

    def submit(
        self, function: str, job: Job, *, whole_machine: bool = False, gpu: bool = False, node: str = ""
    ) -> Future[Any]:
        return self.submit_telling(function, job, nobody, whole_machine=whole_machine, gpu=gpu, node=node)

    def submit_telling(
        self, function: str, job: Job, tell: Tell, *, whole_machine: bool = False, gpu: bool = False, node: str = ""
    ) -> Future[Any]:
        if node:
            return self._nodes().submit_telling(function, job, tell, whole_machine=whole_machine, gpu=gpu, node=node)
        return self._here.submit_telling(function, job, tell, whole_machine=whole_machine)

    def close(self) -> None:
        for executor in (self._here, self._cluster):
            if executor is not None:
                executor.close()

    def _nodes(self) -> RayExecutor:
        with self._lock:
            if self._cluster is None and self._address is None and not os.environ.get("RAY_ADDRESS"):
                raise Lost(
                    "It is a node of a Ray cluster, and no cluster is named.",
                    hint="Set RAY_ADDRESS, or write --on each-kind://host:port.",
                )
            if self._cluster is None:
                self._cluster = RayExecutor.open(self._address)
            return self._cluster
