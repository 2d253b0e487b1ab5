"""The header `traceparent` of the W3C: which trace a piece of work belongs to, and which span called it."""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass
from typing import Final

from zoolens.base.errors import ZoolensError

VARIABLE: Final = "TRACEPARENT"  # in which a process that starts another one hands the header on
_HEADER: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


@dataclass(frozen=True)
class TraceContext:
    """`trace_id` has 32 hexadecimal digits. `parent` is the number of the span that called; None: nobody did."""

    trace_id: str
    parent: int | None = None

    @property
    def header(self) -> str:
        """The header that hands this context on; a context without a caller has none that would be valid."""
        return f"00-{self.trace_id}-{self.parent or 0:016x}-01"


def new_context() -> TraceContext:
    return TraceContext(secrets.token_hex(16))


def new_span_id() -> int:
    """A number that no other span has: 64 bits, never 0."""
    return secrets.randbits(64) or 1


def parse_traceparent(header: str) -> TraceContext:
    """The context that a header names; ZoolensError where it is none."""
    match = _HEADER.fullmatch(header.strip().lower())
    wrong = match is None or match[1] == "ff" or not int(match[2], 16) or not int(match[3], 16)
    if match is None or wrong or (match[1] == "00" and match[5]):
        raise ZoolensError(
            f"{header[:80]!r} is not a traceparent.",
            hint="Write 00-<32 hexadecimal digits>-<16 hexadecimal digits>-01, neither of them all zeros.",
        )
    return TraceContext(match[2], int(match[3], 16))


def inherited_context(header: str | None = None) -> TraceContext:
    """The context of a header that was given, else of the variable TRACEPARENT, else a new one.

    A header that was given and is wrong is an error. A variable that is wrong is left alone, as the W3C asks: whoever
    set it did not mean us.
    """
    if header is not None:
        return parse_traceparent(header)
    try:
        return parse_traceparent(os.environ[VARIABLE])
    except (KeyError, ZoolensError):
        return new_context()
