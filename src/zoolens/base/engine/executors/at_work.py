"""Which jobs run on this machine, whoever sent them: each leaves a file while it runs, with its process and its words.

A job's process may be killed at any moment. Its file then names a process that is not there, and is removed by the next
one who looks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from zoolens.base.engine.machine import this_host
from zoolens.base.paths import cache_dir

_SUFFIX: Final = ".job"
_LONGEST: Final = 200  # characters of a job's words


@contextmanager
def at_work(words: str) -> Iterator[None]:
    """Says for the time of the `with` what this process does. A folder that cannot be written changes nothing."""
    path = _folder() / f"{os.getpid()}-{uuid4().hex[:8]}{_SUFFIX}"
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(words[:_LONGEST]), "utf-8")
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()


def jobs_at_work() -> list[str]:
    """What jobs of this user do on this machine at the moment, oldest first."""
    words = []
    for path in sorted(_folder().glob(f"*{_SUFFIX}"), key=_written):
        if not _lives(path.name.partition("-")[0]):
            with suppress(OSError):
                path.unlink()
            continue
        # It may have ended, or not yet been written, at this very moment.
        with suppress(OSError, ValueError):
            words.append(str(json.loads(path.read_text("utf-8"))))
    return words


def _folder() -> Path:
    return cache_dir() / "at-work" / this_host()  # machines may share a home, and number their processes alike


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _lives(pid: str) -> bool:
    return pid.isdecimal() and Path(f"/proc/{pid}").exists() if Path("/proc/self").exists() else True
