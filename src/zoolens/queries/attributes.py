"""Attributes of rows, arranged so that a condition is decided once for each value and not once for each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.index.rows import Attribute, Row

# What may be asked of any model, even where no row of this index tells: `license IS KNOWN` is no typing mistake.
COMMON: Final = frozenset({
    "zoo", "name", "version", "ref", "format", "task", "runtime", "runtime_version", "device", "precision", "threads",
    "element_type", "license", "framework", "dataset", "description", "twin_of", "donor",
})  # fmt: skip


@dataclass(frozen=True)
class Coded:
    """One attribute of all rows: `values` are its different values, `codes` which of them each row has (−1: none)."""

    values: tuple[Attribute, ...]
    codes: NDArray[np.int32]

    def rows_where(self, holds: Sequence[bool]) -> NDArray[np.bool_]:
        """The rows whose value is one of those that are marked."""
        return np.asarray([*holds, False], np.bool_)[self.codes]  # code −1 takes the False at the end


class Attributes:
    """Columns of attributes, made when first asked for; names in any case. `ref` is an attribute like the others."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._columns: dict[str, Coded] = {}

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset({"ref"}.union(*(row.attributes for row in self._rows)))

    @cached_property
    def _spelled(self) -> dict[str, str]:
        return {name.casefold(): name for name in sorted(self.names)}

    def __contains__(self, name: str) -> bool:
        return name in self.names or name.casefold() in self._spelled

    def column(self, name: str) -> Coded:
        spelled = name if name in self.names else self._spelled.get(name.casefold(), name)
        if spelled not in self._columns:
            self._columns[spelled] = _coded(self._values(spelled), len(self._rows))
        return self._columns[spelled]

    def _values(self, name: str) -> Iterator[Attribute | None]:
        if name == "ref":
            return (row.ref for row in self._rows)
        return (row.attributes.get(name) for row in self._rows)


def _coded(values: Iterator[Attribute | None], n: int) -> Coded:
    places: dict[tuple[type, Attribute], int] = {}  # by type too: True == 1 == 1.0
    codes = np.fromiter(
        (-1 if value is None else places.setdefault((type(value), value), len(places)) for value in values),
        np.int32,
        count=n,
    )
    return Coded(tuple(value for _, value in places), codes)
