"""Functions that read files of models run in a process of their own, with a time limit: they may import frameworks that
need hundreds of megabytes, and the server must go on whatever becomes of them.
"""

from __future__ import annotations

import threading
from typing import Any, Final

from zoolens.base.engine.executors.executor import Job
from zoolens.base.engine.function_process import call_in_process
from zoolens.faces.ui.endpoint import RequestError

TIMEOUT: Final = 120.0  # seconds
_PATIENCE: Final = 60.0  # seconds in which one of the places becomes free
_AT_ONCE: Final = 2

_places = threading.BoundedSemaphore(_AT_ONCE)


def computed(function: str, job: Job, doing: str) -> Any:
    """What `call_in_process` gives; RequestError where too many functions are at work."""
    if not _places.acquire(timeout=_PATIENCE):
        raise RequestError("The explorer computes too much at the moment: try again in a minute.", status=503)
    try:
        return call_in_process(function, job, doing, timeout=TIMEOUT)
    finally:
        _places.release()
