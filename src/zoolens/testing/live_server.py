"""A real server of zoolens in a thread of its own, for tests and benchmarks of its clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from zoolens.serving.observer import Observer
from zoolens.serving.options import ServerOptions
from zoolens.serving.plane.data_plane import open_plane
from zoolens.serving.plane.settings import EndpointSettings, ModelSpec
from zoolens.serving.server import Server, run


@contextmanager
def running_server(
    models: Sequence[str | ModelSpec],
    settings: EndpointSettings | None = None,
    options: ServerOptions | None = None,
    *,
    observers: Sequence[Observer] = (),
) -> Iterator[dict[str, str]]:
    """The URLs ("http", "grpc") of a server with these models, for as long as the block lasts."""
    urls: dict[str, str] = {}
    failure: list[BaseException] = []
    started, loops = threading.Event(), list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]()

    async def serve() -> None:
        stop = asyncio.Event()
        loops.append((asyncio.get_running_loop(), stop))
        async with (
            open_plane(models, settings, observers=observers) as plane,
            Server(plane, options or ServerOptions(http_port=0, grpc_port=0)) as server,
        ):
            urls.update(server.urls)
            started.set()
            await stop.wait()

    def main() -> None:
        try:
            run(serve())
        except BaseException as error:
            failure.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=main, name="server", daemon=True)
    thread.start()
    started.wait()
    try:
        if failure:
            raise failure[0]
        yield urls
    finally:
        if loops and not failure:
            loop, stop = loops[0]
            loop.call_soon_threadsafe(stop.set)
        thread.join()
