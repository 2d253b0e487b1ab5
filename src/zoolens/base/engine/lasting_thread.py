"""A thread that lives as long as this process and starts all workers.

The kernel's parent-death signal (prctl PR_SET_PDEATHSIG) is sent when the thread that started a process ends, not when
its process does. A worker that a short-lived thread started would be killed with that thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
_Order = tuple[Callable[[], Any], "Future[Any]"]

_lock = threading.Lock()
_queues: dict[int, SimpleQueue[_Order]] = {}  # by process, since a fork has no threads but its own


def started_for_good(start: Callable[[], T]) -> T:
    """Call `start` in the lasting thread, and return or raise what it does."""
    result: Future[T] = Future()
    with _lock:
        queue = _queues.get(os.getpid())
        if queue is None:
            queue = _queues[os.getpid()] = SimpleQueue()
            threading.Thread(target=_serve, args=(queue,), name="zoolens-starter", daemon=True).start()
    queue.put((start, result))
    return result.result()


def _serve(queue: SimpleQueue[_Order]) -> None:
    while True:
        start, result = queue.get()
        try:
            result.set_result(start())
        except BaseException as error:  # to whoever asked
            result.set_exception(error)
        # Otherwise the last worker's streams would be held until the next one is started.
        del start, result
