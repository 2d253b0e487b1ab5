"""Arrow's IPC files of strangers, mapped into memory: record batches are read where they lie, and never unpacked."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from zoolens.base.safety.untrusted import Refused, size_of

_MAGIC: Final = b"ARROW1\0\0"  # of the form with a footer, which has the same messages behind it
_SCHEMA: Final = "schema"
_BATCH: Final = "record batch"
_HEADER: Final = 2  # place of the batch in a message
_COMPRESSION: Final = 3  # place in a batch


class ArrowFile:
    """The record batches of one file, by the names that pyarrow's reader of Parquet gives to its row groups. Refused,
    or an exception of Arrow, where the file is damaged, compressed or has dictionaries."""

    def __init__(self, path: Path) -> None:
        size_of(path)
        self._source = pa.memory_map(str(path))
        if self._source.read(len(_MAGIC)) != _MAGIC:
            self._source.seek(0)
        messages = pa.ipc.MessageReader.open_stream(self._source)
        first = next(iter(messages), None)
        # pyarrow 26 takes any first message for a schema: one of another type ends the process.
        if first is None or first.type != _SCHEMA:
            raise Refused("it does not begin with a schema")
        self.schema_arrow: Any = pa.ipc.read_schema(first)
        # Names that are no UTF-8 are only found when they are asked for.
        self.names: list[str] = self.schema_arrow.names
        self._batches = []
        for message in messages:
            if message.type != _BATCH:
                raise Refused(f"it has a {message.type}, which is not read; write columns without dictionaries")
            if _is_compressed(message.metadata.to_pybytes()):
                raise Refused("its batches are compressed, and only plain ones are read in place")
            self._batches.append(pa.ipc.read_record_batch(message, self.schema_arrow))

    @property
    def num_row_groups(self) -> int:
        return len(self._batches)

    def rows(self, group: int) -> int:
        return int(self._batches[group].num_rows)

    def read_row_group(self, group: int, columns: list[str]) -> Any:
        return pa.Table.from_batches([self._batches[group].select(columns)])

    def read(self, columns: list[str]) -> Any:
        schema = pa.schema([self.schema_arrow.field(name) for name in columns])
        return pa.Table.from_batches([batch.select(columns) for batch in self._batches], schema)

    def close(self) -> None:
        self._batches.clear()
        self._source.close()


def _is_compressed(message: bytes) -> bool:
    """Whether a batch says how its buffers are packed; pyarrow would unpack them to whatever size they claim."""
    try:
        (root,) = struct.unpack_from("<I", message)
        header = _field(message, root, _HEADER)
        if header is None:
            raise Refused("it is damaged")
        (batch,) = struct.unpack_from("<I", message, header)
        return _field(message, header + batch, _COMPRESSION) is not None
    except struct.error as error:
        raise Refused("it is damaged") from error


def _field(message: bytes, table: int, number: int) -> int | None:
    """Where a field of a table of FlatBuffers lies; None: it is left out."""
    (back,) = struct.unpack_from("<i", message, table)
    fields = table - back
    if fields < 0:
        raise Refused("it is damaged")
    (size,) = struct.unpack_from("<H", message, fields)
    place = 4 + 2 * number
    if place >= size:
        return None
    (offset,) = struct.unpack_from("<H", message, fields + place)
    return table + offset if offset else None
