"""The models of all zoos, listed while the server answers already.

To list a zoo for the first time imports its framework, which takes seconds and hundreds of megabytes. A process of its
own does that and keeps what it found; here only the kept listings are read.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from zoolens.base import plugins
from zoolens.base.engine.executors.executor import task
from zoolens.base.engine.function_process import COMPUTING
from zoolens.base.engine.pool import WorkerPool
from zoolens.base.errors import ZoolensError
from zoolens.inventory.zoos import listing
from zoolens.inventory.zoos.listing import is_kept, list_zoo
from zoolens.inventory.zoos.zoo import Entry

log = logging.getLogger("zoolens.ui")

_KEEP_LISTING: Final = f"{listing.__name__}:keep_listing"
_LONGEST: Final = 600.0  # seconds for one zoo


@dataclass(frozen=True, eq=False)
class Listed:
    """What is known so far."""

    version: int = 0
    entries: Sequence[Entry] = ()
    # Why a zoo is not there
    notes: Sequence[str] = ()
    # Whether every zoo was listed
    complete: bool = False


@dataclass
class ZooListing:
    """Use as a context manager: inside, `listed` grows until it is complete. Threads may share it."""

    zoos: Sequence[str] = ()  # none named: all
    listed: Listed = field(default_factory=Listed)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _pool: WorkerPool = field(default_factory=lambda: WorkerPool(recycled=1))
    _stopped: bool = False

    def __enter__(self) -> ZooListing:
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._stopped = True
        self._pool.close()
        self._thread.join()

    def wait(self, seconds: float) -> bool:
        """Wait for a complete listing; False: it takes longer."""
        self._thread.join(seconds)
        return self.listed.complete

    def again(self) -> None:
        """List all zoos again. What is known stays until that is done; nothing happens while a listing is at work."""
        with self._lock:
            if self._stopped or self._thread.is_alive():
                return
            known = self.listed
            self.listed = Listed(known.version + 1, known.entries, known.notes)
            self._begin()

    def _begin(self) -> None:
        self._thread = threading.Thread(target=self._list, name="zoo listing", daemon=True)
        self._thread.start()

    def _list(self) -> None:
        names = self.zoos or plugins.names(plugins.ZOOS)
        first = not self.listed.entries
        entries: list[Entry] = []
        notes: list[str] = []
        for name in sorted(names, key=lambda name: not is_kept(name)):  # what is quick comes first
            if not is_kept(name):
                self._keep(name)
            if self._stopped:
                return
            try:
                listed = list_zoo(name, None, named=False)
            except Exception as error:
                # A plug-in of somebody else.
                log.warning("The zoo %s cannot be listed: %s", name, error)
                notes.append(f"{name}: cannot be listed: {error}")
            else:
                entries += listed.entries
                notes += listed.notes
            # Pages then have something to show.
            if first:
                self._tell(entries, notes, complete=False)
        self._tell(entries, notes, complete=True)

    def _tell(self, entries: Sequence[Entry], notes: Sequence[str], *, complete: bool) -> None:
        self.listed = Listed(self.listed.version + 1, tuple(entries), tuple(notes), complete)

    def _keep(self, name: str) -> None:
        # Why it cannot be listed is said when it is listed here.
        with suppress(ZoolensError):
            self._pool.ask(COMPUTING, task(_KEEP_LISTING, {"zoo": name}), f"listing {name}", timeout=_LONGEST)
