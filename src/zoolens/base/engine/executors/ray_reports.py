"""What jobs on a Ray cluster tell their caller while they run."""

from __future__ import annotations

import itertools
import logging
import threading
from typing import Any, Final

from zoolens.base.engine.executors.reports import Tell, nobody
from zoolens.base.errors import first_line

_LOOK: Final = 0.2  # seconds between two looks into the mailbox
_PATIENCE: Final = 1.0  # seconds of one look

_log = logging.getLogger(__name__)


class Mailbox:
    """Keeps on the cluster what jobs tell until the caller takes it.

    Ray's own Queue is an asynchronous actor, which does not keep the order in which one job calls it.
    """

    def __init__(self) -> None:
        self._reports: list[tuple[int, Any]] = []

    def put(self, number: int, message: Any) -> None:
        self._reports.append((number, message))

    def take(self) -> list[tuple[int, Any]]:
        taken, self._reports = self._reports, []
        return taken


class RayReports:
    """What jobs tell comes through a mailbox on the cluster; a thread of ours hands it on.

    The mailbox is an actor that takes no core. When its node is lost Ray starts it again elsewhere, without what was in
    it. A generator task would need no actor, but one that runs again after a loss may tell other things than before,
    and Ray counts what was told: the result would take the place of a report.
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._listeners: dict[int, Tell] = {}
        self._numbers = itertools.count()
        self.open()

    def open(self) -> None:
        """Makes the mailbox on the cluster that is joined. Whoever listened before `close` still does."""
        self.mailbox = self._ray.remote(Mailbox).options(num_cpus=0, max_restarts=-1).remote()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._hand_on, daemon=True)
        self._thread.start()

    def listen(self, tell: Tell) -> int:
        number = next(self._numbers)
        self._listeners[number] = tell
        return number

    def forget(self, number: int) -> None:
        self._listeners.pop(number, None)

    def close(self) -> None:
        """Waits until the thread has ended: a call after Ray's end would start another cluster."""
        self._closed.set()
        self._thread.join(2 * _PATIENCE)

    def _hand_on(self) -> None:
        asked = None
        while not self._closed.wait(_LOOK):
            if not self._listeners:
                continue
            asked = asked or self.mailbox.take.remote()
            try:
                reports = self._ray.get(asked, timeout=_PATIENCE)
            except TimeoutError:
                # It starts. What is asked for again would lose what is on its way.
                continue
            except Exception as error:
                # Its node is lost, or all of the cluster, which the jobs' own errors say.
                _log.debug("reports of jobs: %s", first_line(error))
                reports = []
            asked = None
            for number, message in reports:
                self._listeners.get(number, nobody)(message)
