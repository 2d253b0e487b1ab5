"""A limit on the memory of all models that is written in a file and may change, such as a control group's."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zoolens.serving.services.events import Event, Recorder

if TYPE_CHECKING:
    from zoolens.serving.plane.data_plane import Plane

_EVERY: Final = 0.5  # seconds


def read_memory_limit(path: Path) -> int | None:
    """The bytes that the file names; None where it says "max", names none, or cannot be read."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() and int(text) > 0 else None


async def follow_memory_limit(plane: Plane, file: str, events: Recorder, service: str) -> None:
    """Give the plane the limit of the file whenever it has changed."""
    path = Path(file)
    own = plane.pool.memory_limit
    known = None
    while True:
        limit = read_memory_limit(path)
        if limit != known:
            known = limit
            limits = [some for some in (own, limit) if some is not None]
            plane.pool.limit_memory(min(limits) if limits else None)
            words = "no limit" if limit is None else f"{limit / 1e6:,.0f} MB"
            events.record(service, Event("memory", f"{path.name} gives all models {words}."))
        await asyncio.sleep(_EVERY)
