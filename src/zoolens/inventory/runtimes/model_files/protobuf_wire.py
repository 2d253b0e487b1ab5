"""Protobuf's wire format, read without a schema and with every length checked: ONNX and Caffe files are made of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Buffer = memoryview
Field = tuple[int, int | Buffer]

_NO_BYTES: Final = "a number stands where a text or message belongs"
_MAX_FIELDS: Final = 1 << 20  # of one message; tensors are packed into one field


def varint(data: Buffer, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("a number is longer than 64 bits")


def fields(data: Buffer) -> Iterator[Field]:
    """(field number, integer or bytes) in file order; ValueError or IndexError where the bytes are no message."""
    at, end = 0, len(data)
    for _ in range(_MAX_FIELDS):
        if at >= end:
            return
        # Most numbers are one byte: a call for each would take half of the time.
        key = data[at]
        at += 1
        if key > 0x7F:
            key, at = varint(data, at - 1)
        kind = key & 7
        if kind == 0:
            value = data[at]
            at += 1
            if value > 0x7F:
                value, at = varint(data, at - 1)
            yield key >> 3, value
            continue
        if kind == 2:
            size = data[at]
            at += 1
            if size > 0x7F:
                size, at = varint(data, at - 1)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind} does not occur in it")
        if at + size > end:
            raise ValueError("it ends in the middle of a field")
        yield key >> 3, data[at : at + size]
        at += size
    if at < end:
        raise ValueError(f"one of its messages has more than {_MAX_FIELDS:,} fields")


def content(value: int | Buffer) -> Buffer:
    if isinstance(value, int):
        raise ValueError(_NO_BYTES)  # noqa: TRY004 - read as damage
    return value


def text(value: int | Buffer) -> str:
    if isinstance(value, int):
        raise ValueError(_NO_BYTES)  # noqa: TRY004 - read as damage
    return str(value, "utf-8")


def signed(value: int) -> int:
    """A 64-bit number as int64 reads it."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def integers(value: int | Buffer) -> list[int]:
    """One entry of a repeated int64 field: a number, or many packed together."""
    if isinstance(value, int):
        return [signed(value)]
    return [int(number) for number in packed(value)]


def packed(data: Buffer) -> NDArray[Any]:
    """Packed varints as int64, without a step of Python for each."""
    octets = np.frombuffer(data, np.uint8)
    if not octets.size:
        return np.zeros(0, np.int64)
    ends = np.flatnonzero(octets < 0x80)
    if not ends.size or ends[-1] != octets.size - 1:
        raise ValueError("it ends in the middle of a number")
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts + 1
    if lengths.max() > 10:
        raise ValueError("a number is longer than 64 bits")
    places = np.arange(octets.size) - np.repeat(starts, lengths)
    parts = (octets & 0x7F).astype(np.uint64) << (7 * places).astype(np.uint64)
    return np.add.reduceat(parts, starts).view(np.int64)


# --- writing


def encoded_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encoded_field(number: int, value: int | Buffer | bytes) -> list[Buffer | bytes]:
    """A field as `fields` gives it, in pieces to be joined. Numbers of fixed length cannot be told apart from bytes and
    must not be written with it."""
    if isinstance(value, int):
        return [encoded_varint(number << 3) + encoded_varint(value)]
    return [encoded_varint(number << 3 | 2) + encoded_varint(len(value)), value]
