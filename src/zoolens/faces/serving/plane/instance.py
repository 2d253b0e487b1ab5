"""One worker process of a model, driven by the event loop: no thread waits for it, and none is started for a batch.

A batch is written to shared memory, and the loop watches the pipe on which the answer comes. The same pipe tells when a
worker dies, also while it is idle. Whatever may block (starting a worker, collecting a dead one) runs in a thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Final

import numpy as np

from zoolens.base.errors import UnexpectedError, WorkerError, WorkerTimeout, ZoolensError, first_line
from zoolens.base.numerics.sequence_alignment import common_beginning
from zoolens.base.protocol.messages import Tensor
from zoolens.inventory.runtimes.isolation.isolated_session import IsolatedSession
from zoolens.inventory.runtimes.runtime import Tensors
from zoolens.inventory.tasks.task import Answers

MOST_DEATHS: Final = 5  # in a row, without an answer in between, before a model counts as broken
_NO_TOKENS: Final = np.empty(0, np.int64)
FIRST_PAUSE: Final = 0.25  # seconds before the second restart in a row; doubled for each further one

log = logging.getLogger("zoolens.serving")


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What became of a batch: answers, or an error. `worker_lost`: the worker died or was killed over it."""

    answers: Mapping[str, Tensor] | None
    error: ZoolensError | None = None
    worker_lost: bool = False
    input_ns: int = 0
    infer_ns: int = 0
    output_ns: int = 0
    kept: Answers | None = None  # see `Told`

    @property
    def seconds(self) -> float:
        return (self.input_ns + self.infer_ns + self.output_ns) / 1e9


class Instance:
    """Takes one batch at a time, while it is `idle`. `failed` says why it has been given up.

    `changed` is called on the loop whenever the instance has become idle or has been given up.
    """

    def __init__(
        self,
        title: str,
        open_session: Callable[[], IsolatedSession],
        call_limit: float,
        executor: Executor,
        changed: Callable[[Instance], None],
    ) -> None:
        self.title = title
        self.idle = False
        self.failed: ZoolensError | None = None
        self.restarts = 0
        self.sequence: Tensor = _NO_TOKENS  # what the session keeps keys and values of, as far as is known
        self._open_session = open_session
        self._call_limit = call_limit
        self._executor = executor
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._session: IsolatedSession | None = None
        self._done: Callable[[BatchOutcome], object] | None = None
        self._limit_timer: asyncio.TimerHandle | None = None
        self._given_ns = self._sent_ns = 0
        self._deaths = 0
        self._reserved = self._held = False
        self._restarting: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def busy(self) -> bool:
        return self._done is not None or self._reserved or self._held

    @property
    def process_id(self) -> int | None:
        return None if self._session is None else self._session.process_id

    def attach(self, session: IsolatedSession) -> None:
        """Take over an open session and become idle."""
        self._session = session
        self.sequence = _NO_TOKENS
        self._loop.add_reader(session.descriptor, self._readable)
        self.idle = not (self._reserved or self._held)

    def reserve(self) -> None:
        """Keep the instance for a batch whose inputs are still being made; `run` or `release` follows."""
        self.idle = False
        self._reserved = True

    def release(self) -> None:
        """The batch for which it was reserved does not come."""
        self._reserved = False
        if self._session is not None:
            self.idle = True
            self._changed(self)

    def hold(self) -> None:
        """Keep the instance for several calls of one text; `let_go` follows."""
        self.idle = False
        self._held = True

    def let_go(self) -> None:
        """The text for which it was held has ended."""
        self._held = False
        if self._session is not None and self._done is None and not self._closed:
            self.idle = True
            self._changed(self)

    def run(self, parts: Sequence[Mapping[str, Tensor]], done: Callable[[BatchOutcome], object]) -> None:
        """Give the worker a batch, the rows of some parts one below the other; `done` is called on the loop with what
        became of it. Keys and values of a sequence may be lost."""
        self.sequence = _NO_TOKENS
        self._give(lambda session: session.hand_over(parts), done)

    def extend(self, tokens: Tensor, done: Callable[[BatchOutcome], object]) -> None:
        """Ask the worker for the distribution after a sequence (1 × tokens); as `run`. Tokens with which the sequence
        before began are not computed again."""
        (whole,) = tokens
        # One is computed at least: the answer is the distribution after it.
        kept = min(common_beginning(self.sequence, whole), len(whole) - 1)
        self.sequence = whole[:kept]

        def extended(outcome: BatchOutcome) -> None:
            self.sequence = _NO_TOKENS if outcome.answers is None else whole
            done(outcome)

        self._give(lambda session: session.hand_over_tokens(tokens[:, kept:], kept), extended)

    def _give(self, hand_over: Callable[[IsolatedSession], None], done: Callable[[BatchOutcome], object]) -> None:
        assert self.idle or self._reserved or self._held, "the instance is not idle"
        self.idle = self._reserved = False
        # It died while the inputs were being made.
        if self._session is None:
            error = WorkerError(f"{self.title} ended before it was asked.")
            self._loop.call_soon(done, BatchOutcome(None, error, worker_lost=True))
            return
        self._done = done
        self._given_ns = self._sent_ns = time.perf_counter_ns()
        try:
            hand_over(self._session)
        except ZoolensError as error:
            # These tensors cannot be handed over, which is no fault of the worker.
            self._loop.call_soon(self._finish, None, error)
            return
        except Exception as error:
            # The worker has gone, or memory is short: the batch must not be forgotten.
            self._lose(error)
            return
        self._sent_ns = time.perf_counter_ns()
        if self._limit_timer is None:
            self._limit_timer = self._loop.call_later(self._call_limit, self._check_limit)

    async def close(self) -> None:
        """End the worker. A batch that still runs gets an error."""
        self._closed = True
        self.idle = False
        if self._limit_timer is not None:
            self._limit_timer.cancel()
        if self._restarting is not None:
            self._restarting.cancel()
            await asyncio.wait([self._restarting])
        session = self._detach()
        self._report(None, ZoolensError(f"{self.title} was closed before it answered."), worker_lost=True)
        if session is not None:
            await self._loop.run_in_executor(self._executor, session.close)

    def _readable(self) -> None:
        assert self._session is not None
        arrived_ns = time.perf_counter_ns()
        try:
            answers = self._session.arrived()
        except ZoolensError as error:
            self._deaths = 0
            self._finish(None, error, arrived_ns)
        except Exception as error:
            self._lose(error)
        else:
            if answers is not None:
                self._deaths = 0
                self._finish(answers, None, arrived_ns)

    def _finish(self, answers: Tensors | None, error: ZoolensError | None, arrived_ns: int | None = None) -> None:
        self.idle = not (self._closed or self._held)
        self._report(answers, error, worker_lost=False, arrived_ns=arrived_ns)
        self._changed(self)

    def _report(
        self,
        answers: Tensors | None,
        error: ZoolensError | None,
        *,
        worker_lost: bool,
        arrived_ns: int | None = None,
    ) -> None:
        done, self._done = self._done, None
        if done is not None:
            now_ns = time.perf_counter_ns()
            arrived_ns = arrived_ns or now_ns
            input_ns, infer_ns = self._sent_ns - self._given_ns, arrived_ns - self._sent_ns
            done(BatchOutcome(answers, error, worker_lost, input_ns, infer_ns, now_ns - arrived_ns))

    def _check_limit(self) -> None:
        """Stop a worker that has taken too long. One timer runs on over many batches: a timer for each costs time."""
        self._limit_timer = None
        if self._done is None or self._session is None:
            return
        left = self._call_limit - (time.perf_counter_ns() - self._sent_ns) / 1e9
        if left > 0:
            self._limit_timer = self._loop.call_later(left, self._check_limit)
            return
        self._lose(
            WorkerTimeout(
                f"{self.title} did not answer within {self._call_limit:g} s; its process was stopped.",
                hint="Send less at once, or allow more time with --call-limit.",
            )
        )

    def _lose(self, error: Exception) -> None:
        """The worker is of no more use: report its batch as lost, and start another one."""
        self.idle = False
        session = self._detach()
        assert session is not None
        self._restarting = self._loop.create_task(self._restart(session, error))

    def _detach(self) -> IsolatedSession | None:
        session, self._session = self._session, None
        if session is not None:
            self._loop.remove_reader(session.descriptor)
        return session

    async def _restart(self, session: IsolatedSession, error: Exception) -> None:
        in_thread = self._loop.run_in_executor
        if isinstance(error, ZoolensError):
            session.kill()
            reason = error
            ending = in_thread(self._executor, session.close)
        else:
            reason = await in_thread(self._executor, session.ended, error)
            ending = None
        log.warning("worker lost: %s", reason, extra={"model": self.title})
        self._report(None, reason, worker_lost=True)
        if ending is not None:
            await ending
        while not self._closed:
            self._deaths += 1
            if self._deaths > MOST_DEATHS:
                self.failed = reason
                log.error("model given up after %d failures in a row: %s", self._deaths, reason)
                self._changed(self)
                return
            if self._deaths > 1:
                await asyncio.sleep(FIRST_PAUSE * 2 ** (self._deaths - 2))
            opening = asyncio.ensure_future(in_thread(self._executor, self._context.copy().run, self._open_session))
            try:
                opened = await asyncio.shield(opening)
            except asyncio.CancelledError:
                opening.add_done_callback(self._close_unused)
                raise
            except Exception as problem:
                # Whatever it is, the requests that wait must hear of it.
                reason = unexpected(problem, f"{self.title} cannot be started again")
                continue
            self.restarts += 1
            self.attach(opened)
            self._changed(self)
            return

    def _close_unused(self, opening: asyncio.Future[IsolatedSession]) -> None:
        if not opening.cancelled() and opening.exception() is None:
            self._loop.run_in_executor(None, opening.result().close)


def unexpected(error: Exception, doing: str) -> ZoolensError:
    """The error itself, or one with a sentence where nobody foresaw it."""
    if isinstance(error, ZoolensError):
        return error
    return UnexpectedError(f"{doing}: {type(error).__name__}: {first_line(error)}")
