"""How much a Parquet file unpacks to, by its pages' own headers.

The footer itself is looked at first: pyarrow ends the whole process where a column's statistics do not fit its type.
The footer of a stranger's file may say that a column has one value, and its page unpack to thousands of millions: runs
of the same value take no room. Readers believe the page, so it is asked here before any reader is let near it. Headers
are Thrift structs in the compact protocol.
"""

from __future__ import annotations

import mmap
import struct
from typing import Any, Final

import pyarrow.parquet as pq

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 12
_UNPACKED, _PACKED = 2, 3  # sizes of a page
_KINDS: Final = (5, 7, 8)  # data page, dictionary, data page of version 2; the first field of each counts its values
_DEEPEST: Final = 10
_ROW_GROUPS, _COLUMNS, _COLUMN, _SIZES = 4, 1, 3, 16  # fields that lead to the sizes of a column in the footer
_TEXT_BYTES, _REPETITIONS, _DEFINITIONS = 1, 2, 3  # fields of those

Content = bytes | mmap.mmap


def check_footer(schema: pq.ParquetSchema, content: Content) -> None:
    """ValueError unless the sizes that the footer gives for each column fit the column's type.

    Must come before the first `RowGroupMetaData.column`, which would end the process instead.
    """
    length = struct.unpack("<I", content[-8:-4])[0]
    if length + 12 > len(content):
        raise ValueError("its footer lies outside the file")
    footer = _Header(content, len(content) - 8 - length).struct()
    for group in _structs(footer.get(_ROW_GROUPS)):
        columns = _structs(group.get(_COLUMNS))
        if len(columns) != len(schema):
            raise ValueError("a row group has other columns than the file")
        for place, chunk in enumerate(columns):
            (column,) = _structs([chunk.get(_COLUMN)])
            _check_sizes(schema.column(place), column.get(_SIZES))


def _check_sizes(leaf: Any, sizes: Any) -> None:
    if sizes is None:
        return
    (sizes,) = _structs([sizes])
    # pyarrow ends the process when a column with such sizes is asked for.
    levels = {_REPETITIONS: leaf.max_repetition_level, _DEFINITIONS: leaf.max_definition_level}
    for field, most in levels.items():
        counts = sizes.get(field, [])
        if not isinstance(counts, list) or len(counts) not in (0, most + 1):
            raise ValueError("the sizes of a column do not fit its type")
    if _TEXT_BYTES in sizes and leaf.physical_type != "BYTE_ARRAY":
        raise ValueError("the sizes of a column do not fit its type")


def _structs(value: Any) -> list[dict[int, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError("its footer cannot be read")
    return value


def column_extent(group: pq.RowGroupMetaData, place: int, content: Content) -> tuple[int, int]:
    """Values and unpacked bytes of one column of a row group."""
    column = group.column(place)
    # Else no page is opened.
    counted, unpacked = _pages(column, content) if group.num_rows else (0, 0)
    return max(group.num_rows, column.num_values, counted), unpacked


def _pages(column: pq.ColumnChunkMetaData, content: Content) -> tuple[int, int]:
    """Values and unpacked bytes of the pages of a column."""
    starts = [column.data_page_offset]
    if column.has_dictionary_page and column.dictionary_page_offset:
        starts.append(column.dictionary_page_offset)
    place, end = min(starts), min(starts) + column.total_compressed_size
    if not 0 <= place <= end <= len(content):
        raise ValueError("a column lies outside the file")
    values = size = 0
    while place < end:
        header = _Header(content, place)
        fields = header.struct()
        counts = [fields[kind][1] for kind in _KINDS if isinstance(fields.get(kind), dict) and 1 in fields[kind]]
        sizes = fields.get(_UNPACKED), fields.get(_PACKED)
        if not all(isinstance(number, int) and number >= 0 for number in (*counts, *sizes)):
            raise ValueError("a page has no size")
        values += sum(counts)
        size += fields[_UNPACKED]
        place = header.place + fields[_PACKED]
    return values, size


class _Header:
    """Reads one struct; `place` is then behind it."""

    def __init__(self, content: Content, place: int) -> None:
        self._content, self.place = content, place

    def struct(self, depth: int = 0) -> dict[int, Any]:
        if depth > _DEEPEST:
            raise ValueError("the header of a page is nested too deeply")
        fields: dict[int, Any] = {}
        field = 0
        while kind := self._byte():
            step, kind = kind >> 4, kind & 15
            field = field + step if step else self._number()
            fields[field] = self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind in (_I16, _I32, _I64):
            return self._number()
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind == _BINARY:
            length = self._unsigned()
            self.place += length
        elif kind == _LIST:
            return self._list(depth + 1)
        elif kind in (_BYTE, _DOUBLE):
            self.place += 1 if kind == _BYTE else 8
        else:
            raise ValueError("the header of a page cannot be read")
        return None

    def _list(self, depth: int) -> list[Any]:
        if depth > _DEEPEST:
            raise ValueError("the header of a page is nested too deeply")
        head = self._byte()
        count, kind = head >> 4, head & 15
        count = self._unsigned() if count == 15 else count
        if count > len(self._content) - self.place:  # each takes at least a byte
            raise ValueError("a list is longer than the file")
        if kind in (_TRUE, _FALSE):
            return [self._byte() == _TRUE for _ in range(count)]
        return [self._value(kind, depth) for _ in range(count)]

    def _number(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)

    def _unsigned(self) -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
        raise ValueError("the header of a page cannot be read")

    def _byte(self) -> int:
        if self.place >= len(self._content):
            raise ValueError("the file ends within a page")
        self.place += 1
        return self._content[self.place - 1]
