"""One replica: a data plane with all models and services, which takes its ladders from the controller.

It knows no cluster: `Control` is how it reaches the controller, wherever that runs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Final, Protocol

from zoolens.base.engine.sandbox import trusting
from zoolens.base.errors import ZoolensError, first_line
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferRequest, InferResponse
from zoolens.faces.serving.background import in_background
from zoolens.faces.serving.cluster.cluster_plan import ClusterPlan
from zoolens.faces.serving.cluster.reports import ModelView, ReplicaReport
from zoolens.faces.serving.plane.data_plane import Plane, open_plane
from zoolens.faces.serving.services.events import Entry, ModelComparison
from zoolens.faces.serving.services.hosted import HostedService
from zoolens.faces.serving.services.memory_limit import follow_memory_limit
from zoolens.faces.serving.services.service_ladder import ServiceLadder

_EVERY: Final = 1.0  # seconds between two reports
_COUNTS: Final = 5.0  # seconds between two counts of answers: those since the last are lost with a replica
_PATIENCE: Final = 5.0  # seconds for the controller to take one: at the end it may be gone before its replicas are
_WAITING: Final = 10_000  # events that wait for the controller
_THREADS: Final = "OMP_NUM_THREADS"

Remover = Callable[[str, str, str], None]

log = logging.getLogger("zoolens.serving")


class Control(Protocol):
    """The controller, as a replica reaches it. Whatever it raises means that it cannot be reached now."""

    async def ladders(self, known: Mapping[str, int]) -> Mapping[str, tuple[int, ServiceLadder]]:
        """The ladders, with their numbers, of services whose number is another than the known one."""
        ...

    async def report(self, report: ReplicaReport) -> Mapping[str, int]:
        """Tell how this replica is; the numbers of the newest ladders."""
        ...

    async def remove(self, service: str, model: str, runtime: str, reason: str) -> None:
        """Have a tier that broke its promise taken off the ladder of all replicas."""
        ...


class Replica:
    """Belongs to one event loop. A replica that cannot serve says why in its reports, instead of dying again and
    again; it then refuses requests with that sentence."""

    def __init__(self, plan: ClusterPlan, control: Control, name: str) -> None:
        self._plan, self._control, self._name = plan, control, name
        self._stack = AsyncExitStack()
        self._plane: Plane | None = None
        self._hosted: dict[str, HostedService] = {}
        self._numbers: dict[str, int] = {}  # of the ladders that are served
        self._events: deque[tuple[str, Entry]] = deque(maxlen=_WAITING)
        self._problem = ""

    async def start(self) -> None:
        _set_threads(self._plan.threads)
        plan = self._plan
        try:
            with trusting(plan.trust):
                self._plane = await self._stack.enter_async_context(
                    open_plane(plan.models, plan.settings, memory_limit=plan.memory_limit, strict=False)
                )
                await self._start_services(self._plane)
        except ZoolensError as error:
            self._problem = str(error)
            log.warning("replica %s cannot serve: %s", self._name, error)
        in_background(self._stack, self._report_on())
        await self._report()

    async def infer(self, request: InferRequest) -> InferResponse:
        if self._problem or self._plane is None:
            raise ServingError(Refusal.UNAVAILABLE, self._problem or "The replica is starting.")
        # A model that was closed to save memory may be opened again for it.
        with trusting(self._plan.trust):
            return await self._plane.infer(request)

    async def feedback(self, model: str, labels: Mapping[str, Any]) -> int:
        """Labels for answers of this replica; how many of the ids it knows."""
        if self._problem or self._plane is None:
            return 0
        return await self._plane.feedback(model, labels)

    @property
    def problem(self) -> str:
        """Why this replica can serve nothing; empty where it can."""
        return self._problem

    async def close(self, seconds: float) -> None:
        """Answer what was accepted, at most so long, and end."""
        if self._plane is not None:
            await self._plane.drain(seconds)
        await self._stack.aclose()
        await self._report()

    async def flush(self) -> None:
        """Tell the controller all that it does not know yet, before both of them end."""
        # What was answered just now is reported in a moment.
        await asyncio.sleep(0)
        for service in self._hosted.values():
            service.write_counts()
        await self._report()

    def record(self, service: str, entry: Entry) -> None:
        """Keep an event of a service for the next report. Comparisons are sums of this replica, and say so."""
        if isinstance(entry, ModelComparison):
            entry = replace(entry, replica=self._name)
        self._events.append((service, entry))

    # --- services

    async def _start_services(self, plane: Plane) -> None:
        if not self._plan.services:
            return
        for name, (number, built) in (await self._control.ladders({})).items():
            service = HostedService(name, plane, built, self, flush=_COUNTS)
            self._hosted[name], self._numbers[name] = service, number
            await service.start()
            self._stack.push_async_callback(service.close)
            service.broken = self._remover(service)
            if built.service.memory_limit_file is not None:
                in_background(self._stack, follow_memory_limit(plane, built.service.memory_limit_file, self, name))

    def _remover(self, service: HostedService) -> Remover:
        def remove(model: str, runtime: str, reason: str) -> None:
            service.spawn(self._control.remove(service.name, model, runtime, reason))

        return remove

    async def _take_ladders(self, newest: Mapping[str, int]) -> None:
        if all(self._numbers.get(name) == number for name, number in newest.items() if name in self._hosted):
            return
        for name, (number, built) in (await self._control.ladders(self._numbers)).items():
            if name in self._hosted:
                self._hosted[name].replace(built, "The controller has another ladder.")
                self._numbers[name] = number

    # --- reports

    async def _report_on(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            await self._report()

    async def _report(self) -> None:
        """What cannot be told now is told the next time; requests are answered meanwhile."""
        events = [self._events.popleft() for _ in range(len(self._events))]
        try:
            newest = await asyncio.wait_for(self._control.report(self._state(events)), _PATIENCE)
            events = []
            await self._take_ladders(newest)
        except Exception as error:
            # An error of the cluster: its controller is restarted, or its machine is lost.
            self._events.extendleft(reversed(events))
            log.warning("replica %s does not reach the controller: %s", self._name, first_line(error))

    def _state(self, events: list[tuple[str, Entry]]) -> ReplicaReport:
        plane = self._plane
        if plane is None or self._problem:
            return ReplicaReport(self._name, platform.node(), os.getpid(), ready=False, problem=self._problem)
        models = {
            (endpoint.name, endpoint.version): ModelView(
                plane.model_metadata(endpoint.name, endpoint.version),
                plane.model_config(endpoint.name, endpoint.version),
            )
            for endpoint in plane.endpoints
            if endpoint.ready
        }
        return ReplicaReport(
            self._name,
            platform.node(),
            os.getpid(),
            ready=plane.ready(),
            repository=tuple(plane.repository()),
            statistics=tuple(plane.statistics()),
            models=models,
            events=tuple(events),
        )


def _set_threads(threads: str | None) -> None:
    """Uses as many threads as whoever started the server would use."""
    if threads is None:
        os.environ.pop(_THREADS, None)
    else:
        os.environ[_THREADS] = threads
