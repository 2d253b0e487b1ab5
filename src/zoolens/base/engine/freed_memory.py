"""Gives memory that was freed back to the system. The C library keeps it, so that each stage of an evaluation would add
to what the stages before it needed at most."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any


def return_freed_memory() -> None:
    """Takes a few milliseconds; does nothing where the C library has no such function."""
    if trim := _malloc_trim():
        trim(0)
    # Arrow has an allocator of its own. It is not imported for this.
    if (arrow := sys.modules.get("pyarrow")) is not None:
        arrow.default_memory_pool().release_unused()


@cache
def _malloc_trim() -> Callable[[int], Any] | None:
    try:
        found = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library; on Windows None is no library
        return None
    found.argtypes, found.restype = [ctypes.c_size_t], ctypes.c_int
    return found
