"""A dictionary-encoded column: its few different values, and for each row the code of its value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from zoolens.findings.index.tables.array_file import packed_texts, unpacked_texts
from zoolens.findings.index.tables.rows import Attribute

Codes = NDArray[np.signedinteger[Any]]  # as few bytes as they need


class DictionaryColumn:
    """`values` are the different values, `codes` which of them each row has (−1: none)."""

    def __init__(self, values: Sequence[Attribute] | NDArray[np.uint8], codes: Codes) -> None:
        self._given = values  # packed, as it lies in a file, until somebody looks
        self.codes = codes

    @cached_property
    def values(self) -> tuple[Attribute, ...]:
        return tuple(unpacked_texts(self._given) if isinstance(self._given, np.ndarray) else self._given)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> Attribute | None:
        code = self.codes.item(row)
        return None if code < 0 else self.values[code]

    def to_list(self) -> list[Any]:
        """The value of every row; None where a row has no value."""
        values = [*self.values, None]  # code −1 takes the last
        return [values[code] for code in self.codes.tolist()]

    def packed(self) -> NDArray[np.uint8]:
        return self._given if isinstance(self._given, np.ndarray) else packed_texts(self._given)

    def rows_where(self, holds: Sequence[bool]) -> NDArray[np.bool_]:
        """The rows whose value is one of those that are marked."""
        return np.asarray([*holds, False], np.bool_)[self.codes]

    def rows_among(self, wanted: Iterable[Attribute]) -> NDArray[np.bool_]:
        chosen = frozenset(wanted)
        return self.rows_where([value in chosen for value in self.values])

    def take(self, rows: NDArray[np.int64]) -> DictionaryColumn:
        """The column of the given rows, with only the values that occur in them."""
        codes = self.codes[rows]
        used = np.zeros(len(self.values) + 1, np.bool_)
        used[codes] = True
        if used[:-1].all():
            return DictionaryColumn(self._given, codes)
        number = int(used[:-1].sum())
        renumbered = np.full(len(used), -1, code_type(number))  # the last stays −1
        renumbered[:-1][used[:-1]] = np.arange(number)
        values = [value for value, is_used in zip(self.values, used[:-1].tolist(), strict=True) if is_used]
        return DictionaryColumn(values, renumbered[codes])


def dictionary_column(values: Iterable[Attribute | None], n: int) -> DictionaryColumn:
    keys = _keys(list(values))
    numbers = _numbers(keys)
    different = _values(numbers)
    codes = np.fromiter(map(numbers.__getitem__, keys), code_type(len(different)), count=n)
    return DictionaryColumn(different, codes)


# What tells values apart. Text by itself, the rest with its type: True == 1 == 1.0.
_Key = str | tuple[type, Attribute] | None


def _keys(values: Sequence[Attribute | None]) -> Sequence[_Key]:
    """The key of each value. Nearly every column has text alone, and is not looked at value by value."""
    if set(map(type, values)) <= {str, type(None)}:
        return cast("Sequence[_Key]", values)
    return [value if value is None or isinstance(value, str) else (type(value), value) for value in values]


def _numbers(keys: Iterable[_Key]) -> dict[_Key, int]:
    """The number of each key, in the order in which they come; −1 for None."""
    different = dict.fromkeys(keys)
    different.pop(None, None)
    return {**dict(zip(different, range(len(different)), strict=True)), None: -1}


def _values(numbers: Iterable[_Key]) -> tuple[Attribute, ...]:
    return tuple(key[1] if isinstance(key, tuple) else key for key in numbers if key is not None)


def code_type(values: int) -> type[np.signedinteger[Any]]:
    return np.int8 if values <= 127 else np.int16 if values <= 32767 else np.int32


def empty_column(n: int) -> DictionaryColumn:
    return DictionaryColumn((), np.full(n, -1, np.int8))


def stacked_columns(columns: Sequence[DictionaryColumn]) -> DictionaryColumn:
    """Stack columns: the rows of each column follow those of the column before."""
    keys = [_keys(column.values) for column in columns]
    numbers = _numbers(chain.from_iterable(keys))
    kind = code_type(len(numbers) - 1)
    codes = [
        np.array([*map(numbers.__getitem__, own), -1], kind)[column.codes]
        for own, column in zip(keys, columns, strict=True)
    ]
    return DictionaryColumn(_values(numbers), np.concatenate(codes) if codes else np.zeros(0, kind))
