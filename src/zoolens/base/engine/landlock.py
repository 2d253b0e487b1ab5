"""Landlock, the Linux kernel's unprivileged file and network confinement, through its three system calls.

Standard library only: it runs first thing in a worker, before numpy. What is granted cannot be widened again, and holds
for everything that this process starts. A kernel without Landlock (before 5.13, or switched off) has version 0.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from collections.abc import Iterable
from typing import Any, Final

# The same numbers on every architecture.
_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_ASK_VERSION: Final = 1
_PATH_BENEATH: Final = 1

EXECUTE: Final = 1 << 0
WRITE_FILE: Final = 1 << 1
READ_FILE: Final = 1 << 2
READ_DIR: Final = 1 << 3
_MAKE_DEVICE: Final = 1 << 6 | 1 << 11  # of characters or of blocks: root could make the disk's, and open it
_MAKE_SOCKET: Final = 1 << 9
_ALL_OF_VERSION_1: Final = (1 << 13) - 1
_REFER: Final = 1 << 13  # version 2: move or link a file to another folder
_TRUNCATE: Final = 1 << 14  # version 3
_IOCTL_DEV: Final = 1 << 15  # version 5
_ON_FILES: Final = EXECUTE | WRITE_FILE | READ_FILE | _TRUNCATE | _IOCTL_DEV  # the rest is about folders

READ: Final = READ_FILE | READ_DIR
OVERWRITE: Final = WRITE_FILE | _TRUNCATE
READ_AND_EXECUTE: Final = READ | EXECUTE
# Neither a device nor a socket may be made in a writable folder, even by root, and nothing in it may be executed: each
# would be a way out of the sandbox.
CHANGE: Final = (_ALL_OF_VERSION_1 | _REFER | _TRUNCATE) & ~(EXECUTE | _MAKE_DEVICE | _MAKE_SOCKET)
USE_DEVICE: Final = READ_FILE | WRITE_FILE | _IOCTL_DEV

_TCP_BIND_AND_CONNECT: Final = 3
_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS: Final = 3


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _fields_ = (("access", ctypes.c_uint64), ("folder", ctypes.c_int32))  # the kernel reads these 12 bytes


def version() -> int:
    """Landlock's version (its "ABI") in this kernel; 0: none that we may use."""
    if not sys.platform.startswith("linux"):
        return 0
    try:
        return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION))
    except OSError:
        return 0


def restrict(grants: Iterable[tuple[str, int]]) -> list[int]:
    """Confine this thread and all that it starts to `grants` (path, rights); TCP and signals to others go too.

    Paths that do not exist are passed over. Needs no_new_privs. The descriptors that are given back belong to granted
    folders of /proc: while they are open, the kernel does not forget the folder that the grant hangs on.
    """
    have = version()
    if not have:
        raise OSError("the kernel has no Landlock")
    handled = _handled(have)
    wanted = _Ruleset(
        handled, _TCP_BIND_AND_CONNECT if have >= 4 else 0, _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS if have >= 6 else 0
    )
    size = 24 if have >= 6 else 16 if have >= 4 else 8
    ruleset = _call(_CREATE_RULESET, ctypes.byref(wanted), ctypes.c_size_t(size), ctypes.c_uint32(0))
    kept: list[int] = []
    try:
        for path, rights in grants:
            if (folder := _grant(ruleset, path, rights & handled)) is not None:
                kept.append(folder)
        _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)
    return kept


def _handled(have: int) -> int:
    rights = _ALL_OF_VERSION_1
    for since, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV)):
        if have >= since:
            rights |= right
    return rights


def _grant(ruleset: int, path: str, rights: int) -> int | None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None
    if not stat.S_ISDIR(os.fstat(opened).st_mode):
        rights &= _ON_FILES
    try:
        rule = _PathBeneath(rights, opened)
        _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0))
    except BaseException:
        os.close(opened)
        raise
    # A folder of /proc lasts only as long as somebody refers to it: without the open descriptor the kernel would forget
    # the grant.
    if path.startswith("/proc/"):
        return opened
    os.close(opened)
    return None


def _call(number: int, *arguments: Any) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    result: int = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
