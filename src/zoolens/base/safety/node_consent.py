"""Whose machine it is: code of a manifest runs on a node of a cluster only where the node's own user allowed it.

Whoever sends a job says with `--allow-code` that code may run on their own machine. Of another's machine only its user
can say that, in the environment in which the node is started.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

NODE_CODE: Final = "ZOOLENS_NODE_CODE"
ALLOWED: Final = "allow"

_jobs: Final[list[object]] = []  # of others, that run in this process
_lock: Final = threading.Lock()


@contextmanager
def working_for_others() -> Iterator[None]:
    """Inside, this process is a node that does what somebody sent: in all of its threads, since a job may start some,
    and a context variable would be unset in them."""
    job = object()
    with _lock:
        _jobs.append(job)
    try:
        yield
    finally:
        with _lock:
            _jobs.remove(job)


def code_may_run_here() -> bool:
    """Whether the user of this machine lets code of manifests run, if whoever asks for it allowed it too."""
    return not _jobs or os.environ.get(NODE_CODE) == ALLOWED
