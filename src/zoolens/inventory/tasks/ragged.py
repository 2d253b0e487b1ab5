"""A column whose rows have different lengths: the boxes of each image, the tags of each text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Ragged:
    """Row i is `values[offsets[i]:offsets[i + 1]]`. It is indexed as an array of rows is."""

    offsets: Integers
    values: NDArray[Any]

    @classmethod
    def of(cls, rows: Sequence[NDArray[Any]], dtype: Any) -> Ragged:
        """One row for each array; arrays of several dimensions are flattened."""
        flat = [np.asarray(row, dtype).reshape(-1) for row in rows]
        lengths = np.fromiter((len(row) for row in flat), np.int64, len(flat))
        values = np.concatenate(flat) if flat else np.zeros(0, dtype)
        return cls(np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]), values)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[place] for place in range(len(self)))

    @property
    def nbytes(self) -> int:
        return int(self.offsets.nbytes + self.values.nbytes)

    @property
    def lengths(self) -> Integers:
        return np.diff(self.offsets)

    @overload
    def __getitem__(self, place: int | np.integer[Any]) -> NDArray[Any]: ...

    @overload
    def __getitem__(self, place: slice | NDArray[Any]) -> Ragged: ...

    def __getitem__(self, place: int | np.integer[Any] | slice | NDArray[Any]) -> NDArray[Any] | Ragged:
        if isinstance(place, int | np.integer):
            # A negative place counts from the end, as everywhere; the offset behind the last row has no row.
            row = range(len(self))[int(place)]
            result: NDArray[Any] = self.values[self.offsets[row] : self.offsets[row + 1]]
            return result
        chosen = np.arange(len(self))[place]
        lengths = self.lengths[chosen]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        return Ragged(offsets, self.values[np.repeat(self.offsets[:-1][chosen], lengths) + within])


def joined(pieces: Sequence[Ragged]) -> Ragged:
    """The rows of all pieces, one after the other."""
    lengths = np.concatenate([piece.lengths for piece in pieces])
    # Of a table that was cut, there are values before the first row and after the last.
    values = np.concatenate([piece.values[piece.offsets[0] : piece.offsets[-1]] for piece in pieces])
    return Ragged(np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]), values)
