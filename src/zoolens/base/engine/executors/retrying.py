"""A job that is given out again when its machine was lost, as the retry policy says."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from zoolens.base.engine.retry_policy import RetryPolicy
from zoolens.base.errors import ZoolensError


def retried(
    start: Callable[[], Future[Any]],
    policy: RetryPolicy,
    passing: Callable[[BaseException], bool],
    lost: Callable[[BaseException, float], None],
) -> Future[Any]:
    """A future of what `start` begins. `passing`: whether an error is worth another attempt. `lost` is told, in any
    thread, why an attempt ended and how many seconds later the next one begins. Cancelling it cancels the attempt."""
    return _Retried(start, policy, passing, lost).outer


class _Retried:
    def __init__(
        self,
        start: Callable[[], Future[Any]],
        policy: RetryPolicy,
        passing: Callable[[BaseException], bool],
        lost: Callable[[BaseException, float], None],
    ) -> None:
        self._start, self._policy, self._passing, self._lost = start, policy, passing, lost
        self._retries = 0
        self._attempt: Future[Any] | None = None
        self.outer: Future[Any] = Future()
        self.outer.add_done_callback(self._cancel)
        try:
            attempt = start()
        except ZoolensError as error:
            # The cluster may be away at this very moment. What can never be begun is an error at once.
            if not passing(error):
                raise
            self._settle(error, None)
        else:
            self._begin(attempt)

    def _begin(self, attempt: Future[Any]) -> None:
        self._attempt = attempt
        attempt.add_done_callback(self._ended)
        if self.outer.cancelled():
            attempt.cancel()

    def _cancel(self, outer: Future[Any]) -> None:
        if outer.cancelled() and self._attempt is not None:
            self._attempt.cancel()

    def _ended(self, attempt: Future[Any]) -> None:
        if attempt.cancelled() or self.outer.cancelled():
            self.outer.cancel()
            return
        self._settle(attempt.exception(), attempt)

    def _settle(self, error: BaseException | None, attempt: Future[Any] | None) -> None:
        if error is not None and self._passing(error) and self._retries < self._policy.retries:
            self._retries += 1
            pause = self._policy.pause_before(self._retries)
            self._lost(error, pause)
            timer = threading.Timer(pause, self._again)
            timer.daemon = True
            timer.start()
        elif self.outer.set_running_or_notify_cancel():
            if error is not None:
                self.outer.set_exception(error)
            elif attempt is not None:
                self.outer.set_result(attempt.result())

    def _again(self) -> None:
        if self.outer.cancelled():
            return
        try:
            attempt = self._start()
        except ZoolensError as error:
            # The cluster itself may be away for a moment.
            self._settle(error, None)
        else:
            self._begin(attempt)
