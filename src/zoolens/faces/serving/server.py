"""A server: REST and gRPC on one event loop before one data plane, from the first port to the last answer."""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from zoolens.base.errors import ZoolensError
from zoolens.faces.serving.contracts.data_plane import DataPlane
from zoolens.faces.serving.contracts.language import LanguageService
from zoolens.faces.serving.options import ServerOptions
from zoolens.faces.serving.transports.bodies import BodyReader
from zoolens.faces.serving.transports.web_server import WebServer, address, check_packages, listen

if TYPE_CHECKING:
    from zoolens.faces.serving.transports.http import Metrics

log = logging.getLogger("zoolens.serving")


class Server:
    """Use as `async with Server(plane, options) as server`: it answers inside, and drains at the end.

    `urls` says where: "http" and "grpc", each where its port was asked for.
    """

    def __init__(
        self,
        plane: DataPlane,
        options: ServerOptions,
        metrics: Metrics | None = None,
        language: LanguageService | None = None,
    ) -> None:
        """`language` answers the API of OpenAI, where there is one."""
        self._plane, self._options, self._metrics, self._language = plane, options, metrics, language
        self.bodies = BodyReader(options)  # one budget for both transports
        self._rest: WebServer | None = None
        self._grpc: Any = None
        self.urls: dict[str, str] = {}

    @property
    def plane(self) -> DataPlane:
        return self._plane

    @property
    def writers(self) -> list[str]:
        """What writes texts by the API of OpenAI."""
        return self._language.names() if self._language is not None else []

    async def __aenter__(self) -> Server:
        check_installed(self._options)
        try:
            if self._options.http_port is not None:
                await self._start_rest()
            if self._options.grpc_port is not None:
                await self._start_grpc()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Accept nothing more, answer what was accepted, then close the ports."""
        seconds = self._options.drain_seconds
        if self._language is not None:
            began = time.monotonic()
            await self._language.drain(seconds)
            seconds = max(0.0, seconds - (time.monotonic() - began))
        await self._plane.drain(seconds)
        await asyncio.gather(self._stop_rest(), self._stop_grpc(seconds))

    async def _start_rest(self) -> None:
        from zoolens.faces.serving.transports.http import Application
        from zoolens.faces.serving.transports.http_protocol import Connection

        options = self._options
        application = Application(self._plane, options, self.bodies, self._metrics, self._language)
        rest = WebServer(
            application,
            None if options.tls is None else _tls_context(options),
            http=type("ServedConnection", (Connection,), {"application": application, "heads": {}}),
            timeout_keep_alive=max(1, int(options.idle_seconds)),
            timeout_graceful_shutdown=max(1, int(options.drain_seconds)),
        )
        listening = listen(options.host, options.http_port or 0)
        self._rest = rest
        port = await rest.start(listening)
        self.urls["http"] = f"{'https' if options.tls else 'http'}://{address(options.host, port)}"

    async def _start_grpc(self) -> None:
        from zoolens.faces.serving.transports.grpc import start

        options = self._options
        tls = None if options.tls is None else _tls_context(options)
        listening = listen(options.host, options.grpc_port or 0)
        self._grpc = await start(self._plane, options, self.bodies, listening, tls)
        self.urls["grpc"] = f"{'grpcs' if options.tls else 'grpc'}://{address(options.host, self._grpc.port)}"

    async def _stop_rest(self) -> None:
        if self._rest is not None:
            await self._rest.stop()
            self._rest = None

    async def _stop_grpc(self, seconds: float) -> None:
        if self._grpc is not None:
            await self._grpc.stop(seconds)
            self._grpc = None


def check_installed(options: ServerOptions) -> None:
    """Say which package is missing."""
    needed: dict[str, tuple[str, ...]] = {}
    if options.http_port is not None:
        needed["zoolens serve"] = ("starlette", "uvicorn", "httptools")
    if options.grpc_port is not None:
        needed["zoolens serve --grpc"] = ("google.protobuf", "hpack")
    for who, packages in needed.items():
        check_packages(packages, who, "serve")


def check_startable(options: ServerOptions) -> None:
    """Say what will keep the server from listening (a package, a port, a certificate) before models are opened for
    minutes."""
    check_installed(options)
    if options.tls is not None:
        _tls_context(options)
    for port in (options.http_port, options.grpc_port):
        if port:
            listen(options.host, port).close()


async def stop_signal() -> None:
    """Wait for SIGTERM or SIGINT. A second one then ends the process at once, in the middle of draining."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    handled = []
    for number in (signal.SIGTERM, signal.SIGINT):
        # Windows raises KeyboardInterrupt instead.
        with suppress(NotImplementedError):
            loop.add_signal_handler(number, stop.set)
            handled.append(number)
    try:
        await stop.wait()
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on the fastest event loop that is installed."""
    try:
        import uvloop
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)


def _tls_context(options: ServerOptions) -> ssl.SSLContext:
    assert options.tls is not None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(options.tls.certificate, options.tls.key)
    except (ssl.SSLError, OSError) as error:
        raise ZoolensError(f"The certificate {options.tls.certificate} and its key cannot be used: {error}.") from error
    return context
