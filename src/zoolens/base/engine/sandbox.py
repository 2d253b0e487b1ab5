"""The sandbox of a worker: what a process that opens a stranger's model may still do.

`confine` is called by the worker itself, before numpy, a framework or the model: it applies what the kernel has
(Landlock for files and TCP, seccomp for system calls) and limits that every POSIX system has. Only `trusting` turns it
off. Standard library only, since workers run in environments that hold numpy and one framework.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from zoolens.base.engine import capabilities, landlock, seccomp

FILES: Final = 4096  # that may be open at once
FILE_BYTES: Final = 8 << 30  # of one file, and of the memory that answers travel in
THREADS: Final = 4096  # beyond those that the user's processes have when the worker starts

TRUSTED: Final = "none (trusted)"
PLAIN: Final = "none (plain data)"

_trust: ContextVar[bool] = ContextVar("zoolens_trust", default=False)


@dataclass(frozen=True)
class Policy:
    """What a worker may use. Everything that is not named is refused, where the kernel can."""

    scratch: str  # the folder that it may change; also its home, temporary and working folder
    readable: tuple[str, ...]
    kept: str | None = None  # a second folder that it may change, which outlives it: a compiler's cache
    devices: tuple[str, ...] = ()
    programs: bool = False  # may it start other programs, such as a compiler?
    memory: int | None = None  # bytes of its own
    accelerated: bool = False  # may it use a GPU?
    parent: int | None = None  # the process with which it ends, also if that is killed


@contextmanager
def trusting(trust: bool = True) -> Iterator[None]:
    """Inside, models are opened without a sandbox, in this process where that is possible: the user's `--trust`.

    False changes nothing. It holds for this thread (and for tasks that inherit its context).
    """
    before = _trust.set(trust or _trust.get())
    try:
        yield
    finally:
        _trust.reset(before)


def trusted() -> bool:
    return _trust.get()


def confine(policy: Mapping[str, Any]) -> str:
    """Confine this process to the fields of a `Policy`, for good, and say what is in force.

    The process must have one thread: Landlock holds for the thread that asks and for those that it starts.
    """
    asked = Policy(**policy)
    held, filtered = landlock.version(), seccomp.available()
    try:
        _limit(asked)
        if asked.parent is not None and sys.platform == "linux" and not seccomp.die_with_parent(asked.parent):
            sys.exit("The process that started this worker has ended.")
        if held or filtered:
            # The kernel takes neither Landlock rules nor a filter from a process that could still gain rights by a
            # set-user-id program.
            seccomp.forbid_new_privileges()
        if held:
            landlock.restrict(_grants(asked))
        capabilities.give_up()
        if filtered:
            # Last: the filter also keeps the process from taking back the signal by which it ends with its parent.
            seccomp.install(programs=asked.programs, accelerated=asked.accelerated)
    except OSError as error:
        # The kernel has it and does not let us use it: to go on would be to pretend.
        sys.exit(f"The sandbox could not be set up: {error}. If you trust the model, add --trust.")
    return _words(held, filtered)


def describe() -> str:
    """What `confine` would put in force on this machine."""
    return _words(landlock.version(), seccomp.available())


def shortcomings() -> list[str]:
    """What this machine's sandbox does not do, one sentence each."""
    gaps = []
    held, filtered = landlock.version(), seccomp.available()
    if not held:
        gaps.append(
            "Files are not confined: a model that finds a hole in a framework has your user's rights on them, and on "
            "the memory of your processes, unless Yama (kernel.ptrace_scope) protects it."
        )
    elif held < 6 and not filtered:
        gaps.append("Signals to other processes are not confined.")
    if not filtered:
        sockets = "only TCP is refused" if held >= 4 else "nothing is refused"
        gaps.append(f"The network is not confined ({sockets}), and other programs can be started.")
    return gaps


def _words(held: int, filtered: bool) -> str:
    parts, missing = [], []
    if held:
        parts.append(f"landlock-{held}")
    else:
        missing.append("Landlock")
    if filtered:
        parts.append("seccomp")
    else:
        missing.append("seccomp")
    words = "+".join([*parts, "rlimits"])
    return f"{words} (kernel without {' and '.join(missing)})" if missing else words


def _grants(policy: Policy) -> Iterator[tuple[str, int]]:
    read = landlock.READ_AND_EXECUTE if policy.programs else landlock.READ
    yield from ((path, read) for path in policy.readable)
    yield from ((path, landlock.USE_DEVICE | landlock.READ_DIR) for path in policy.devices)
    # CUDA's driver names its threads there, and does not start where it cannot.
    if policy.accelerated:
        yield "/proc/self/task", landlock.READ | landlock.OVERWRITE
    yield policy.scratch, landlock.CHANGE
    if policy.kept is not None:
        yield policy.kept, landlock.CHANGE


def _limit(policy: Policy) -> None:
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123 - light
        # If memory runs out, the kernel ends us and no program of the user.
        file.write("1000")
    # A file that grows too large is an error, not the end.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = {
        # A core dump would hold the user's data, and lie outside.
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: FILES,
        resource.RLIMIT_FSIZE: FILE_BYTES,
    }
    if (threads := _threads_of_user()) is not None:
        limits[resource.RLIMIT_NPROC] = threads + THREADS
    if policy.memory is not None and hasattr(resource, "RLIMIT_DATA"):
        limits[resource.RLIMIT_DATA] = policy.memory
    for kind, wanted in limits.items():
        _, most = resource.getrlimit(kind)
        value = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        with contextlib.suppress(ValueError):  # macOS refuses some values
            resource.setrlimit(kind, (value, value))


def _threads_of_user() -> int | None:
    """How many threads this user's processes have. The kernel's limit counts all of them, not those of a worker.

    None where /proc does not report it. The limit does not hold for root itself.
    """
    try:
        pids = [name for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 - light
    except OSError:
        return None
    own, count = os.getuid(), 0
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended, or its owner hides it
            if os.stat(f"/proc/{pid}").st_uid == own:  # noqa: PTH116 - light
                count += len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208 - light
    return count or None
