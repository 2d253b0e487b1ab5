"""The one line that `zoolens serve` keeps up to date on a terminal: rate, latency, queue, and who answers."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TextIO

from zoolens.base.present.figures import NOTHING, figure
from zoolens.base.present.text import clean
from zoolens.inventory.catalog.names import bare

if TYPE_CHECKING:
    from zoolens.faces.serving.monitoring.metrics import PlaneMetrics, Recent

EVERY: Final = 1.0  # seconds
_SHOWN: Final = 3  # endpoints that are named


def live_line(metrics: PlaneMetrics) -> str:
    """The state of a server in one line, over the last ten seconds."""
    endpoints = metrics.plane.endpoints if metrics.plane is not None else []
    parts = recent_parts(metrics.recent())
    parts.append(f"queue {sum(endpoint.queue.requests for endpoint in endpoints):,}")
    for endpoint in endpoints[:_SHOWN]:
        part = endpoint.name
        if endpoint.service:
            place = min(endpoint.current, len(endpoint.rungs) - 1)
            part = f"{part}: {bare(endpoint.rungs[place].rung.model)}"
        switches = metrics.switches(endpoint.name)
        if switches:
            part = f"{part} ({switches:,} switches)"
        parts.append(part)
    if len(endpoints) > _SHOWN:
        parts.append(f"and {len(endpoints) - _SHOWN:,} more")
    return clean("  ".join(parts))


def recent_parts(recent: Recent) -> list[str]:
    """Rates and latencies of the last seconds, in words."""
    return [
        f"{recent.rate:.1f} answers/s",
        *([f"{recent.refused:.1f} refused/s"] if recent.refused else []),
        f"p50 {NOTHING if recent.p50 is None else figure(recent.p50, 's')}",
        f"p99 {NOTHING if recent.p99 is None else figure(recent.p99, 's')}",
    ]


async def show_live_line(line: Callable[[], str], stream: TextIO | None = None) -> None:
    """Rewrite the line every second until it is cancelled; on what is no terminal nothing is written."""
    stream = stream or sys.stderr
    if not stream.isatty():
        return
    try:
        while True:
            width = shutil.get_terminal_size().columns
            stream.write(f"\r\x1b[K{line()[: width - 1]}")
            stream.flush()
            await asyncio.sleep(EVERY)
    finally:
        stream.write("\r\x1b[K")
        stream.flush()
