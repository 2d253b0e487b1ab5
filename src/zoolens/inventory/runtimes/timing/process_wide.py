"""What native libraries have once for the whole process: the number of threads, and the error stream."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def lent_threads(count: int | None, read: Callable[[], int], write: Callable[[int], object]) -> Iterator[None]:
    """For libraries whose thread count is one number for the process: lent to one call, put back after it (0.3 µs)."""
    if count is None:
        yield
        return
    before = read()
    write(count)
    try:
        yield
    finally:
        write(before)


@contextmanager
def quiet_stderr() -> Iterator[None]:
    """For native libraries that chat on the error stream whatever one sets; what fails is raised all the same."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
