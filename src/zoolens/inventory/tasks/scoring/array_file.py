"""Arrays in a temporary file without a name, which is gone with whoever made it: what is judged of many images takes
room on the disk, and of memory only what is in use. The file lies where `TMPDIR` says."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ZoolensError

_LINE: Final = 64  # bytes: each array begins at a multiple of this
_LEAST: Final = 4096  # bytes of an array that is worth a place in a file
_SEEK_END: Final = 2

T = TypeVar("T")


@contextmanager
def temporary_room() -> Iterator[None]:
    """Says what is wrong where a temporary file cannot be written."""
    try:
        yield
    except OSError as error:
        raise ZoolensError(
            f"A temporary file in {tempfile.gettempdir()} cannot be written: {error.strerror or error}.",
            hint="Make room there, or name another folder: TMPDIR=FOLDER.",
        ) from error


class MappedValue(Generic[T]):
    """A value whose arrays lie in a file."""

    def __init__(self, value: T, mapped: mmap.mmap | None) -> None:
        self.value = value
        self._mapped = mapped

    def rest(self) -> None:
        """Gives up the memory that reading the arrays has taken; they are read from the file again when needed."""
        if self._mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._mapped.madvise(mmap.MADV_DONTNEED)


class ArrayFile:
    """A file to which values with arrays are added."""

    def __init__(self) -> None:
        with temporary_room():
            self._file = tempfile.TemporaryFile(prefix="zoolens-")  # noqa: SIM115 - open as long as this object is

    def keep(self, value: T) -> MappedValue[T]:
        """The value with its large arrays in the file, also those of dataclasses and tuples in it."""
        places: list[int] = []
        granularity = mmap.ALLOCATIONGRANULARITY
        begin = -(-self._file.seek(0, _SEEK_END) // granularity) * granularity
        self._file.seek(begin)

        def write(array: NDArray[Any]) -> NDArray[Any]:
            places.append(self._file.tell() - begin)
            self._file.write(np.ascontiguousarray(array).data)
            self._file.write(bytes(-array.nbytes % _LINE))
            return array

        with temporary_room():
            _each_array(value, write)
            if not places:
                return MappedValue(value, None)
            self._file.flush()
            mapped = mmap.mmap(self._file.fileno(), self._file.tell() - begin, access=mmap.ACCESS_READ, offset=begin)
        left = iter(places)
        there = _each_array(
            value, lambda array: np.frombuffer(mapped, array.dtype, array.size, next(left)).reshape(array.shape)
        )
        return MappedValue(there, mapped)


def _each_array(value: Any, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Any:
    """The value with each large array in it changed."""
    if isinstance(value, np.ndarray):
        return change(value) if value.nbytes >= _LEAST else value
    if isinstance(value, tuple):
        return tuple(_each_array(each, change) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        made = {one.name: _each_array(getattr(value, one.name), change) for one in fields(value) if one.init}
        return replace(value, **made)
    return value
