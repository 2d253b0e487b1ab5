"""What passes between zoolens and a worker process: JSON lines over a pipe, tensors through shared memory.

Imported on both sides, so numpy and the standard library only. The shared memory is an anonymous file that
both processes hold open: it has no name that could be left behind, whichever of the two dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import mmap
import os
import select
import tempfile
import time
from collections.abc import Mapping, Sequence
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.base.safety.untrusted import parse_json

_ALIGNMENT = 64  # a cache line, and what the vector units of today want
_SMALLEST = 1 << 16
_NUMERIC = "biufc"
_PIECE = 1 << 12  # bytes that are read at once: most messages are short
_LONG_PIECE = 1 << 16  # of a message that is longer
_LONGEST_MESSAGE = 1 << 28  # bytes; the largest graphs have some ten million

Tensor = NDArray[Any]
Tensors = dict[str, Tensor]
Shape = tuple[str, np.dtype[Any], tuple[int, ...]]  # a tensor's name, type and extents
Layout = list[dict[str, Any]]  # name, dtype, shape, offset of every tensor in an arena


class Arena:
    """Memory shared by two processes, of which one writes. Grown by the writer, mapped again by the reader.

    `read` gives views, valid until the writer writes again. What is written or read again and again in the same shapes
    is laid out once: `write` then gives the same layout object, and `read` of the same object gives the same views.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._map: mmap.mmap | None = None
        self._written: tuple[list[Shape], Layout, list[Tensor], list[slice]] | None = None
        self._read: tuple[Sequence[Mapping[str, Any]], Tensors, int | None] | None = None

    @classmethod
    def create(cls) -> Arena:
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("zoolens-tensors", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            # A worker that was taken over could cut it short while we read, which would end our process, or add a seal
            # of its own that makes our next write fail.
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
            return cls(descriptor)
        with tempfile.TemporaryFile() as file:
            return cls(os.dup(file.fileno()))

    def write(self, tensors: Mapping[str, Tensor]) -> Layout:
        shapes = [(name, tensor.dtype, tensor.shape) for name, tensor in tensors.items()]
        layout, views, spans = self._laid_out(shapes)
        for view, span, tensor in zip(views, spans, tensors.values(), strict=True):
            # Bytes are copied quicker than small arrays.
            if tensor.flags.c_contiguous and self._map is not None:
                self._map[span] = tensor  # type: ignore[call-overload]
            else:
                np.copyto(view, tensor)
        return layout

    def write_rows(self, parts: Sequence[Mapping[str, Tensor]]) -> Layout:
        """Write the tensors of several parts, those of one name below each other. Their other dimensions are equal."""
        if len(parts) == 1:
            return self.write(parts[0])
        shapes = [
            (name, first.dtype, (sum(len(part[name]) for part in parts), *first.shape[1:]))
            for name, first in parts[0].items()
        ]
        layout, views, _ = self._laid_out(shapes)
        for (name, _, _), view in zip(shapes, views, strict=True):
            start = 0
            for part in parts:
                rows = part[name]
                np.copyto(view[start : start + len(rows)], rows)
                start += len(rows)
        return layout

    def _laid_out(self, shapes: list[Shape]) -> tuple[Layout, list[Tensor], list[slice]]:
        """The layout of tensors of these shapes, views of their places, and which bytes those are."""
        if self._written is None or self._written[0] != shapes:
            layout = self._lay_out(shapes)
            views = [self._view(place) for place in layout]
            starts = [place["offset"] for place in layout]
            spans = [slice(start, start + view.nbytes) for start, view in zip(starts, views, strict=True)]
            self._written = shapes, layout, views, spans
        return self._written[1:]

    def _lay_out(self, shapes: list[Shape]) -> Layout:
        layout: Layout = []
        end = 0
        for name, dtype, shape in shapes:
            if dtype.kind not in _NUMERIC:
                raise ModelError(
                    f"Tensor {name!r} holds {dtype.name} values, and only numbers pass to an isolated runtime."
                )
            offset = -(-end // _ALIGNMENT) * _ALIGNMENT
            end = offset + dtype.itemsize * math.prod(shape)
            layout.append({"name": name, "dtype": dtype.str, "shape": shape, "offset": offset})
        self._grow(end)
        return layout

    def read(self, layout: Sequence[Mapping[str, Any]], limit: int | None = None) -> Tensors:
        """Views by name. A layout that does not fit the memory is a ValueError or a TypeError, more than `limit` bytes
        are a ValueError."""
        if self._read is not None and self._read[0] is layout and self._read[2] == limit:
            return self._read[1]
        size = os.fstat(self.descriptor).st_size
        if self._map is None or len(self._map) != size:
            self._map = mmap.mmap(self.descriptor, size)
        views = {str(place["name"]): self._view(place) for place in layout}
        total = sum(view.nbytes for view in views.values())
        if total > size:
            # Views cost nothing, but a thousand copies of all the shared memory would not fit into ours.
            raise ValueError("tensors that overlap")
        if limit is not None and total > limit:
            raise ValueError(f"tensors of more than {limit:,} bytes")
        self._read = layout, views, limit
        return views

    def close(self) -> None:
        self._map = self._written = self._read = None  # unmapped when the last view is gone
        if self.descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(self.descriptor)
        self.descriptor = -1

    def _grow(self, wanted: int) -> None:
        if self._map is None or len(self._map) < wanted:
            # A power of two: batches that grow little by little would otherwise map the memory again each time.
            size = max(_SMALLEST, 1 << (wanted - 1).bit_length() if wanted else 0)
            os.ftruncate(self.descriptor, size)
            self._map = mmap.mmap(self.descriptor, size)

    def _view(self, place: Mapping[str, Any]) -> Tensor:
        dtype, extents, offset = _placed(place)
        return np.ndarray(extents, dtype, buffer=self._map, offset=offset)


class Channel:
    """One JSON object a line, over two pipe ends. `receive`: EOFError when the other side is gone."""

    def __init__(self, reading: int, writing: int) -> None:
        self.reading = reading
        self.writing = writing
        self._buffer = bytearray()

    def send(self, message: Mapping[str, Any]) -> None:
        self.send_line(encoded(message) + b"\n")

    def send_line(self, line: bytes) -> None:
        """Send a message that is encoded already, with its line feed."""
        sent = os.write(self.writing, line)
        while sent < len(line):
            sent += os.write(self.writing, memoryview(line)[sent:])

    def receive(self, timeout: float | None = None) -> dict[str, Any]:
        return decoded(self.receive_line(timeout))

    def receive_line(self, timeout: float | None = None) -> bytes:
        """The next message as it was sent, without its line feed."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if b"\n" in self._buffer:
            return self._first()
        while True:
            if deadline is not None:
                self._wait(deadline)
            line = self.line_arrived()
            if line is not None:
                return line

    def line_arrived(self) -> bytes | None:
        """For event loops: reads once what has arrived. None: the message has not arrived in full."""
        piece = os.read(self.reading, _LONG_PIECE if self._buffer else _PIECE)
        if not self._buffer and piece.find(b"\n") == len(piece) - 1 >= 0:  # one whole message, as nearly always
            return piece[:-1]
        self._take(piece)
        return self._first() if b"\n" in self._buffer else None

    def _take(self, piece: bytes) -> None:
        if not piece:
            raise EOFError
        self._buffer += piece
        if len(self._buffer) > _LONGEST_MESSAGE:
            raise ValueError("a message must end")

    def _first(self) -> bytes:
        line, _, rest = self._buffer.partition(b"\n")
        self._buffer = rest
        return bytes(line)

    def close(self) -> None:
        for descriptor in (self.reading, self.writing):
            if descriptor >= 0:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        self.reading = self.writing = -1

    def _wait(self, deadline: float) -> None:
        poll = select.poll()
        poll.register(self.reading, select.POLLIN)
        if not poll.poll(max(0, int((deadline - time.monotonic()) * 1000))):
            raise TimeoutError


def encoded(message: Any) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def decoded(line: bytes) -> dict[str, Any]:
    """Returns the message of a line; ValueError if it is not one."""
    message = parse_json(line)
    if not isinstance(message, dict):
        raise ValueError("a message must be an object")  # noqa: TRY004 - same kind as broken JSON
    return message


def _placed(place: Mapping[str, Any]) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Type, shape and offset of a tensor, once they are possible ones."""
    dtype = np.dtype(place["dtype"])
    extents, offset = tuple(map(index, place["shape"])), index(place["offset"])
    if dtype.kind not in _NUMERIC:
        raise ValueError(f"a tensor of type {dtype} cannot be shared")
    # numpy would read what lies before the memory.
    if offset < 0 or any(extent < 0 for extent in extents):
        raise ValueError("a tensor cannot begin before the memory")
    return dtype, extents, offset
