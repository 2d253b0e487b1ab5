"""A column of texts, numbers or flags with few different values: what they are, and which of them each row has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.index.derived import packed_texts, unpacked_texts
from zoolens.index.rows import Attribute


class Coded:
    """`values` are the different values, `codes` which of them each row has (−1: none)."""

    def __init__(self, values: Sequence[Attribute] | NDArray[np.uint8], codes: NDArray[np.int32]) -> None:
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
        """Of every row; None where it has none."""
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

    def take(self, rows: NDArray[np.int64]) -> Coded:
        """These rows, with the values that they have."""
        codes = self.codes[rows]
        used = np.zeros(len(self.values) + 1, np.bool_)
        used[codes] = True
        if used[:-1].all():
            return Coded(self._given, codes)
        renumbered = np.full(len(used), -1, np.int32)  # the last stays −1
        renumbered[:-1][used[:-1]] = np.arange(int(used[:-1].sum()), dtype=np.int32)
        values = [value for value, is_used in zip(self.values, used[:-1].tolist(), strict=True) if is_used]
        return Coded(values, renumbered[codes])


def coded(values: Iterable[Attribute | None], n: int) -> Coded:
    places: dict[tuple[type, Attribute], int] = {}  # by type too: True == 1 == 1.0
    codes = np.fromiter(
        (-1 if value is None else places.setdefault((type(value), value), len(places)) for value in values),
        np.int32,
        count=n,
    )
    return Coded([value for _, value in places], codes)


def nothing(n: int) -> Coded:
    return Coded((), np.full(n, -1, np.int32))


def stacked(columns: Sequence[Coded]) -> Coded:
    """One below the other."""
    places: dict[tuple[type, Attribute], int] = {}
    codes = []
    for column in columns:
        numbers = [places.setdefault((type(value), value), len(places)) for value in column.values]
        codes.append(np.array([*numbers, -1], np.int32)[column.codes])
    return Coded([value for _, value in places], np.concatenate(codes) if codes else np.zeros(0, np.int32))
