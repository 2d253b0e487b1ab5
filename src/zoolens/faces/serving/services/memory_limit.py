"""A limit on the memory of all models that is written in a file and may change, such as a control group's."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zoolens.base.errors import ZoolensError
from zoolens.base.safety.untrusted import read_text
from zoolens.faces.serving.services.definition import ServiceError
from zoolens.faces.serving.services.events import EventKind, EventRecorder, ServiceEvent

if TYPE_CHECKING:
    from zoolens.faces.serving.plane.data_plane import Plane

_EVERY: Final = 0.5  # seconds
_LONGEST: Final = 100  # bytes of the file
_NO_LIMIT: Final = "max"  # as control groups write it

log = logging.getLogger("zoolens.serving")


def read_memory_limit(path: Path) -> int | None:
    """The bytes that the file names; None where it says "max". A ServiceError where it says nothing of the kind."""
    try:
        text = read_text(path, _LONGEST).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not text"
        raise ServiceError(f"The memory limit cannot be read from {path}: {reason}.") from error
    if text == _NO_LIMIT:
        return None
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise ServiceError(
            f"{path} holds no memory limit: {text[:40]!r}.", hint="Write a whole number of bytes, or max for no limit."
        )
    return int(text)


async def follow_memory_limit(plane: Plane, file: str, events: EventRecorder, service: str) -> None:
    """Give the plane the limit of the file whenever it has changed, as long as the task runs. While the file says
    nothing that can be understood, for it may be half written, the limit that it said last holds."""
    source, path = f"service {service}", Path(file)
    last_sentence = unlimited = f"{path.name} sets no limit for all models."
    try:
        while True:
            try:
                limit = await asyncio.to_thread(read_memory_limit, path)
            except ZoolensError as error:
                sentence = f"{error.message} What it said last still holds."
            else:
                plane.pool.limit_memory(limit, source)
                sentence = unlimited if limit is None else f"{path.name} limits all models to {limit / 1e6:,.0f} MB."
            if sentence != last_sentence:
                last_sentence = sentence
                log.info("service %s: %s", service, sentence)
                events.record(service, ServiceEvent(EventKind.MEMORY, sentence))
            await asyncio.sleep(_EVERY)
    finally:
        plane.pool.limit_memory(None, source)
