"""Which signatures an index file holds and where they lie in it: keys to records, kept true as the file grows."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import UnknownName
from zoolens.findings.index.signatures.journal import REMOVED, SIGNATURE, Damaged, Journal, Place
from zoolens.findings.index.signatures.signature_codec import (
    Packed,
    decode,
    decode_key,
    encode_key,
    itemsize,
    read_answers,
)

_SMALL: Final = 1 << 16  # bytes: a file is not worth compacting before


class SignatureFile:
    """`keys` are in the order of the rows; a key that is written again keeps its row. `labels`: signatures are classes,
    not vectors."""

    def __init__(self, journal: Journal, probes: int, *, labels: bool) -> None:
        self.journal, self.probes = journal, probes
        self.keys: list[str] = []
        self._labels = labels
        self._position: dict[str, int] = {}
        self._starts = array("q")  # of the payloads, in the file
        self._live_bytes = 0

    def __len__(self) -> int:
        return len(self.keys)

    def __contains__(self, key: str) -> bool:
        return key in self._position

    @property
    def nbytes(self) -> int:
        return self._starts.itemsize * len(self._starts)

    def row(self, key: str) -> int:
        if key not in self._position:
            raise UnknownName("model in the index", key, self.keys)
        return self._position[key]

    def answers(self, row: int) -> NDArray[Any]:
        return read_answers(self.journal.content, self._starts[row], self.probes)

    def widest(self) -> int:
        """Bytes of the largest number that answers are kept in."""
        return max((itemsize(self.journal.content, start) for start in self._starts), default=1)

    def correct(self, row: int) -> NDArray[np.uint8] | None:
        """A bit for each right answer; None: nobody knows."""
        return self._packed(self._place(row)).read_correct(self.journal.content, self.probes)

    def _place(self, row: int) -> Place:
        return self.journal.place_at(self._starts[row])

    def _packed(self, place: Place) -> Packed:
        if place.kind != SIGNATURE:
            raise Damaged(f"a record is of the unknown kind {place.kind}")
        packed = decode(self.journal.content, place.start, place.stop, self.probes)
        if packed.is_labels != self._labels:
            raise Damaged("a signature is of another task")
        return packed

    # --- what others wrote

    def refresh(self) -> bool:
        """See what other processes have written; True: something, and any row may be another one now."""
        places, replaced = self.journal.catch_up()
        if not places and not replaced:
            return False
        live = {} if replaced else {key: self._place(row) for row, key in enumerate(self.keys)}
        for place in places:
            if place.kind == REMOVED:
                live.pop(decode_key(self.journal.content, place.start, place.stop), None)
            else:
                live[self._packed(place).key] = place
        self.keys, self._starts = list(live), array("q", (place.start for place in live.values()))
        self._position = {key: row for row, key in enumerate(self.keys)}
        self._live_bytes = sum(place.bytes for place in live.values())
        return True

    # --- what we write, under `journal.alone()` and after `refresh`

    def write(self, payload: bytes) -> int:
        """Add an encoded signature; its row."""
        place = self.journal.append(SIGNATURE, payload)
        key = self._packed(place).key
        self._live_bytes += place.bytes
        row = self._position.get(key)
        if row is None:
            row = self._position[key] = len(self.keys)
            self.keys.append(key)
            self._starts.append(place.start)
        else:
            self._live_bytes -= self._place(row).bytes
            self._starts[row] = place.start
        return row

    def erase(self, key: str) -> int:
        """Take a signature out; the row it had. Those behind it move up."""
        row = self.row(key)
        self.journal.append(REMOVED, encode_key(key))
        self._live_bytes -= self._place(row).bytes
        del self.keys[row], self._starts[row]
        self._position = {name: number for number, name in enumerate(self.keys)}
        return row

    @contextmanager
    def compacting(self) -> Iterator[None]:
        """Write what is inside the block; then the whole file again, if more than half of it is dead."""
        with self.journal.alone():
            yield
            # At half, so that the bytes rewritten are never more than those that were appended since.
            if self.journal.end > _SMALL and self._live_bytes < self.journal.end / 2:
                self._compact()

    def _compact(self) -> None:
        content = self.journal.content
        places = [self._place(row) for row in range(len(self))]
        self.journal.rewrite((SIGNATURE, bytes(content[place.start : place.stop])) for place in places)
        self.refresh()
