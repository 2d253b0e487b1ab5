"""How much memory an index may take, and what of the signatures stays in it: all answers where they fit, else sketches
of as many probes as fit. What does not stay is read from the file.
"""

from __future__ import annotations

import os
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ZoolensError
from zoolens.findings.index.signatures.sketches import sketch, words_for

VARIABLE: Final = "ZOOLENS_INDEX_MB"
# Whole signatures of about 13,000 models over 725 probes fit into it; beyond that there are sketches.
DEFAULT: Final = 20_000_000
_FIRST: Final = 16
_STEP: Final = 1_000_000
_WORD: Final = 64  # bits


def memory_budget(given: int | None = None) -> int:
    """Bytes for signatures and rankings: as given, else $ZOOLENS_INDEX_MB megabytes, else 20."""
    text = os.environ.get(VARIABLE)
    try:
        budget = given if given is not None else int(float(text) * 1_000_000) if text else DEFAULT
    except (ValueError, OverflowError) as error:
        raise ZoolensError(f"{VARIABLE} is {text!r}, which is not a number.", hint="Give megabytes: 20.") from error
    if budget < 0:
        raise ZoolensError(f"A memory of {budget:,} bytes makes no sense.", hint="Give 0 or more.")
    return budget


class GrowableRows:
    """Equally long rows of one type, in one array that grows by an eighth, and by a megabyte at most."""

    def __init__(self, width: int, dtype: Any, capacity: int = 0) -> None:
        self._array = np.zeros((capacity, width), dtype)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    @property
    def values(self) -> NDArray[Any]:
        return self._array[: self._used]

    @property
    def nbytes(self) -> int:
        return self._array.nbytes

    def append(self, row: NDArray[Any]) -> None:
        if self._used == len(self._array):
            self._grow()
        self._used += 1
        self.put(self._used - 1, row)

    def _grow(self) -> None:
        row = max(1, self._array.shape[1] * self._array.dtype.itemsize)
        more = max(_FIRST, min(self._used // 8, _STEP // row))
        larger = np.zeros((self._used + more, self._array.shape[1]), self._array.dtype)
        larger[: self._used] = self._array
        self._array = larger

    def put(self, index: int, row: NDArray[Any]) -> None:
        """Replace a row, or append one behind the last."""
        if index == self._used:
            self.append(row)
            return
        # A class number beyond what the others needed.
        if row.dtype.itemsize > self._array.dtype.itemsize:
            self._array = self._array.astype(row.dtype)
        self._array[index] = row

    def remove(self, index: int) -> None:
        self._array[index : self._used - 1] = self._array[index + 1 : self._used]
        self._used -= 1


class Residence:
    """What stays in memory of each model's labels: all of them if `bits` is 0, else the sketch of so many probes."""

    def __init__(self, models: int, probes: int, itemsize: int, memory: int) -> None:
        self._probes, self._memory = probes, memory
        self.whole = models * probes * itemsize <= memory
        room = memory * 8 // max(1, models) // _WORD * _WORD
        self.bits = 0 if self.whole else min(probes, room)
        width, dtype = (probes, f"<u{itemsize}") if self.whole else (words_for(self.bits), np.uint64)
        self.rows = GrowableRows(width, dtype, models)

    @property
    def overfull(self) -> bool:
        return self.rows.values.nbytes > self._memory and (self.whole or self.bits > 0)

    def seen(self, labels: NDArray[Any]) -> NDArray[Any]:
        """What is kept of these labels, of one model or of several."""
        return labels if self.whole else sketch(labels, self.bits)
