"""Logs of a server: sentences for people, or one JSON object a line for machines."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from zoolens.faces.serving.contracts.observer import BatchReport

if TYPE_CHECKING:
    from zoolens.base.protocol.messages import InferRequest

Format = Literal["text", "json"]
LOGGER: Final = "zoolens"
FIELDS: Final = "fields"  # in the extra of a record: what a machine wants to know besides the sentence

log = logging.getLogger("zoolens.serving")


class JsonLines(logging.Formatter):
    """One object a line: time (UTC, ISO 8601), level, logger, message, and the fields of the event."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S")


@contextmanager
def logging_to_stderr(log_format: Format = "text", level: str = "info") -> Iterator[None]:
    """Write what the server logs, and warnings of the libraries below it, to the error stream, as long as the block
    lasts."""
    logger, libraries, handler = logging.getLogger(LOGGER), logging.getLogger(), logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if log_format == "json" else TextLines())
    handler.setLevel(level.upper())
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False
    libraries.addHandler(handler)
    try:
        yield
    finally:
        libraries.removeHandler(handler)
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


def writes_json() -> bool:
    """Whether the error stream holds nothing but lines of JSON."""
    return any(isinstance(handler.formatter, JsonLines) for handler in logging.getLogger(LOGGER).handlers)


class LogObserver:
    """Logs every switch, and at the level debug every batch and every refusal."""

    def answered(self, report: BatchReport) -> None:
        model = report.answered_by.model if report.answered_by is not None else ""
        if report.free and report.rung != report.previous:
            fields = {"event": "switch", "endpoint": report.endpoint, "model": model, "waiting": report.waiting}
            log.info("%s is now answered by %s: %s", report.endpoint, model, report.reason, extra={FIELDS: fields})
        if log.isEnabledFor(logging.DEBUG):
            fields = {
                "event": "batch",
                "endpoint": report.endpoint,
                "model": model,
                "requests": len(report.requests),
                "rows": sum(report.rows),
                "queue_seconds": max(report.waited, default=0.0),
                "model_seconds": report.seconds,
                "traceparents": [request.traceparent for request in report.requests if request.traceparent],
            }
            log.debug("%s answered a batch of %d rows", report.endpoint, fields["rows"], extra={FIELDS: fields})

    def refused(self, endpoint: str, request: InferRequest, reason: str) -> None:
        if log.isEnabledFor(logging.DEBUG):
            fields = {"event": "refusal", "endpoint": endpoint, "request": request.id, "reason": reason}
            log.debug("%s refused a request: %s", endpoint, reason, extra={FIELDS: fields})
