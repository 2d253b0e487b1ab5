"""The controller of a cluster's services, of which there is one: it alone asks and writes the store.

It builds the ladder of each service, builds it again when models were measured or a tier broke its promise, and hands
it to every replica, so that all of them switch between the same models. It sums up what the replicas report.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Final

from zoolens.base.errors import ZoolensError
from zoolens.base.protocol.messages import ModelStatistics
from zoolens.base.store.store import open_store
from zoolens.faces.serving.background import in_background, in_thread
from zoolens.faces.serving.cluster.cluster_plan import ClusterPlan
from zoolens.faces.serving.cluster.reports import (
    ClusterView,
    ModelView,
    ReplicaReport,
    merged_repository,
    merged_statistics,
)
from zoolens.faces.serving.services.events import Entry, EventLog
from zoolens.faces.serving.services.hosting import HostSettings, ladder_builders
from zoolens.faces.serving.services.ladder_query import LadderBuilder
from zoolens.faces.serving.services.ladder_refresh import StoreWatch, rebuild_ladder, refresh_ladders
from zoolens.faces.serving.services.ladder_words import announce
from zoolens.faces.serving.services.service_ladder import ServiceLadder

_LOST: Final = 10.0  # seconds after which a replica that reports nothing is taken for gone
_REMEMBERED: Final = 1000  # replicas whose own counts are kept; of those before them the sum is


log = logging.getLogger("zoolens.serving")


class SharedLadder:
    """The ladder of one service that all replicas serve. `number` is another for every other ladder."""

    def __init__(self, name: str, built: ServiceLadder, controller: Controller) -> None:
        self.built = built
        self.number = time.time_ns()  # also another one after the controller was started again
        self._name, self._controller = name, controller

    def record(self, entry: Entry) -> None:
        self._controller.record(self._name, entry)

    def replace(self, built: ServiceLadder, reason: str) -> bool:
        if built.identity == self.built.identity:
            return False
        self.built, self.number = built, time.time_ns()
        log.info("service %s has another ladder: %s", self._name, reason)
        return True


class Controller:
    """Belongs to one event loop. A controller that cannot build its ladders says why in its view."""

    def __init__(self, plan: ClusterPlan, settings: HostSettings | None = None) -> None:
        self._plan, self._settings = plan, settings or HostSettings()
        self._stack = AsyncExitStack()
        self._thread = ThreadPoolExecutor(1, "zoolens-controller")  # the store is used in this thread alone
        self._builders: dict[str, LadderBuilder] = {}
        self._shared: dict[str, SharedLadder] = {}
        self._event_log: EventLog | None = None
        self._reports: dict[str, tuple[float, ReplicaReport]] = {}
        self._forgotten: tuple[ModelStatistics, ...] = ()
        self._problem = ""

    async def start(self) -> None:
        self._stack.callback(self._thread.shutdown)
        try:
            if self._plan.services:
                await self._start_services()
        except ZoolensError as error:
            self._problem = str(error)
            log.warning("the services cannot be served: %s", error)

    async def close(self) -> None:
        await self._stack.aclose()

    # --- what replicas ask

    async def ladders(self, known: Mapping[str, int]) -> dict[str, tuple[int, ServiceLadder]]:
        if self._problem:
            raise ZoolensError(self._problem)
        return {
            name: (shared.number, shared.built)
            for name, shared in self._shared.items()
            if known.get(name) != shared.number
        }

    async def report(self, report: ReplicaReport) -> dict[str, int]:
        for service, entry in report.events:
            self.record(service, entry)
        self._reports.pop(report.replica, None)
        self._reports[report.replica] = time.monotonic(), report
        while len(self._reports) > _REMEMBERED:
            _, oldest = self._reports.pop(next(iter(self._reports)))
            self._forgotten = merged_statistics([*self._forgotten, *oldest.statistics])
        return {name: shared.number for name, shared in self._shared.items()}

    async def remove(self, service: str, model: str, runtime: str, reason: str) -> None:
        self._builders[service].removed[model, runtime] = reason
        # Where it fails, the next refresh tries again.
        reason = "A tier has violated its promised equivalence."
        await rebuild_ladder(self._builders[service], self._shared[service], self._thread, reason)

    def record(self, service: str, entry: Entry) -> None:
        if self._event_log is not None:
            self._event_log.record(service, entry)

    # --- what the front asks

    async def view(self) -> ClusterView:
        now = time.monotonic()
        heard = [report for when, report in self._reports.values() if now - when < _LOST]
        models: dict[tuple[str, str], ModelView] = {}
        for report in heard:
            models.update(report.models)
        counted = [statistics for _, report in self._reports.values() for statistics in report.statistics]
        problems = [report.problem for report in heard if report.problem]
        return ClusterView(
            replicas=tuple(heard),
            repository=merged_repository(heard),
            statistics=merged_statistics([*self._forgotten, *counted]),
            models=models,
            problem=self._problem or (problems[0] if problems else ""),
            pid=os.getpid(),
        )

    # --- inside

    async def _start_services(self) -> None:
        loop, plan = asyncio.get_running_loop(), self._plan
        store = await loop.run_in_executor(self._thread, open_store, plan.store)
        self._stack.push_async_callback(in_thread, self._thread, store.close)
        self._builders = ladder_builders(plan.services, store, None, self._settings.latency)
        for name, builder in self._builders.items():
            built = await loop.run_in_executor(self._thread, builder.build)
            announce(name, built)
            self._shared[name] = SharedLadder(name, built, self)
        self._event_log = await loop.run_in_executor(self._thread, EventLog, plan.store, plan.services)
        self._stack.push_async_callback(asyncio.to_thread, self._event_log.close)
        for builder in self._builders.values():
            self._stack.callback(builder.stopped.set)
        if self._settings.refresh > 0:
            watch = StoreWatch(store, await loop.run_in_executor(self._thread, store.newest))
            refreshing = refresh_ladders(watch, self._builders, self._shared, self._thread, self._settings.refresh)
            in_background(self._stack, refreshing)
