"""Jobs of one machine take turns: one that measures times waits until it is alone, and the others wait for its end.

A cluster counts cores, and knows nothing of another cluster, or of a second node, on the same machine. Two locks on
files do: a job holds the second one for as long as it runs, shared or alone, and gets it while it holds the first. So
jobs that come later cannot overtake one that waits to be alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from zoolens.base.engine.machine import this_host
from zoolens.base.paths import cache_dir

if sys.platform != "win32":
    import fcntl


@contextmanager
def machine_turn(*, alone: bool) -> Iterator[None]:
    """Runs the `with` beside others that are not `alone`. The kernel gives locks of a killed process back."""
    if sys.platform == "win32":
        yield
        return
    with ExitStack() as stack:
        folder = cache_dir() / "turns" / this_host()  # machines may share a home
        folder.mkdir(parents=True, exist_ok=True)
        running = stack.enter_context(_opened(folder / "running"))
        with _opened(folder / "next") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            fcntl.flock(running, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def _opened(path: Path) -> IO[bytes]:
    # For reading too: a lock that is shared needs that on a network's file system.
    return path.open("a+b")
