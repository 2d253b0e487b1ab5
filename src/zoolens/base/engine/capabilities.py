"""The rights that root has beyond its files, given up for good: a worker needs none of them.

Standard library only: it runs first thing in a worker. In a container zoolens is often root. Such a worker could raise
its own limits again, and much that the kernel asks a capability for is not on the list of system calls that seccomp
refuses. What is kept: reading and writing files whatever their mode, which Landlock then confines.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from typing import Final

_CAPSET: Final = {"x86_64": 126, "aarch64": 91}
_VERSION_3: Final = 0x20080522
_KEPT: Final = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


def give_up() -> None:
    """Drops all capabilities but the two about files; does nothing if there are none."""
    number = _CAPSET.get(os.uname().machine)
    if not sys.platform.startswith("linux") or number is None or os.geteuid() != 0:
        return
    held = _held()
    header = ctypes.create_string_buffer(struct.pack("=Ii", _VERSION_3, 0))
    # effective, permitted and inheritable: the lower 32 capabilities, then the upper ones
    wanted = ctypes.create_string_buffer(struct.pack("=6I", held & _KEPT, held & _KEPT, 0, 0, 0, 0))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(ctypes.c_long(number), header, wanted):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _held() -> int:
    """The permitted capabilities of this process as bits; 0 where /proc does not report it."""
    try:
        with open("/proc/self/status") as status:  # noqa: PTH123 - before anything else is imported
            return next(int(line.split()[1], 16) for line in status if line.startswith("CapPrm:"))
    except (OSError, StopIteration, ValueError):
        return 0
