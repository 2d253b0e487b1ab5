"""The server of the explorer: from the port to the last answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, Final

from zoolens.errors import MissingDependency
from zoolens.serving.server import address, listen, quiet_server
from zoolens.ui.context import open_context
from zoolens.ui.settings import Settings

_NEEDED: Final = ("starlette", "uvicorn")
_DRAIN: Final = 2  # seconds for answers that are being sent when the server ends


def check_installed() -> None:
    """Say which package is missing before anything is opened."""
    for package in _NEEDED:
        try:
            import_module(package)
        except ImportError as error:
            raise MissingDependency("zoolens ui", package, "ui") from error


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[str]:
    """Answer inside; gives the address of the explorer, without the token."""
    check_installed()
    import uvicorn

    from zoolens.ui.app import create_app

    with open_context(settings) as context, listen(settings.host, settings.port) as listening:
        config = uvicorn.Config(
            create_app(context),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_DRAIN,
        )
        server: Any = quiet_server(uvicorn)(config)
        task = asyncio.ensure_future(server.serve(sockets=[listening]))
        while not server.started and not task.done():
            await asyncio.sleep(0.01)
        if task.done():
            task.result()
        try:
            yield f"http://{address(settings.host, listening.getsockname()[1])}/"
        finally:
            server.should_exit = True
            await task
