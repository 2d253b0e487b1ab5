"""Serves the services of files on a data plane: ladders, policies, events, A/B and shadow, until the block ends.

async with open_plane() as plane, host_services(plane, [Path("service.yaml")]) as services:
    answer = await plane.infer(InferRequest("fashion", {"input": batch}))
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress, Silent
from zoolens.base.store.store import Store, open_store
from zoolens.faces.serving.background import in_background, in_thread
from zoolens.faces.serving.plane.data_plane import Plane
from zoolens.faces.serving.services.definition import Service, ServiceError, read_services
from zoolens.faces.serving.services.events import EventLog
from zoolens.faces.serving.services.hosted import HostedService
from zoolens.faces.serving.services.ladder_query import LadderBuilder
from zoolens.faces.serving.services.ladder_refresh import StoreWatch, rebuild_ladder, refresh_ladders
from zoolens.faces.serving.services.ladder_words import announce
from zoolens.faces.serving.services.memory_limit import follow_memory_limit, read_memory_limit
from zoolens.faces.serving.services.rung_maker import Examined
from zoolens.faces.serving.services.service_ladder import ServiceLadder
from zoolens.findings.measure.latency import LatencySettings

REFRESH: Final = 10.0  # seconds between two looks at whether the store or a model's files have changed

log = logging.getLogger("zoolens.serving")


@dataclass(frozen=True)
class HostSettings:
    """`refresh`: seconds between two looks at the store; 0: the ladders stay as they are."""

    refresh: float = REFRESH
    latency: LatencySettings = field(default_factory=LatencySettings)
    seed: int | None = None


def read_service_files(paths: Sequence[Path | str]) -> dict[str, Service]:
    """All services of these files. A ServiceError where two have one name."""
    services: dict[str, Service] = {}
    for path in paths:
        for name, service in read_services(path).items():
            if name in services:
                raise ServiceError(f"Two services are called {name}.", hint="Rename one of them.")
            services[name] = service
    return services


def build_ladders(
    services: Mapping[str, Service],
    store: Store | str | Path | None = None,
    progress: Progress | None = None,
    latency: LatencySettings | None = None,
) -> dict[str, ServiceLadder]:
    """The ladder of each service, without serving anything: what `zoolens serve FILE --check` explains. What would keep
    a service from being served is an error here, too."""
    from zoolens.base.store.store import borrowed_store

    _check_memory_limits(services)
    with borrowed_store(store) as opened:
        builders = ladder_builders(services, opened, progress, latency or LatencySettings())
        built = {name: builder.build() for name, builder in builders.items()}
    for ladder in built.values():
        ladder.new_policy().close()
    return built


def ladder_builders(
    services: Mapping[str, Service], store: Store, progress: Progress | None, latency: LatencySettings
) -> dict[str, LadderBuilder]:
    """A builder for each service. They share the models that they have looked at, and are used in one thread."""
    examined: Examined = {}
    return {
        name: LadderBuilder(name, service, store, progress or Silent(), latency=latency, examined=examined)
        for name, service in services.items()
    }


def _check_memory_limits(services: Mapping[str, Service]) -> None:
    for service in services.values():
        if service.memory_limit_file is not None:
            read_memory_limit(Path(service.memory_limit_file))


@asynccontextmanager
async def host_services(
    plane: Plane,
    services: Sequence[Path | str] | Mapping[str, Service],
    *,
    store: str | Path | None = None,
    progress: Progress | None = None,
    settings: HostSettings | None = None,
    strict: bool = True,
) -> AsyncIterator[dict[str, HostedService]]:
    """Serve services on a plane as long as the block lasts, given as files or as definitions by name. Without `strict`
    a service whose ladder cannot be built is listed as unavailable, unless nothing else is served."""
    chosen = settings or HostSettings()
    defined = dict(services) if isinstance(services, Mapping) else read_service_files(services)
    await asyncio.to_thread(_check_memory_limits, defined)
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        # The store and the ladders are used in this thread alone.
        thread = ThreadPoolExecutor(1, "zoolens-services")
        stack.callback(thread.shutdown)
        opened = await loop.run_in_executor(thread, open_store, store)
        stack.push_async_callback(in_thread, thread, opened.close)
        builders = ladder_builders(defined, opened, progress, chosen.latency)
        for builder in builders.values():
            # A server that is stopped while it builds ladders need not wait for the rest of them.
            stack.callback(builder.stopped.set)
        ladders, failed = await _built(builders, thread)
        if failed and (strict or not (ladders or plane.endpoints)):
            raise next(iter(failed.values()))
        for name, error in failed.items():
            plane.leave_out(name, str(error))
            del defined[name], builders[name]
        for name, built in ladders.items():
            announce(name, built)
        events = await loop.run_in_executor(thread, EventLog, store, defined)
        # Whatever the other thread is busy with.
        stack.push_async_callback(asyncio.to_thread, events.close)
        hosted: dict[str, HostedService] = {}
        for name, builder in list(builders.items()):
            service = HostedService(name, plane, ladders[name], events, seed=chosen.seed)
            stack.push_async_callback(service.close)
            try:
                await service.start()
            except ZoolensError as error:
                # Its ladder may be known from before, so that nobody has opened its reference until now.
                failed[name] = error
                if strict:
                    raise
                plane.leave_out(name, str(error))
                del builders[name]
                continue
            hosted[name] = service
            if defined[name].memory_limit_file is not None:
                in_background(stack, follow_memory_limit(plane, defined[name].memory_limit_file or "", events, name))
            hosted[name].broken = _remover(builder, hosted[name], thread)
        if failed and not plane.endpoints:
            raise next(iter(failed.values()))
        if chosen.refresh > 0:
            watch = StoreWatch(opened, await loop.run_in_executor(thread, opened.newest))
            in_background(stack, refresh_ladders(watch, builders, hosted, thread, chosen.refresh))
        yield hosted


async def _built(
    builders: Mapping[str, LadderBuilder], thread: Executor
) -> tuple[dict[str, ServiceLadder], dict[str, ZoolensError]]:
    """The ladders of services, and why there is none of the others."""
    ladders: dict[str, ServiceLadder] = {}
    failed: dict[str, ZoolensError] = {}
    for name, builder in builders.items():
        try:
            ladders[name] = await asyncio.get_running_loop().run_in_executor(thread, builder.build)
        except ZoolensError as error:
            failed[name] = error
    return ladders, failed


def _remover(builder: LadderBuilder, hosted: HostedService, thread: Executor) -> Callable[[str, str, str], None]:
    """What is called with a tier that has broken its promise: the ladder is built again without it."""

    async def rebuild() -> None:
        while not await rebuild_ladder(builder, hosted, thread, "A tier has violated its promised equivalence."):
            await asyncio.sleep(REFRESH)

    def remove(model: str, runtime: str, reason: str) -> None:
        builder.removed[model, runtime] = reason
        hosted.spawn(rebuild())

    return remove
