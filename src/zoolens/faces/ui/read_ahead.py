"""What the first pages ask for, read before somebody asks: of very many runs that takes seconds.

The columns of all runs are read while the explorer itself is still being imported. What lists are sorted by follows a
moment after it answers, since the first page does not need it and would be slowed down.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from zoolens.base.errors import ZoolensError
from zoolens.base.store.model_activity import model_activity
from zoolens.base.store.run_columns import RunIndex
from zoolens.base.store.scopes import batch_scope
from zoolens.base.store.store import open_store
from zoolens.base.store.target import STORE_VARIABLE
from zoolens.faces.ui.settings import Settings

log = logging.getLogger("zoolens.ui")

_PAUSE: Final = 1.0  # seconds in which a browser asks for the first page
SORTED_BY: Final = (("top1", ""), ("latency_p50", batch_scope(1)))  # what lists of runs are sorted by most often


@contextmanager
def open_runs(settings: Settings) -> Iterator[RunIndex]:
    """Open the store, and begin to read the columns of its runs."""
    with open_store(settings.store, must_exist=_is_named(settings)) as store:
        index = RunIndex(store)
        with _in_background(lambda _: index.columns()):
            yield index


@contextmanager
def reading_figures(index: RunIndex) -> Iterator[None]:
    """Read, in a moment, what the pages of models show and what lists of runs are sorted by."""

    def read(ended: threading.Event) -> None:
        if ended.wait(_PAUSE):
            return
        model_activity(index)
        for metric, scope in SORTED_BY:
            index.figures(index.columns(), metric, scope)

    with _in_background(read):
        yield


@contextmanager
def _in_background(read: Callable[[threading.Event], object]) -> Iterator[None]:
    """Read in a thread, which is told when nobody asks any more."""
    ended = threading.Event()

    def tried() -> None:
        try:
            read(ended)
        except ZoolensError:
            log.debug("Runs could not be read ahead: the page that asks for them will say why.", exc_info=True)

    thread = threading.Thread(target=tried, name="runs")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _is_named(settings: Settings) -> bool:
    """Whether somebody named a store, which has to be there then. The user's own is made, so that the first thing that
    somebody opens may be the explorer."""
    return settings.store is not None or bool(os.environ.get(STORE_VARIABLE, "").strip())
