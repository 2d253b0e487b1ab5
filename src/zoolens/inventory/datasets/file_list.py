"""The files of a dataset with their labels, packed: some 30 bytes each, where an object and two texts take 300."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Final, overload

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.datasets.labelled_files import Entry

_END: Final = "\0"  # of an id where the file has another name: no path holds this sign
_ENCODING: Final = ("utf-8", "surrogateescape")  # names of files may be bytes that are no UTF-8


class FileList(Sequence[Entry]):
    """Entries that are made when they are asked for. Folders are held once, ids and names in one piece of memory."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        folders: dict[str, int] = {}
        names, ends = bytearray(), array("q", [0])
        folder, labels = array("q"), array("q")
        for entry in entries:
            start, name = _split(entry)
            folder.append(folders.setdefault(start, len(folders)))
            names += name.encode(*_ENCODING)
            ends.append(len(names))
            labels.append(entry.label)
        self._folders = tuple(folders)
        self._names, self._ends = bytes(names), np.array(ends, np.int64)
        self._folder = np.array(folder, np.int32)
        self.labels: NDArray[np.int64] = np.array(labels, np.int64)

    def __len__(self) -> int:
        return len(self._folder)

    @overload
    def __getitem__(self, index: int) -> Entry: ...

    @overload
    def __getitem__(self, index: slice) -> list[Entry]: ...

    def __getitem__(self, index: int | slice) -> Entry | list[Entry]:
        if isinstance(index, slice):
            return [self[place] for place in range(len(self))[index]]
        place = range(len(self))[index]
        name = self._names[self._ends[place] : self._ends[place + 1]].decode(*_ENCODING)
        own, other, last = name.partition(_END)
        return Entry(own, f"{self._folders[self._folder[place]]}{last if other else own}", int(self.labels[place]))


def _split(entry: Entry) -> tuple[str, str]:
    """How the path of the file begins, and its id, with the rest of the path where that is another text."""
    if entry.file.endswith(entry.id):
        return entry.file.removesuffix(entry.id), entry.id
    folder, slash, name = entry.file.rpartition("/")
    return f"{folder}{slash}", f"{entry.id}{_END}{name}"
