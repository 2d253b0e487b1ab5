"""What REST and gRPC have in common around a request: its deadline, its trace, its headers, who answered it, and
what is said of errors that nobody foresaw."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from zoolens.base.errors import ZoolensError
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.limits import invalid
from zoolens.base.protocol.messages import Parameter
from zoolens.base.protocol.rest import Caller

log = logging.getLogger("zoolens.serving")

TIMEOUT_HEADER: Final = "zoolens-timeout-ms"
_TRACEPARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_LONGEST_TRACEPARENT: Final = 512  # characters; version 00 has 55, later versions may append fields
_NUMBER: Final = re.compile(r"\d{1,12}(\.\d{1,9})?", re.ASCII)
_SECRET: Final = frozenset({"authorization", "cookie", "proxy-authorization"})


def caller(headers: Mapping[str, str], remaining: float | None = None) -> Caller:
    """What the headers or the metadata of a request say of it; their names are in small letters.

    `remaining` is the deadline of the call itself. The earliest of all deadlines counts.
    """
    own = Caller(_timeout(headers))
    public = {name: value for name, value in headers.items() if name not in _SECRET}
    return Caller(own.deadline(remaining), traceparent(headers), public)


def traceparent(headers: Mapping[str, str]) -> str | None:
    """The W3C trace context of a request; one that is not well formed is ignored, as the recommendation says."""
    value = headers.get("traceparent", "")
    if len(value) > _LONGEST_TRACEPARENT or not _TRACEPARENT.fullmatch(value):
        return None
    return value


def answered_by(parameters: Mapping[str, Parameter]) -> Mapping[str, str]:
    """Headers that say which model answered: the response parameters whose names begin with zoolens_."""
    return _answered_by(tuple(parameters.items()), tuple(map(type, parameters.values())))


@lru_cache(512)
def _answered_by(
    parameters: tuple[tuple[str, Parameter], ...],
    _types: tuple[type, ...],  # True and 1 are equal, but written differently
) -> Mapping[str, str]:
    ours = [(name, value) for name, value in parameters if name.startswith("zoolens_")]
    return {name.replace("_", "-"): _header_value(value) for name, value in ours}


def unforeseen(error: Exception) -> ServingError:
    """What a client is told when something went wrong that nobody foresaw; the log has the rest."""
    if isinstance(error, ZoolensError):
        log.error("A request failed: %s", error)
        # The hint may have paths, or what a model has printed.
        return ServingError(Refusal.INTERNAL, error.message)
    log.error("A request failed unexpectedly.", exc_info=error)
    return ServingError(Refusal.INTERNAL, "The server failed unexpectedly; its log says more.")


def _timeout(headers: Mapping[str, str]) -> float | None:
    value = headers.get(TIMEOUT_HEADER)
    if value is None:
        return None
    if not _NUMBER.fullmatch(value) or not float(value):
        raise invalid(f"The header {TIMEOUT_HEADER} must be a number of milliseconds above 0.")
    return float(value) / 1000


def _header_value(value: object) -> str:
    text = str(value)
    if isinstance(value, bool):
        text = text.lower()
    if text.isascii() and text.isprintable():
        return text
    return quote(text)
