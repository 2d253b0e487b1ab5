"""Keeps what came of a pass in the store while it goes on, and holds the pass for this process.

A thread writes what changed about once in a second, and renews the lease. The content of a pass is written as a whole:
for 16,000 cells that is some megabytes, which after every single cell would be more work than some of the evaluations.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from zoolens.base.errors import StoreError, ZoolensError
from zoolens.base.store.database import Database
from zoolens.base.store.passes import LEASE, Holder, PassRecord, begin_pass, keep_pass, release_pass

WRITE_EVERY: Final = 1.0  # seconds
_SHARE: Final = 20  # a write that takes long is followed by a pause of so many times its length
_BEAT: Final = LEASE / 4


class PassKeeper:
    """One pass of a plan, as a context manager. `content` says what came of it so far, and is called in a thread.
    Whoever changes what it says holds `lock` meanwhile, and calls `changed`."""

    def __init__(self, database: Database, plan: str, who: str, content: Callable[[], Mapping[str, Any]]) -> None:
        self.lock = threading.Lock()
        self._database, self._plan, self._content = database, plan, content
        self._holder = Holder.this_process(who)
        self._stop, self._dirty = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._write_on, daemon=True)
        self._lost: ZoolensError | None = None
        self._finished = False
        self.record: PassRecord

    def __enter__(self) -> Self:
        """Takes the pass that was not finished, or a new one. ZoolensError: another process carries it out."""
        self.record = begin_pass(self._database, self._plan, self._holder)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        self._dirty.set()
        self._thread.join()
        try:
            if self._lost is not None:
                raise self._lost
            release_pass(self._database, self.record.id, self._holder, self._now(), ended=self._finished)
        except ZoolensError:
            # What ended the work says more than that its pass could not be kept.
            if kind is None:
                raise

    def changed(self) -> None:
        """Something new came of the pass. Raises where another process took it over."""
        if self._lost is not None:
            raise self._lost
        self._dirty.set()

    def finish(self) -> None:
        """Everything was done: the pass ends with the context."""
        self._finished = True

    def _now(self) -> Mapping[str, Any]:
        with self.lock:
            return self._content()

    def _write_on(self) -> None:
        pause = WRITE_EVERY
        while not self._stop.wait(pause):
            self._dirty.wait(max(0.0, _BEAT - pause))
            if self._stop.is_set():
                return
            self._dirty.clear()
            began = time.monotonic()
            try:
                keep_pass(self._database, self.record.id, self._holder, self._now())
            except (StoreError, OSError):
                self._dirty.set()  # it is tried again; the lease may be over by then
            except ZoolensError as lost:
                self._lost = lost
                return
            pause = min(_BEAT, max(WRITE_EVERY, _SHARE * (time.monotonic() - began)))
