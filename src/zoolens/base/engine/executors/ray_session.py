"""The Ray cluster that this process has joined: whether it is still there, and another one that takes its place.

A head that is killed and started again under the same address is another cluster, which knows nothing of our jobs. Ray
2.60 does not say so: its driver waits for ever, or is ended without a word after a minute without a head. So a thread
asks who is there every few seconds, with a fresh client each time, since one that was connected to the old head may
never answer. Ray with a Redis keeps its session when its head is started again: nothing is done then.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from zoolens.base.errors import ZoolensError, first_line

_EVERY: Final = 2.0  # seconds between two looks
_CONNECT: Final = 2.0  # seconds
_ANSWER: Final = 5.0  # seconds
_AWAY: Final = 30.0  # seconds without a head after which we leave: after sixty, Ray ends this process
_REJOIN: Final = 300.0  # seconds for a cluster to come back
_PAUSE: Final = 2.0  # seconds between two tries to join
_TRY: Final = 0.5  # seconds between two tries to connect

_log = logging.getLogger("zoolens.ray")


class Seen(Enum):
    SAME = "the cluster that we joined"
    OTHER = "another cluster under its address"
    AWAY = "no answer"


class RaySession:
    """`join` joins the cluster as a driver. `left` is called when the cluster is gone, before it is left; `joined` when
    another is there, or with the error that ends all hope. Both in a thread of this object, while `lock` is held."""

    def __init__(
        self,
        ray: Any,
        join: Callable[[], None],
        left: Callable[[], None],
        joined: Callable[[ZoolensError | None], None],
    ) -> None:
        self._ray, self._join, self._left, self._joined = ray, join, left, joined
        self.lock = threading.RLock()
        self._there = threading.Event()
        self._there.set()
        self._closed = threading.Event()
        self._remember()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Waits while the head does not answer, until it is back or another cluster was joined, or none was."""
        self._there.wait()

    def close(self) -> None:
        self._closed.set()
        self._there.set()
        self._thread.join(_CONNECT + _ANSWER)

    def look(self) -> Seen:
        if not _listens(self.address):
            # Ray's own client would wait for forty seconds.
            return Seen.AWAY
        try:
            client = self._ray._raylet.GcsClient(address=self.address)
            name = client.internal_kv_get(b"session_name", namespace=b"session", timeout=_ANSWER)
        except Exception as error:
            # It starts, or it is ending; the next look tells.
            _log.debug("the head of the Ray cluster: %s", first_line(error))
            return Seen.AWAY
        return Seen.SAME if name is None or name.decode() == self._name else Seen.OTHER

    def _remember(self) -> None:
        self._name = str(self._ray._private.worker.global_worker.node.session_name)
        self.address = str(self._ray.get_runtime_context().gcs_address)

    def _watch(self) -> None:
        away: float | None = None
        while not self._closed.wait(_EVERY):
            seen = self.look()
            if seen is Seen.SAME:
                away = None
                self._there.set()
                continue
            self._there.clear()
            away = away or time.monotonic()
            if seen is Seen.OTHER or time.monotonic() - away > _AWAY:
                away = None
                if self._rejoin() is not None:
                    return

    def _rejoin(self) -> ZoolensError | None:
        with self.lock:
            _log.warning(
                "The Ray cluster at %s is gone; its jobs are given out again when it is back. Trying for up to %.0f s.",
                self.address,
                _REJOIN,
            )
            deadline = time.monotonic() + _REJOIN
            try:
                while True:
                    try:
                        return self._exchanged(deadline)
                    except Exception as error:
                        # It may be lost again at the moment in which it is joined.
                        _log.debug("the new Ray cluster: %s", first_line(error))
                        if time.monotonic() > deadline:
                            raise
            finally:
                # Whoever waits for a cluster must not wait for ever.
                self._there.set()

    def _exchanged(self, deadline: float) -> ZoolensError | None:
        """Leaves the cluster that is gone for the one that takes its place; the error that ends all hope."""
        self._left()
        self._ray.shutdown()
        error = self._joined_again(deadline)
        if error is None:
            self._remember()
            _log.warning("The Ray cluster at %s is back.", self.address)
        self._joined(error)
        return error

    def _joined_again(self, deadline: float) -> ZoolensError | None:
        error = ZoolensError("nobody listens at its address")
        while not self._closed.wait(_PAUSE):
            if _listens(self.address):
                try:
                    self._join()
                except ZoolensError as refused:
                    error = refused
                else:
                    return None
            if time.monotonic() > deadline:
                break
        return ZoolensError(
            f"The Ray cluster at {self.address} did not come back: {error.message.rstrip('.')}.",
            hint="Run the same command again when it is there: what is finished is kept.",
        )


def wait_for_listener(address: str, seconds: float) -> None:
    """Returns when somebody listens at host:port. Ray itself waits for minutes, in words of its own. ZoolensError:
    nobody does."""
    deadline = time.monotonic() + seconds
    while (refused := _refusal(address)) is not None:
        if time.monotonic() > deadline or isinstance(refused, socket.gaierror):
            reason = "its host is unknown" if isinstance(refused, socket.gaierror) else "nobody listens there"
            raise ZoolensError(
                f"The Ray cluster at {address} cannot be used: {reason}.",
                hint="Is it running, and is its address right?",
            )
        time.sleep(_TRY)


def _listens(address: str) -> bool:
    return _refusal(address) is None


def _refusal(address: str) -> Exception | None:
    """Why nobody can be reached at host:port; None: somebody listens."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT).close()
    except (OSError, ValueError) as error:
        return error
    return None
