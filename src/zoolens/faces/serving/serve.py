"""Serving from Python: a server on an event loop of one's own, or in a thread beside the program.

with zoolens.serve(["demo:lenet-torch"], http=0) as server:
    print(server.urls["http"])
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from importlib import import_module
from pathlib import Path

from zoolens.base.protocol.limits import Limits
from zoolens.base.public.calls import long_names_refused
from zoolens.faces.serving.language.generation import Languages
from zoolens.faces.serving.monitoring.logs import LogObserver
from zoolens.faces.serving.monitoring.metrics import PlaneMetrics
from zoolens.faces.serving.options import ServerOptions
from zoolens.faces.serving.plane.data_plane import open_plane
from zoolens.faces.serving.plane.plane_settings import EndpointSettings, ModelSpec
from zoolens.faces.serving.serve_request import ServeRequest
from zoolens.faces.serving.server import Server, check_startable, run
from zoolens.inventory.catalog.lookup import Model, model_text
from zoolens.inventory.zoos.zoo import Entry


@asynccontextmanager
async def running(request: ServeRequest, metrics: PlaneMetrics | None = None) -> AsyncIterator[Server]:
    """Serve what is requested: the server answers inside the block, and drains at its end.

    `metrics` counts what happens, for a caller that reads the counts itself besides Prometheus.
    """
    check_startable(request.options)
    async with AsyncExitStack() as stack:
        metrics = metrics or PlaneMetrics()
        opening = open_plane(
            request.models,
            request.settings,
            memory_limit=request.memory_limit,
            observers=[metrics, LogObserver()],
            strict=False,
        )
        plane = await stack.enter_async_context(opening)
        metrics.follow(plane)
        if request.services:
            hosting = import_module("zoolens.faces.serving.services.hosting")
            hosted = hosting.host_services(plane, request.services, store=request.store, strict=False)
            await stack.enter_async_context(hosted)
        languages = Languages(plane)
        stack.push_async_callback(languages.close)
        yield await stack.enter_async_context(Server(plane, request.options, metrics.text, languages))


@contextmanager
def serve(
    models: Model | ModelSpec | Sequence[Model | ModelSpec] = (),
    *,
    http: int | None = 8000,
    grpc: int | None = 8001,
    host: str = "127.0.0.1",
    token: str | None = None,
    insecure: bool = False,
    limits: Limits | None = None,
    settings: EndpointSettings | None = None,
    memory_limit: int | None = None,
    services: Sequence[Path | str] = (),
    store: str | Path | None = None,
) -> Iterator[Server]:
    """Serve models, and the services in these files, in a thread as long as the block lasts.

    Services ask `store` which models may answer for their reference, and record in it what happens. Ports: 0 takes a
    free one, None opens none. `server.urls` says where the server listens.
    """
    options = ServerOptions(
        host=host, http_port=http, grpc_port=grpc, token=token, insecure=insecure, limits=limits or Limits()
    )
    several = [models] if isinstance(models, str | Path | Entry | ModelSpec) else models
    chosen = [model if isinstance(model, ModelSpec) else model_text(model) for model in several]
    files = [Path(file) for file in services]
    request = ServeRequest(chosen, options, settings or EndpointSettings(), files, memory_limit, store)
    thread = _Thread(request)
    thread.start()
    try:
        # Models are looked for when the block is entered, which is after the call whose arguments are checked.
        with long_names_refused("zoolens.serve"):
            server = thread.server()
        yield server
    finally:
        thread.stop()


class _Thread(threading.Thread):
    """The thread in which the event loop runs. What it raises is raised again for whoever waits for the server."""

    def __init__(self, request: ServeRequest) -> None:
        super().__init__(name="zoolens-serve", daemon=True)
        self._request = request
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._server: Server | None = None
        self._end: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def server(self) -> Server:
        self._ready.wait()
        if self._error is not None:
            raise self._error
        assert self._server is not None
        return self._server

    def stop(self) -> None:
        if self._end is not None:
            loop, event = self._end
            # The loop is closed: an error has ended the server.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(event.set)
        self.join()

    def run(self) -> None:
        try:
            run(self._serve())
        except BaseException as error:
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        event = asyncio.Event()
        self._end = asyncio.get_running_loop(), event  # before the models are opened: that may be interrupted
        async with running(self._request) as self._server:
            self._ready.set()
            await event.wait()
        self._end = None
