"""A web application on our event loop: from the port to the last answer. REST and the explorer are served by it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from zoolens.base.errors import MissingDependency, ZoolensError


class WebServer:
    """uvicorn, which is quiet and leaves signals to us: it would end the process before a data plane has drained."""

    def __init__(self, application: Any, tls: ssl.SSLContext | None = None, **settings: Any) -> None:
        """`settings` are those of uvicorn."""
        import uvicorn

        class Quiet(uvicorn.Server):
            @contextmanager
            def capture_signals(self) -> Iterator[None]:
                yield

        config = uvicorn.Config(
            application,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            **settings,
        )
        config.load()
        config.ssl = tls
        self._server = Quiet(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self, listening: socket.socket) -> int:
        """Answer what comes in at this socket, and return its port."""
        self._task = asyncio.ensure_future(self._server.serve(sockets=[listening]))
        while not self._server.started and not self._task.done():
            await asyncio.sleep(0.01)
        if self._task.done():
            self._task.result()
        return int(listening.getsockname()[1])

    async def stop(self) -> None:
        """Accept nothing more, and send the answers that are under way."""
        self._server.should_exit = True
        if self._task is not None:
            await self._task


def check_packages(packages: Iterable[str], needed_by: str, extra: str) -> None:
    """Say which package is missing before anything is opened."""
    for package in packages:
        try:
            import_module(package)
        except ImportError as error:
            raise MissingDependency(needed_by, package, extra) from error


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound to this address; a sentence says why it cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise cannot_listen(host, port, error) from error
    return listening


def cannot_listen(host: str, port: int, error: Exception) -> ZoolensError:
    """The sentence for an address that cannot be bound."""
    reason = getattr(error, "strerror", None) or str(error)
    return ZoolensError(
        f"The server cannot listen on {address(host, port)}: {reason}.",
        hint="Choose another port; 0 takes a free one.",
    )


def address(host: str, port: int) -> str:
    """Host and port as they are written in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
