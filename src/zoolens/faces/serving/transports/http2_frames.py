"""Frames of HTTP/2 (RFC 9113): their kinds, flags and errors, and how they are written."""

from __future__ import annotations

import struct
from typing import Final

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)

# Flags
END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
WITH_PRIORITY: Final = 0x20

# Errors
NO_ERROR: Final = 0
PROTOCOL_ERROR: Final = 1
FLOW_CONTROL_ERROR: Final = 3
STREAM_CLOSED: Final = 5
FRAME_SIZE_ERROR: Final = 6
REFUSED_STREAM: Final = 7
CANCEL: Final = 8
COMPRESSION_ERROR: Final = 9
ENHANCE_YOUR_CALM: Final = 11

# Settings
HEADER_TABLE_SIZE: Final = 1
MAX_CONCURRENT_STREAMS: Final = 3
INITIAL_WINDOW_SIZE: Final = 4
MAX_FRAME_SIZE: Final = 5
MAX_HEADER_LIST_SIZE: Final = 6

GREETING: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME: Final = struct.Struct(">BHBBL")  # length in 24 bits, kind, flags, number of the stream
SETTING: Final = struct.Struct(">HL")
NUMBER: Final = struct.Struct(">L")
PRIORITY_BYTES: Final = 5
MOST_WINDOW: Final = (1 << 31) - 1
FIRST_WINDOW: Final = (1 << 16) - 1  # of both sides, until they say something else
FIRST_FRAME: Final = 1 << 14


class BrokenRule(Exception):
    """The client breaks the rules in a way after which its connection cannot be read any further."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def frame(kind: int, flags: int, number: int, payload: bytes = b"") -> bytes:
    return frame_head(kind, flags, number, len(payload)) + payload


def frame_head(kind: int, flags: int, number: int, size: int) -> bytes:
    return FRAME.pack(size >> 16, size & 0xFFFF, kind, flags, number)


def unpadded(flags: int, payload: bytes) -> bytes:
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise BrokenRule(PROTOCOL_ERROR, "a frame is nothing but padding")
    return payload[1 : len(payload) - payload[0]]
