"""A server: REST and gRPC on one event loop before one data plane, from the first port to the last answer."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from zoolens.errors import MissingDependency, ZoolensError
from zoolens.serving.bodies import BodyReader
from zoolens.serving.contract import DataPlane
from zoolens.serving.options import ServerOptions

if TYPE_CHECKING:
    from zoolens.serving.http import Metrics

log = logging.getLogger("zoolens.serving")


class Server:
    """Use as `async with Server(plane, options) as server`: it answers inside, and drains at the end.

    `urls` says where: "http" and "grpc", each where its port was asked for.
    """

    def __init__(self, plane: DataPlane, options: ServerOptions, metrics: Metrics | None = None) -> None:
        self._plane, self._options, self._metrics = plane, options, metrics
        self._bodies = BodyReader(options)  # one budget for both transports
        self._rest: Any = None
        self._rest_task: asyncio.Task[None] | None = None
        self._grpc: Any = None
        self.urls: dict[str, str] = {}

    @property
    def plane(self) -> DataPlane:
        return self._plane

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
        await self._plane.drain(seconds)
        await asyncio.gather(self._stop_rest(), self._stop_grpc(seconds))

    async def _start_rest(self) -> None:
        import uvicorn

        from zoolens.serving.http import Application
        from zoolens.serving.http_protocol import Connection

        options = self._options
        application = Application(self._plane, options, self._bodies, self._metrics)
        config = uvicorn.Config(
            application,
            http=type("ServedConnection", (Connection,), {"application": application, "heads": {}}),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=max(1, int(options.idle_seconds)),
            timeout_graceful_shutdown=max(1, int(options.drain_seconds)),
        )
        config.load()
        if options.tls is not None:
            config.ssl = _tls_context(options)
        listening = listen(options.host, options.http_port or 0)
        self._rest = quiet_server(uvicorn)(config)
        self._rest_task = asyncio.ensure_future(self._rest.serve(sockets=[listening]))
        while not self._rest.started and not self._rest_task.done():
            await asyncio.sleep(0.01)
        if self._rest_task.done():
            self._rest_task.result()
        self.urls["http"] = (
            f"{'https' if options.tls else 'http'}://{address(options.host, listening.getsockname()[1])}"
        )

    async def _start_grpc(self) -> None:
        from zoolens.serving.grpc import start

        try:
            self._grpc = await start(self._plane, self._options, self._bodies)
        except OSError as error:
            raise _cannot_listen(self._options.host, self._options.grpc_port or 0, error) from error
        self.urls["grpc"] = (
            f"{'grpcs' if self._options.tls else 'grpc'}://{address(self._options.host, self._grpc.port)}"
        )

    async def _stop_rest(self) -> None:
        if self._rest is not None and self._rest_task is not None:
            self._rest.should_exit = True
            await self._rest_task
            self._rest = None

    async def _stop_grpc(self, seconds: float) -> None:
        if self._grpc is not None:
            await self._grpc.stop(seconds)
            self._grpc = None


def check_installed(options: ServerOptions) -> None:
    """Say which package is missing before models are opened for minutes."""
    needed: dict[str, tuple[str, ...]] = {}
    if options.http_port is not None:
        needed["zoolens serve"] = ("starlette", "uvicorn", "httptools")
    if options.grpc_port is not None:
        needed["zoolens serve --grpc"] = ("grpc", "google.protobuf")
    for who, packages in needed.items():
        for package in packages:
            try:
                import_module(package)
            except ImportError as error:
                raise MissingDependency(who, package, "serve") from error


async def stop_signal() -> None:
    """Wait for SIGTERM or SIGINT. A second one then ends the process at once, in the middle of draining."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    handled = []
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):  # Windows raises KeyboardInterrupt instead
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


def quiet_server(uvicorn: Any) -> Any:
    """The class of a uvicorn server that leaves signals to us."""

    class Quiet(uvicorn.Server):  # type: ignore[misc]
        """Signals are ours: uvicorn would end the process before the data plane has drained."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    return Quiet


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound to this address; a sentence says why it cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise _cannot_listen(host, port, error) from error
    return listening


def _cannot_listen(host: str, port: int, error: Exception) -> ZoolensError:
    reason = getattr(error, "strerror", None) or str(error)
    return ZoolensError(
        f"The server cannot listen on {address(host, port)}: {reason}.",
        hint="Choose another port; 0 takes a free one.",
    )


def address(host: str, port: int) -> str:
    """Host and port as they are written in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _tls_context(options: ServerOptions) -> ssl.SSLContext:
    assert options.tls is not None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(options.tls.certificate, options.tls.key)
    except (ssl.SSLError, OSError) as error:
        raise ZoolensError(f"The certificate {options.tls.certificate} and its key cannot be used: {error}.") from error
    return context
