"""One served name: requests wait in its queue, form batches, and a policy says which rung of its ladder answers each.

A plain model is an endpoint with a ladder of one rung. Everything here runs on the event loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final

from zoolens.errors import ZoolensError, first_line
from zoolens.protocol.errors import Refusal, ServingError
from zoolens.protocol.messages import InferRequest, InferResponse, Tensor
from zoolens.serving.adapters import Adapter
from zoolens.serving.ladder import Ladder, Rung
from zoolens.serving.observer import Observer
from zoolens.serving.plane.accounting import Accounts
from zoolens.serving.plane.admission import check_room, check_time
from zoolens.serving.plane.answers import count_nans, failure, row_problem, rows_of, selected
from zoolens.serving.plane.batches import first_requests, form_batch, may_grow, time_left
from zoolens.serving.plane.classification import Labels
from zoolens.serving.plane.flights import Flight, Flights, answer_for_observer
from zoolens.serving.plane.instance import Instance, Outcome
from zoolens.serving.plane.model import OpenModel
from zoolens.serving.plane.pool import Slot, WarmPool
from zoolens.serving.plane.queue import NEVER, Done, Line, Pending, RequestQueue
from zoolens.serving.plane.rungs import RungState, accepted_rungs
from zoolens.serving.plane.settings import EndpointSettings
from zoolens.serving.plane.signature import Signature
from zoolens.serving.plane.timing import ArrivalRate, Timing
from zoolens.serving.plane.traces import Traces
from zoolens.serving.policies.base import Choice, Policy, Situation

_ONLY: Final = Choice(0, "There is no other model.")

log = logging.getLogger("zoolens.serving")

Route = Callable[[InferRequest], int | None]


class Endpoint:
    """`signature` is what clients see; without one it is that of the reference. `service`: answers say how equivalent
    the model that gave them is to the reference.

    `extra`: rungs behind those of the ladder that the policy never chooses. A client may name them, and `route` gives
    the number of the rung that answers a request which names none; None leaves it to the policy. `labels`: class names
    of the outputs that adapters make; without them a model's own are used.
    """

    def __init__(
        self,
        name: str,
        version: str,
        ladder: Ladder,
        policy: Policy,
        slots: Sequence[Slot],
        pool: WarmPool,
        settings: EndpointSettings,
        *,
        signature: Signature | None = None,
        adapters: Sequence[Adapter | None] = (),
        observers: Sequence[Observer] = (),
        service: bool = False,
        extra: Sequence[Rung] = (),
        route: Route | None = None,
        labels: Mapping[str, Labels] | None = None,
        traces: Traces | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.version = version
        self.settings = settings
        self.service = service
        self.config = dict(config or {})
        self._accounts = accounts = Accounts(name, version, observers, traces)
        self.counters, self.observers = accounts.counters, accounts.observers
        self.queue = RequestQueue()
        self.current = 0
        self.closed = False
        self._pool = pool
        self._given_signature = signature
        self._route = route
        self._labels = labels
        self._loop = asyncio.get_running_loop()
        self._checked: Signature | None = None  # that the requests which wait were held against
        self._flights = Flights(pool.converters, self._landed)
        self._delay_timer: asyncio.TimerHandle | None = None
        self._arrivals = ArrivalRate()
        self._drained: asyncio.Event | None = None
        self.rungs: list[RungState] = []
        self._set_ladder(ladder, policy, slots, adapters, extra)

    # --- what it is

    @property
    def reference(self) -> Slot:
        return self.rungs[0].slot

    @property
    def signature(self) -> Signature:
        """What clients may send. A ServingError while no model has said so yet."""
        if self._given_signature is not None:
            return self._given_signature
        signature = self.rungs[0].slot.signature
        if signature is None:
            raise self.unavailable()
        return signature

    @property
    def _largest(self) -> int:
        """Rows that one call may have."""
        return self.settings.max_batch if self.signature.batched else 1

    @property
    def ready(self) -> bool:
        """Whether requests are answered, if need be after a model that was closed to save memory is opened again."""
        chosen = (self.rungs[place] for place in self._all)
        return not self.closed and any(
            state.slot.ready or (state.slot.problem is None and state.slot.evictions) for state in chosen
        )

    @property
    def running(self) -> int:
        """Requests in batches that run."""
        return len(self._flights.pendings())

    @property
    def arrival_rate(self) -> float:
        """Requests per second, averaged over about the last second."""
        return self._arrivals.at(time.monotonic())

    def unavailable(self) -> ServingError:
        problem = next((problem for state in self.rungs if (problem := state.slot.problem) is not None), None)
        reason = problem.message if problem is not None else "it is not loaded."
        return ServingError(Refusal.UNAVAILABLE, f"Model '{self.name}' cannot answer: {reason}")

    def replace_ladder(
        self,
        ladder: Ladder,
        policy: Policy,
        slots: Sequence[Slot],
        adapters: Sequence[Adapter | None] = (),
        extra: Sequence[Rung] = (),
        *,
        labels: Mapping[str, Labels] | None = None,
    ) -> None:
        """Serve another ladder from the next batch on. Batches that run are not disturbed, and models that no endpoint
        serves any more are closed. Clients send and get what they did before, but `labels` may have changed."""
        self._labels = labels
        old = [state.slot for state in self.rungs]
        self._set_ladder(ladder, policy, slots, adapters, extra)
        self._check_again()
        self._pool.forget_soon(old)
        self._dispatch()

    def _check_again(self) -> None:
        """Hold what waits against the ladder and the signature as they are now."""
        signature = self._checked = self.signature
        for pending in self.queue.empty():
            try:
                pending.rows, pending.key = signature.check(pending.request)
                pending.allowed = self._allowed(pending.request)
            except ServingError as error:
                self._fail(pending, error)
            else:
                self.queue.add(pending)

    def _set_ladder(
        self,
        ladder: Ladder,
        policy: Policy,
        slots: Sequence[Slot],
        adapters: Sequence[Adapter | None],
        extra: Sequence[Rung],
    ) -> None:
        old = {(state.rung.model, state.rung.runtime): state for state in self.rungs}
        current = self.rungs[self.current] if self.rungs else None
        watching = not self.closed
        self.unwatch()
        self.ladder, self.policy = ladder, policy
        self.rungs = []
        for place, (rung, slot) in enumerate(zip((*ladder.rungs, *extra), slots, strict=True)):
            adapter = adapters[place] if adapters else None
            identity = adapter is None or type(adapter) is Adapter
            state = RungState(place, rung, slot, None if identity else adapter, Timing(rung.profile.seconds))
            known = old.get((rung.model, rung.runtime))
            if known is not None:
                state.timing, state.requests = known.timing, known.requests
            self.rungs.append(state)
            if watching:
                slot.watchers.append(self._dispatch)
        self._converts = any(state.adapter is not None and not state.adapter.quick for state in self.rungs)
        self._all = frozenset(range(len(ladder.rungs)))
        places = {(state.rung.model, state.rung.runtime): state.place for state in self.rungs}
        self.current = 0 if current is None else places.get((current.rung.model, current.rung.runtime), 0)

    def unwatch(self) -> None:
        """Leave the pool's slots: nothing is dispatched any more when they change."""
        for state in self.rungs:
            if self._dispatch in state.slot.watchers:
                state.slot.watchers.remove(self._dispatch)

    # --- requests

    async def infer(self, request: InferRequest) -> InferResponse:
        future: asyncio.Future[InferResponse] = self._loop.create_future()
        cancel = self.submit(request, partial(_settle, future))
        try:
            return await future
        except asyncio.CancelledError:
            cancel()
            raise

    def submit(self, request: InferRequest, done: Done) -> Callable[[], None]:
        """Accept a request, or raise a ServingError. `done` is called once, on the event loop, with the answer or the
        error; it may be called before this returns. What is returned says that nobody waits for the answer any more."""
        arrived_ns = time.perf_counter_ns()
        try:
            pending = self._accept(request, arrived_ns, done)
        except ServingError as error:
            self._accounts.refused(request, error, arrived_ns)
            raise
        if not self._started_at_once(pending):
            self.queue.add(pending)
            self._dispatch()
            self._convert_next()
        return partial(self._cancel, pending)

    def _cancel(self, pending: Pending) -> None:
        if not pending.settled:
            pending.forget()
            self._drop(pending)
            gone = ServingError(Refusal.CANCELLED, "The client has gone.")
            self._accounts.refused(pending.request, gone, pending.arrived_ns)

    async def answer_in_background(self, place: int, inputs: Mapping[str, Tensor]) -> Mapping[str, Tensor] | None:
        """Let a rung answer a batch for somebody who only watches. None: it would delay real requests, ask again later.
        A ZoolensError: the model failed on these inputs, do not ask again."""
        state = self.rungs[place]
        model = state.slot.model
        instance = None if model is None else model.idle_instance()
        if self.queue or self._flights or instance is None:
            return None
        return await answer_for_observer(self._flights, instance, state, inputs)

    def _accept(self, request: InferRequest, arrived_ns: int, done: Done) -> Pending:
        if self.closed:
            raise ServingError(Refusal.UNAVAILABLE, f"Model '{self.name}' is being unloaded.")
        signature = self.signature
        rows, key = signature.check(request)
        queue, settings = self.queue, self.settings
        if not queue.requests:
            self._checked = signature
        model = self.rungs[0].slot.model
        if model is not None and model.unable is not None and self._given_signature is None:
            raise ServingError(Refusal.INVALID, f"Model '{self.name}' cannot be asked here. {model.unable}")
        allowed = self._allowed(request)
        now = time.monotonic()
        self._arrivals.add(now)
        if queue.requests:
            check_room(self.name, queue, settings)
        seconds = request.deadline
        deadline = NEVER if seconds is None else now + seconds
        if seconds is not None or settings.objective is not None:
            accepted = [self.rungs[place] for place in allowed]
            check_time(self.name, rows, accepted, queue, self._flights, settings, now, deadline)
        pending = Pending(request, rows, key, allowed, arrived_ns, now, deadline, done)
        if seconds is not None:
            pending.timer = self._loop.call_later(seconds, self._expire, pending)
        return pending

    def _allowed(self, request: InferRequest) -> frozenset[int]:
        allowed = accepted_rungs(self.name, request, self.rungs, self._all)
        if self._route is not None and allowed is self._all:
            place = self._route(request)
            if place is not None and place < len(self.rungs):
                return frozenset((place,))
        return allowed

    def _drop(self, pending: Pending) -> None:
        """Nobody waits for this request any more: it is not run, or its answer is thrown away."""
        if pending.waiting:
            self.queue.take(pending)
        if pending.timer is not None:
            pending.timer.cancel()
        self._check_drained()

    def _fail(self, pending: Pending, error: ServingError) -> None:
        self._drop(pending)
        if not pending.settled:
            pending.settle(error)
            self._accounts.refused(pending.request, error, pending.arrived_ns)

    def _expire(self, pending: Pending) -> None:
        where = "it waited" if pending.waiting else "it was being answered"
        message = f"The deadline of the request to model '{self.name}' passed while {where}."
        self._fail(pending, ServingError(Refusal.TOO_LATE, message))

    # --- batches

    def _dispatch(self) -> None:
        """Start batches while there are requests, and something that can run them."""
        if not self.queue:
            return
        if self._checked is not self.signature:  # the model was loaded again
            self._check_again()
        while self.queue and len(self._flights) < self.settings.concurrency:
            now = time.monotonic()
            wake = NEVER
            for line in self.queue.lines():
                until = self._try(line, now)
                if until is None:
                    break  # the lines have changed
                wake = min(wake, until)
            else:
                if wake < NEVER:
                    self._wake_at(wake, now)
                return

    def _started_at_once(self, pending: Pending) -> bool:
        """The short way of a lone request to the only rung: as `_dispatch` would do it, in half the time."""
        settings = self.settings
        if (
            len(self.rungs) > 1
            or self.queue.requests
            or settings.max_delay
            or len(self._flights) >= settings.concurrency
        ):
            return False
        state = self.rungs[0]
        model = state.slot.model
        instance = None if model is None or state.slot.leaving else model.idle_instance()
        if model is None or instance is None:
            return False
        self._start([pending], state, model, instance, _ONLY.reason, pending.arrived)
        return True

    def _try(self, line: Line, now: float) -> float | None:
        """Start a batch of this line. None: something was done. Otherwise: when to look again, unless woken before."""
        head = line[0]
        allowed = head.allowed
        available = frozenset(state.place for state in self.rungs if state.available)
        if not available & allowed:
            return self._call_for(line)
        wait_until = head.arrived + self.settings.max_delay
        if now < wait_until and self._drained is None and may_grow(line, self._largest):
            return wait_until
        usable = [self.rungs[place] for place in available & allowed]
        batch = form_batch(line, self._largest, self.settings, usable, now)
        for pending in batch:
            self.queue.take(pending)
        try:
            return self._send(batch, available, now)
        except Exception as error:  # otherwise these requests would wait for ever
            log.exception("a batch of %s cannot be started", self.name)
            self._fail_unforeseen(batch, error)
            return None

    def _send(self, batch: list[Pending], available: frozenset[int], now: float) -> float | None:
        """Give a batch to the rung that the policy chooses; as `_try`."""
        allowed = batch[0].allowed
        choice, situation = self._choose(batch, available, allowed, now)
        for place in self._all.intersection(choice.preload):
            self._pool.preload(self.rungs[place].slot)
        place = choice.rung
        if place not in available or place not in allowed:
            if place in allowed:
                self._pool.preload(self.rungs[place].slot)
            place = min(available & allowed)
        state = self.rungs[place]
        model = state.slot.model
        instance = None if model is None else model.idle_instance()
        if model is None or instance is None:  # another endpoint or a shadow uses it, for as long as one batch takes
            self.queue.put_back(batch)
            return NEVER
        together = 1 if not model.verdict.batched else first_requests(batch, choice.batch)
        if together < len(batch):
            self.queue.put_back(batch[together:])
            batch = batch[:together]
        self._start(batch, state, model, instance, choice.reason, now)
        if situation is not None and allowed == self._all:
            self.current = place
        return None

    def _call_for(self, line: Line) -> float | None:
        """No rung that these requests accept can run: open one, or say why that cannot be."""
        states = [self.rungs[place] for place in sorted(line[0].allowed)]
        if any(state.slot.loading is not None or state.slot.ready for state in states):
            return NEVER  # it is being opened, or its worker is being restarted
        hopeful = [state for state in states if state.slot.may_open]
        if hopeful:
            fitting = [state for state in hopeful if self._pool.may_fit(state.rung.memory_bytes)]
            self._pool.preload((fitting or hopeful)[0].slot)
            return NEVER
        problem = states[0].slot.problem
        reason = "it is not loaded." if problem is None else problem.message
        error = ServingError(Refusal.UNAVAILABLE, f"Model '{self.name}' cannot answer: {reason}")
        for pending in list(line):
            self._fail(pending, error)
        return None

    def _choose(
        self, batch: list[Pending], available: frozenset[int], allowed: frozenset[int], now: float
    ) -> tuple[Choice, Situation | None]:
        if len(allowed) == 1:
            (place,) = allowed
            return (
                _ONLY if len(self.rungs) == 1 else Choice(place, "The request may be answered by this model only.")
            ), None
        rows = sum(pending.rows for pending in batch)
        left = [seconds for pending in batch if (seconds := time_left(pending, self.settings, now)) is not None]
        situation = Situation(
            now=now,
            wall=time.time(),
            current=self.current,
            batch=rows,
            waiting=self.queue.requests + len(batch),
            inputs_waiting=self.queue.rows + rows,
            oldest_wait=now - batch[0].arrived,
            time_left=min(left, default=None),
            arrival_rate=self.arrival_rate,
            loaded=available & self._all,
            allowed=allowed,
            max_batch=self._largest,
            instances=self.settings.concurrency,
            memory_limit=self._pool.memory_limit,
            memory_used=self._pool.memory_used,
        )
        try:
            return self.policy.choose(situation), situation
        except Exception:  # of a plug-in: its requests must not be lost
            log.exception("the policy %s failed", self.policy.name)
            return Choice(min(available & allowed), "The policy failed."), situation

    def _start(
        self, batch: list[Pending], state: RungState, model: OpenModel, instance: Instance, reason: str, now: float
    ) -> None:
        rows = batch[0].rows if len(batch) == 1 else sum(pending.rows for pending in batch)
        state.slot.last_used = now
        started_ns = time.perf_counter_ns()
        flight = Flight(
            state=state,
            model=model,
            previous=self.current,
            reason=reason,
            free=batch[0].allowed == self._all,
            pendings=batch,
            rows=rows,
            waiting=self.queue.requests + len(batch),
            started=now,
            started_ns=started_ns,
        )
        self._flights.start(flight, instance)

    def _convert_next(self) -> None:
        """While batches run, begin to convert the inputs of as many requests as will probably be in the next one."""
        if not self._converts or not self.queue or (latest := self._flights.latest) is None:
            return
        for line in self.queue.lines()[:1]:
            for pending in islice(line, len(latest.pendings)):
                if latest.state.place in pending.allowed:
                    self._flights.convert_ahead(pending, latest.state.adapter)

    def _wake_at(self, when: float, now: float) -> None:
        if self._delay_timer is not None:
            self._delay_timer.cancel()
        self._delay_timer = self._loop.call_later(max(when - now, 0.0), self._dispatch)

    # --- answers

    def _landed(self, flight: Flight, outcome: Outcome) -> None:
        try:
            self._deliver(flight, outcome)
        except Exception as error:  # otherwise its requests would wait for ever
            log.exception("the answers of %s cannot be delivered", self.name)
            self._fail_unforeseen(flight.pendings, error)
        finally:
            self._dispatch()
            self._convert_next()
            self._check_drained()

    def _fail_unforeseen(self, pendings: Sequence[Pending], error: Exception) -> None:
        reason = f"Model '{self.name}' failed in a way that was not foreseen: {first_line(error)}"
        for pending in pendings:
            self._fail(pending, ServingError(Refusal.INTERNAL, reason))

    def _deliver(self, flight: Flight, outcome: Outcome) -> None:
        answers, error = outcome.answers, outcome.error
        if answers is not None and (problem := row_problem(flight, answers)) is not None:
            answers, error = None, ZoolensError(problem)
        if answers is not None:
            self._answer(flight, outcome, answers)
            return
        waiting = [pending for pending in flight.pendings if not pending.settled]
        if len(flight.pendings) > 1 and not outcome.worker_lost:
            # The model refused a batch of several requests: each is run by itself, so that a bad one spoils no other.
            for pending in waiting:
                pending.alone = True
            self.queue.put_back(waiting)
            if not any(state is flight.state for state in self.rungs):  # the ladder was replaced meanwhile
                self._check_again()
        else:
            assert error is not None, "a batch ends with answers or with an error"
            refused = failure(self.name, error, outcome.worker_lost)
            for pending in waiting:
                self._fail(pending, refused)

    def _answer(self, flight: Flight, outcome: Outcome, answers: Mapping[str, Tensor]) -> None:
        state, model = flight.state, flight.model
        others_wait = self.queue.requests > 0
        if others_wait:
            self._learn(flight, outcome)
            self._dispatch()  # the worker need not wait until all answers are written
        answered: list[Pending] = []
        answered_ns = time.perf_counter_ns()
        shared = len(flight.pendings) > 1
        nans = count_nans(answers)
        self.counters.nan_values += nans
        parameters = state.parameters(model, self.service)
        labels = model.labels if self._labels is None else self._labels
        start = 0
        for pending in flight.pendings:
            request, rows = pending.request, pending.rows
            own = rows_of(answers, start, rows) if shared else answers
            start += rows
            if pending.settled:
                continue
            told = parameters
            if nans and (own_nans := count_nans(own)):
                told = {**parameters, "zoolens_nan_outputs": own_nans}
            try:
                outputs = selected(request, own, labels, self.signature.batched) if request.outputs else own
            except Exception as error:  # of this request alone
                log.exception("an answer of %s cannot be delivered", self.name)
                self._fail_unforeseen([pending], error)
                continue
            answered.append(pending)
            pending.settle(InferResponse(request.model, self.version, outputs, request.id, told))
        # The answers are on their way.
        if not others_wait:
            self._learn(flight, outcome)
        self._accounts.answered(flight, outcome, answers, answered, answered_ns)

    def _learn(self, flight: Flight, outcome: Outcome) -> None:
        """Remember how long a batch took, for predictions and for the policy."""
        state, seconds = flight.state, outcome.seconds
        state.timing.add(flight.rows, seconds)
        if state.place in self._all and self.rungs[state.place] is state:  # its ladder may have been replaced
            try:
                self.policy.served(state.place, flight.rows, seconds)
            except Exception:  # of a plug-in: the answers are there all the same
                log.exception("the policy %s failed", self.policy.name)

    # --- the end

    async def drain(self) -> None:
        """Wait until every request that was accepted is answered. Nothing new may be accepted meanwhile."""
        if self._drained is None:
            self._drained = asyncio.Event()
        self._dispatch()  # batches need not wait for company any more
        self._check_drained()
        await self._drained.wait()

    def abandon(self, reason: str) -> None:
        """Answer everything that still waits or runs with an error."""
        error = ServingError(Refusal.UNAVAILABLE, reason)
        for pending in [*self.queue.empty(), *self._flights.pendings()]:
            self._fail(pending, error)

    def _check_drained(self) -> None:
        if self._drained is not None and not self.queue and not self._flights:
            self._drained.set()


def _settle(future: asyncio.Future[InferResponse], result: InferResponse | ServingError) -> None:
    if future.done():  # whoever awaited it was cancelled
        return
    if isinstance(result, ServingError):
        future.set_exception(result)
    else:
        future.set_result(result)
