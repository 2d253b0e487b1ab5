"""All rows in the order of one score: best first, ties by row number, rows without a score left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ScoreOrder:
    """`keys` ascend: the scores, negated where the highest is best. Where many rows share a score, as agreement on
    1,000 probes does, each is kept once, and `ends` says after how many rows it ends."""

    rows: NDArray[np.int32]
    keys: NDArray[np.float64]
    ends: NDArray[np.int32] | None
    descending: bool

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.keys.nbytes + (0 if self.ends is None else self.ends.nbytes)

    def window(self, floor: float) -> tuple[int, int]:
        """The positions of all rows whose score is at least `floor`."""
        if floor != floor:
            return 0, 0
        if self.descending:
            return 0, self._position(int(np.searchsorted(self.keys, -floor, "right")))
        return self._position(int(np.searchsorted(self.keys, floor, "left"))), len(self.rows)

    def _position(self, key: int) -> int:
        """The position of the first row of a key."""
        if self.ends is None:
            return key
        return int(self.ends[key - 1]) if key else 0


def score_order(score: NDArray[np.float64], *, descending: bool) -> ScoreOrder:
    keys = np.asarray(score, np.float64)
    keys = -keys if descending else keys
    known = len(keys) - int(np.count_nonzero(np.isnan(keys)))
    # NaN sorts last; numpy's stable sort takes six times as long as what follows.
    rows = np.argsort(keys)[:known]
    ascending = keys[rows]
    firsts = np.flatnonzero(np.append(True, ascending[1:] != ascending[:-1])[:known])
    ends = np.append(firsts[1:], known)[: len(firsts)]
    if len(firsts) < known:
        rows = _ties_by_row(rows, ends - firsts)
    if 2 * len(firsts) < known:
        return ScoreOrder(rows.astype(np.int32), ascending[firsts], ends.astype(np.int32), descending)
    return ScoreOrder(rows.astype(np.int32), ascending, None, descending)


def _ties_by_row(rows: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows sorted within runs of the given sizes: run and row in one integer, sorted once."""
    runs = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    return np.sort((runs << 32) | rows) & 0xFFFFFFFF
