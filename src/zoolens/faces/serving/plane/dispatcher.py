"""Which tier answers which batch: requests that wait form batches, and the policy chooses a tier for each.

Everything here runs on the event loop's thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from itertools import islice
from typing import Final

from zoolens.base.protocol.errors import ServingError
from zoolens.faces.serving.plane.batches import first_requests, form_batch, may_grow, time_left
from zoolens.faces.serving.plane.batching_choice import BatchingChoice
from zoolens.faces.serving.plane.flights import Flight, Flights
from zoolens.faces.serving.plane.instance import Instance
from zoolens.faces.serving.plane.next_token import preferred_place
from zoolens.faces.serving.plane.plane_answers import unforeseen
from zoolens.faces.serving.plane.plane_settings import EndpointSettings
from zoolens.faces.serving.plane.pool import WarmPool
from zoolens.faces.serving.plane.queue import NEVER, Line, Pending, RequestQueue
from zoolens.faces.serving.plane.rungs import RungState
from zoolens.faces.serving.plane.served_ladder import ServedLadder
from zoolens.faces.serving.plane.served_model import OpenModel
from zoolens.faces.serving.plane.timing import ArrivalRate
from zoolens.faces.serving.policies.policy import Choice, Situation

_ONLY: Final = Choice(0, "There is no other model.")

log = logging.getLogger("zoolens.serving")


class Dispatcher:
    """Starts the batches of one endpoint, and calls `fail` with every request that cannot be answered."""

    def __init__(
        self,
        ladder: ServedLadder,
        pool: WarmPool,
        queue: RequestQueue,
        flights: Flights,
        settings: EndpointSettings,
        arrivals: ArrivalRate,
        fail: Callable[[Pending, ServingError], None],
    ) -> None:
        self.hurry = False  # batches no longer wait for more requests
        self.sharing: BatchingChoice | None = None  # None: requests share batches wherever the model allows it
        self._ladder, self._pool, self._settings = ladder, pool, settings
        self._queue, self._flights, self._arrivals = queue, flights, arrivals
        self._fail = fail

    @property
    def _largest(self) -> int:
        """Rows of several requests that one call may have."""
        if self.sharing is not None and not self.sharing.together:
            return 1
        return self._settings.max_batch if self._ladder.signature.batched else 1

    def start_batches(self, now: float) -> float:
        """Start batches while there are requests, and something that can run them. Gives back when to look again, on
        the monotonic clock, if nothing happens before."""
        while self._queue and len(self._flights) < self._settings.concurrency:
            wake = NEVER
            for line in self._queue.lines():
                until = self._try(line, now)
                if until is None:
                    break  # the lines have changed
                wake = min(wake, until)
            else:
                return wake
            now = time.monotonic()
        return NEVER

    def start_alone(self, pending: Pending) -> bool:
        """The short way of a lone request to the only tier: as `start_batches` would do it, in half the time. False
        where the request has to wait, or to share a batch."""
        rungs, settings = self._ladder.rungs, self._settings
        if len(rungs) > 1 or self._queue.requests or settings.max_delay or len(self._flights) >= settings.concurrency:
            return False
        state = rungs[0]
        model = state.slot.model
        place = preferred_place(pending.request)
        instance = None if model is None or state.slot.leaving else model.idle_instance(place)
        if model is None or instance is None:
            return False
        self._start([pending], state, model, instance, _ONLY.reason, pending.arrived)
        return True

    def convert_next(self) -> None:
        """While batches run, begin to convert the inputs of as many requests as will probably be in the next one."""
        if not self._ladder.converts or not self._queue or (latest := self._flights.latest) is None:
            return
        for line in self._queue.lines()[:1]:
            for pending in islice(line, len(latest.pendings)):
                if latest.state.place in pending.allowed:
                    self._flights.convert_ahead(pending, latest.state.adapter)

    def _try(self, line: Line, now: float) -> float | None:
        """Start a batch of this line. None: something was done. Otherwise: when to look again, unless woken before."""
        head = line[0]
        available = self._ladder.available
        usable = available & head.allowed
        if not usable:
            return self._call_for(line)
        wait_until = head.arrived + self._settings.max_delay
        if now < wait_until and not self.hurry and may_grow(line, self._largest):
            return wait_until
        states = [self._ladder.rungs[place] for place in usable]
        batch = form_batch(line, self._largest, self._settings, states, now)
        for pending in batch:
            self._queue.take(pending)
        try:
            return self._send(batch, available, now)
        except Exception as error:
            # Otherwise these requests would wait for ever.
            log.exception("a batch of %s cannot be started", self._ladder.name)
            refused = unforeseen(self._ladder.name, error)
            for pending in batch:
                self._fail(pending, refused)
            return None

    def _call_for(self, line: Line) -> float | None:
        """No tier that these requests accept can run: open one, or say why that cannot be; as `_try`."""
        states = [self._ladder.rungs[place] for place in sorted(line[0].allowed)]
        if any(state.slot.loading is not None or state.slot.ready for state in states):
            # It is being opened, or its worker is being restarted.
            return NEVER
        hopeful = [state for state in states if state.slot.may_open]
        if hopeful:
            fitting = [state for state in hopeful if self._pool.may_fit(state.rung.memory_bytes)]
            self._pool.preload((fitting or hopeful)[0].slot)
            return NEVER
        error = self._ladder.unavailable(states[:1])
        for pending in list(line):
            allowed = self._ladder.accepted(pending.request)
            if allowed == pending.allowed:
                self._fail(pending, error)
            else:
                # It was routed to a model that has failed meanwhile: others may answer it.
                self._queue.take(pending)
                pending.allowed = allowed
                self._queue.add(pending)
        return None

    def _send(self, batch: list[Pending], available: frozenset[int], now: float) -> float | None:
        """Give a batch to the tier that the policy chooses; as `_try`."""
        ladder, allowed = self._ladder, batch[0].allowed
        choice, situation = self._choose(batch, available, allowed, now)
        for place in ladder.choosable.intersection(choice.preload):
            self._pool.preload(ladder.rungs[place].slot)
        place = choice.rung
        failed = ladder.missing_before(place, allowed)
        # It is tried again now and then, whatever the policy preloads.
        if failed is not None:
            self._pool.preload(failed.slot)
        if place not in available or place not in allowed:
            if place in allowed:
                self._pool.preload(ladder.rungs[place].slot)
            place = min(available & allowed)
        state = ladder.rungs[place]
        model = state.slot.model
        instance = None if model is None else model.idle_instance(preferred_place(batch[0].request))
        # Another endpoint or a shadow uses it, for as long as one batch takes.
        if model is None or instance is None:
            self._queue.put_back(batch)
            return NEVER
        together = first_requests(batch, min(choice.batch or model.verdict.rows, model.verdict.rows))
        if together < len(batch):
            self._queue.put_back(batch[together:])
            batch = batch[:together]
        self._start(batch, state, model, instance, self._reason(choice, state, allowed), now)
        if situation is not None and allowed == ladder.choosable:
            ladder.current = place
        return None

    def _reason(self, choice: Choice, state: RungState, allowed: frozenset[int]) -> str:
        """Why this tier answers: not the policy's words where a better tier cannot, of which the policy knows only that
        it is not loaded."""
        failed = self._ladder.missing_before(state.place, allowed)
        if failed is None or failed.slot.problem is None:
            return choice.reason
        return f"{failed.rung.model} cannot answer: {failed.slot.problem.message}"

    def _choose(
        self, batch: list[Pending], available: frozenset[int], allowed: frozenset[int], now: float
    ) -> tuple[Choice, Situation | None]:
        """The tier for a batch; and what the policy was told, where it was asked."""
        ladder = self._ladder
        if len(allowed) == 1:
            (place,) = allowed
            only = len(ladder.rungs) == 1
            return (_ONLY if only else Choice(place, "The request may be answered by this model only.")), None
        rows = sum(pending.rows for pending in batch)
        left = [seconds for pending in batch if (seconds := time_left(pending, self._settings, now)) is not None]
        situation = Situation(
            now=now,
            wall=time.time(),
            current=ladder.current,
            batch=rows,
            waiting=self._queue.requests + len(batch),
            inputs_waiting=self._queue.rows + rows,
            first=batch[0].rows,
            oldest_wait=now - batch[0].arrived,
            time_left=min(left, default=None),
            arrival_rate=self._arrivals.at(time.monotonic()),
            loaded=available & ladder.choosable,
            allowed=allowed,
            max_batch=self._largest,
            instances=self._settings.concurrency,
            memory_limit=self._pool.memory_limit,
            memory_used=self._pool.memory_used,
        )
        try:
            return ladder.policy.choose(situation), situation
        except Exception:
            # An error of a plug-in: its requests must not be lost.
            log.exception("the policy %s failed", ladder.policy.name)
            return Choice(min(available & allowed), "The policy failed."), situation

    def _start(
        self, batch: list[Pending], state: RungState, model: OpenModel, instance: Instance, reason: str, now: float
    ) -> None:
        state.slot.last_used = now
        flight = Flight(
            state=state,
            model=model,
            previous=self._ladder.current,
            reason=reason,
            free=batch[0].allowed == self._ladder.choosable,
            pendings=batch,
            rows=batch[0].rows if len(batch) == 1 else sum(pending.rows for pending in batch),
            waiting=self._queue.requests + len(batch),
            started=now,
            started_ns=time.perf_counter_ns(),
        )
        self._flights.start(flight, instance)
