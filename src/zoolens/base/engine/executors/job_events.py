"""What happens to a job that is recorded, told to the caller among its reports: where it started, and what it said.

A job is recorded where it has `RECORD`. Reports of its last moments may not arrive, so that all events come with the
answer again; whoever receives them leaves out what it has seen (`run`, `number`).
"""

from __future__ import annotations

import logging
import platform
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final
from uuid import uuid4

from zoolens.base.engine.executors.reports import Tell, nobody
from zoolens.base.safety.scrubbing import scrubbed

RECORD: Final = "record"  # of a job: what it is about, for people (`JobLedger`)
EVENT: Final = "event"  # of a message
_MOST: Final = 200  # events of one job
_LONGEST: Final = 500  # characters of a line
_LAST_FRAMES: Final = 6  # of a traceback


class JobEvents:
    """The events of one start of a job, on the machine that runs it."""

    def __init__(self, tell: Tell, node: str) -> None:
        self._tell, self._run, self._began = tell, uuid4().hex[:12], time.monotonic()
        self.told: list[dict[str, Any]] = []
        self._add({"started": {"host": platform.node(), "node": node}})

    def say(self, text: str) -> None:
        for line in scrubbed(text).splitlines():
            if len(self.told) < _MOST and line.strip():
                self._add({"line": line[:_LONGEST]})

    def end(self) -> None:
        # It comes with the answer: a message of its own would cost a cluster a call for each job.
        self._add({"seconds": time.monotonic() - self._began}, nobody)

    def _add(self, content: Mapping[str, Any], tell: Tell | None = None) -> None:
        event = {**content, "run": self._run, "number": len(self.told)}
        self.told.append(event)
        (tell or self._tell)({EVENT: event})


_events: ContextVar[JobEvents | None] = ContextVar("zoolens_job_events", default=None)


class _Warnings(logging.Handler):
    """Hands warnings of the job's thread on."""

    def emit(self, record: logging.LogRecord) -> None:
        events = _events.get()
        if events is not None:
            events.say(f"{record.levelname.lower()}: {record.getMessage()}")
        # Python itself prints warnings only where nobody else handles them, and this process may be the user's own.
        if logging.lastResort is not None and _nobody_else(record.name):
            logging.lastResort.handle(record)


_handler: Final = _Warnings(logging.WARNING)


def _nobody_else(name: str) -> bool:
    """Whether a record of this logger has no other handler than ours."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        if any(handler is not _handler for handler in logger.handlers):
            return False
        logger = logger.parent if logger.propagate else None
    return True


@contextmanager
def recorded_events(job: Mapping[str, Any], tell: Tell | None, node: str = "") -> Iterator[JobEvents | None]:
    """Tells the events of a job that is recorded; None for others."""
    if RECORD not in job:
        yield None
        return
    logging.getLogger().addHandler(_handler)  # it is there once, however often it is added
    events = JobEvents(tell or nobody, node)
    before = _events.set(events)
    try:
        yield events
    finally:
        _events.reset(before)
        events.end()


def say_where_it_failed() -> None:
    """Puts the end of the traceback of the current exception into the job's log."""
    events = _events.get()
    if events is not None:
        events.say("".join(traceback.format_exc(limit=-_LAST_FRAMES)))


def lost_event(reason: BaseException, pause: float) -> dict[str, Any]:
    """Its caller says that a job's machine was lost, and that it is given out again after so many seconds."""
    return {EVENT: {"lost": str(reason), "pause": pause, "run": "", "number": 0}}
