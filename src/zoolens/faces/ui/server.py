"""The server of the explorer: from the port to the last answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from zoolens.faces.serving.transports.web_server import WebServer, address, check_packages, listen
from zoolens.faces.ui.read_ahead import open_runs, reading_figures
from zoolens.faces.ui.settings import Settings

_NEEDED: Final = ("starlette", "uvicorn")
_DRAIN: Final = 2  # seconds for answers that are being sent when the server ends


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[str]:
    """Answer inside; gives the address of the explorer, without the token."""
    check_packages(_NEEDED, "zoolens ui", "ui")
    with open_runs(settings) as index:
        # A second of imports, in which the store is read.
        from zoolens.faces.ui.app import create_app
        from zoolens.faces.ui.context import open_context

        with (
            open_context(settings, index) as context,
            listen(settings.host, settings.port) as listening,
            reading_figures(index),
        ):
            server = WebServer(create_app(context), timeout_graceful_shutdown=_DRAIN)
            try:
                yield f"http://{address(settings.host, await server.start(listening))}/"
            finally:
                await server.stop()
