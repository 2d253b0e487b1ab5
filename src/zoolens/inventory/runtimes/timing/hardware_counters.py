"""The processor's own counters of this process, through the system call perf_event_open of Linux.

Many machines have none for their guests, and a sandbox forbids the call: `HardwareWatch` then tells nothing, and
whoever shows figures says so. Only what happens in the program itself is counted, and not in the kernel.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
from collections.abc import Iterable
from typing import Final

EVENTS: Final = {  # kind and number of each, as the kernel has them
    "cycles": (0, 0),
    "instructions": (0, 1),
    "cache_misses": (0, 3),
    "migrations": (1, 4),
}
_CALL: Final = {"x86_64": 298, "aarch64": 241}.get(platform.machine())
_EXCLUDE_KERNEL: Final = 1 << 5 | 1 << 6  # and the hypervisor
_SIZE: Final = 64  # of the first version of the structure, which every kernel takes


class HardwareWatch:
    """Counts events of all threads that the process has now. Close it after use."""

    def __init__(self) -> None:
        threads = self._threads()
        self._files: dict[str, list[int]] = {}
        for name, (kind, number) in EVENTS.items():
            files = [_opened(kind, number, thread) for thread in threads]
            if files and all(file is not None for file in files):
                self._files[name] = [file for file in files if file is not None]
            else:
                _close(file for file in files if file is not None)

    def read(self) -> dict[str, int]:
        """The counters that there are, since they were opened."""
        return {name: sum(_counted(file) for file in files) for name, files in self._files.items()}

    def close(self) -> None:
        for files in self._files.values():
            _close(files)
        self._files = {}

    @staticmethod
    def _threads() -> list[int]:
        try:
            return [int(name) for name in os.listdir("/proc/self/task")]  # noqa: PTH208
        except OSError:  # no Linux
            return []


def _opened(kind: int, number: int, thread: int) -> int | None:
    """A counter of one thread; None where it cannot be had."""
    if _CALL is None:
        return None
    about = struct.pack("=IIQQQQQIIQ", kind, _SIZE, number, 0, 0, 0, _EXCLUDE_KERNEL if kind == 0 else 0, 0, 0, 0)
    try:
        file = int(ctypes.CDLL(None, use_errno=True).syscall(_CALL, about, thread, -1, -1, 0))
    except (OSError, AttributeError):
        return None
    return file if file >= 0 else None


def _counted(file: int) -> int:
    with contextlib.suppress(OSError, struct.error):
        return int(struct.unpack("=Q", os.read(file, 8))[0])
    return 0


def _close(files: Iterable[int]) -> None:
    for file in files:
        os.close(file)
