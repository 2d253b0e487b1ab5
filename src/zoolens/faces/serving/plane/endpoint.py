"""One served name: it accepts requests, lets them wait and run, and hands out answers.

A plain model is an endpoint with a ladder of one tier. Everything here runs on the event loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from zoolens.base.errors import ZoolensError
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferRequest, InferResponse, Tensor
from zoolens.faces.serving.contracts.adapter import Told
from zoolens.faces.serving.contracts.observer import Observer
from zoolens.faces.serving.plane.accounting import Accounts
from zoolens.faces.serving.plane.admission import Admission
from zoolens.faces.serving.plane.batching_choice import BatchingChoice
from zoolens.faces.serving.plane.dispatcher import Dispatcher
from zoolens.faces.serving.plane.flights import Flight, Flights, answer_for_observer
from zoolens.faces.serving.plane.instance import BatchOutcome
from zoolens.faces.serving.plane.next_token import PlacedRequest
from zoolens.faces.serving.plane.plane_answers import count_nans, failure, row_problem, rows_of, selected, unforeseen
from zoolens.faces.serving.plane.pool import Slot, WarmPool
from zoolens.faces.serving.plane.queue import NEVER, Done, Pending, RequestQueue
from zoolens.faces.serving.plane.rungs import RungState
from zoolens.faces.serving.plane.served_ladder import ServedLadder
from zoolens.faces.serving.plane.service_spec import ServiceSpec
from zoolens.faces.serving.plane.signature import BatchKey, ModelSignature
from zoolens.faces.serving.plane.text_lengths import WrittenTexts, rate_seconds
from zoolens.faces.serving.plane.text_request import TextRequest
from zoolens.faces.serving.plane.timing import ArrivalRate
from zoolens.faces.serving.plane.traces import Traces
from zoolens.faces.serving.policies.policy import Policy

log = logging.getLogger("zoolens.serving")


class Endpoint:
    """One served name with its requests. `slots` are the places of its tiers in the pool, the extra ones last."""

    def __init__(
        self,
        spec: ServiceSpec,
        slots: Sequence[Slot],
        pool: WarmPool,
        *,
        observers: Sequence[Observer] = (),
        service: bool = False,
        traces: Traces | None = None,
    ) -> None:
        self.name = spec.name
        self.version = spec.version
        self.settings = spec.settings
        self.texts = spec.texts  # it writes texts of at most this length, and nothing else
        self._written = None if spec.texts is None else WrittenTexts(spec.texts)
        self.service = service  # answers say how equivalent the model that gave them is to the reference
        self.config = dict(spec.config)
        self._accounts = accounts = Accounts(spec.name, spec.version, observers, traces)
        self.counters, self.observers = accounts.counters, accounts.observers
        self.queue = RequestQueue()
        self.closed = False  # it accepts no more requests
        self._pool = pool
        self._labels = spec.labels
        self._loop = asyncio.get_running_loop()
        # The limit that waiting requests were compared with.
        self._checked: ModelSignature | None = None
        self._ladder = ServedLadder(spec, slots, self._dispatch)
        self._flights = Flights(pool.converters, self._landed)
        self._admission = Admission(self.name, self.queue, self._flights, self.settings)
        self._arrivals = ArrivalRate(rate_seconds(spec))
        # A policy knows itself which of its tiers gain from batches.
        chooses = not service and self.settings.batching == "auto" and self.settings.max_batch > 1
        self.sharing = BatchingChoice(partial(_log_sharing, spec.name)) if chooses else None
        self._dispatcher = Dispatcher(
            self._ladder, pool, self.queue, self._flights, self.settings, self._arrivals, self._fail
        )
        self._dispatcher.sharing = self.sharing
        self._delay_timer: asyncio.TimerHandle | None = None
        self._drained: asyncio.Event | None = None

    # --- what it is

    @property
    def rungs(self) -> list[RungState]:
        return self._ladder.rungs

    @property
    def policy(self) -> Policy:
        return self._ladder.policy

    @property
    def current(self) -> int:
        """The tier that the policy chose last."""
        return self._ladder.current

    @property
    def reference(self) -> Slot:
        return self.rungs[0].slot

    @property
    def signature(self) -> ModelSignature:
        """What clients may send. A ServingError while no model has said so yet."""
        return self._ladder.signature

    @property
    def ready(self) -> bool:
        """Whether requests are answered, if need be after a model that was closed to save memory is opened again."""
        return not self.closed and self._ladder.ready

    @property
    def shares_batches(self) -> bool:
        """Whether several requests may run in one call now."""
        model = self.reference.model
        able = model is not None and model.verdict.rows > 1
        return able and (self.sharing is None or self.sharing.together)

    @property
    def running(self) -> int:
        """Requests in batches that run."""
        return len(self._flights.pendings())

    @property
    def arrival_rate(self) -> float:
        """Requests per second, averaged over about the last second."""
        return self._arrivals.at(time.monotonic())

    @property
    def complaint(self) -> str:
        """Which of its models cannot answer, and why; empty where all can, or are not open yet."""
        return self._ladder.complaint

    def unavailable(self) -> ServingError:
        """Why no request is answered."""
        return self._ladder.unavailable()

    def replace_ladder(self, spec: ServiceSpec, slots: Sequence[Slot]) -> None:
        """Serve another ladder, with its policy, adapters and labels, from the next batch on. Batches that run are not
        disturbed, and models that no endpoint serves any more are closed. Settings, signature and routes stay those
        that the endpoint began with: clients send and get what they did before."""
        self._labels = spec.labels
        old = [state.slot for state in self.rungs]
        self._ladder.replace(spec, slots, watch=not self.closed)
        self._check_again()
        self._pool.forget_soon(old)
        self._dispatch()

    def unwatch(self) -> None:
        """Leave the pool's slots: nothing is dispatched any more when they change."""
        self._ladder.unwatch()

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
        if not self._dispatcher.start_alone(pending):
            self.queue.add(pending)
            self._dispatch()
            self._dispatcher.convert_next()
        return partial(self._cancel, pending)

    def _cancel(self, pending: Pending) -> None:
        if not pending.settled:
            pending.forget()
            self._drop(pending)
            gone = ServingError(Refusal.CANCELLED, "The client has gone.")
            self._accounts.refused(pending.request, gone, pending.arrived_ns)

    def _accept(self, request: InferRequest, arrived_ns: int, done: Done) -> Pending:
        if self.closed:
            raise ServingError(Refusal.UNAVAILABLE, f"Model '{self.name}' is being unloaded.")
        signature = self.signature
        rows, key = self._size(request)
        queue, settings = self.queue, self.settings
        if not queue.requests:
            self._checked = signature
        allowed = self._ladder.accepted(request)
        now = time.monotonic()
        self._arrivals.add(now)
        if queue.requests:
            self._admission.check_room()
        seconds = request.deadline
        deadline = NEVER if seconds is None else now + seconds
        if seconds is not None or settings.objective is not None:
            accepted = [self.rungs[place] for place in allowed]
            self._admission.check_time(rows, accepted, now, deadline)
        pending = Pending(request, rows, key, allowed, arrived_ns, now, deadline, done)
        pending.alone = isinstance(request, PlacedRequest | TextRequest)
        if seconds is not None:
            pending.timer = self._loop.call_later(seconds, self._expire, pending)
        return pending

    def _size(self, request: InferRequest) -> tuple[int, BatchKey]:
        """How many inputs a request has, or tokens that its text is expected to have, and the key that requests of one
        batch share. A ServingError where it does not fit."""
        if isinstance(request, TextRequest):
            return (request.most if self._written is None else self._written.expected(request.most)), ()
        if self.texts is not None:
            raise ServingError(
                Refusal.UNSUPPORTED,
                f"Service '{self.name}' writes texts and answers no inferences.",
                hint="Ask /v1/completions or /v1/chat/completions.",
            )
        return self.signature.check(request)

    def _drop(self, pending: Pending) -> None:
        """Drops a request that nobody waits for any more: it is not run, or its answer is thrown away."""
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

    def _check_again(self) -> None:
        """Hold what waits against the ladder and the signature as they are now."""
        self._checked = self.signature
        for pending in self.queue.empty():
            try:
                pending.rows, pending.key = self._size(pending.request)
                pending.allowed = self._ladder.accepted(pending.request)
            except ServingError as error:
                self._fail(pending, error)
            else:
                self.queue.add(pending)

    # --- batches

    def _dispatch(self) -> None:
        """Start batches, and look again when one that waits for more requests has waited long enough."""
        if not self.queue:
            return
        # The model was loaded again.
        if self._checked is not self.signature:
            self._check_again()
        wake = self._dispatcher.start_batches(time.monotonic())
        if wake < NEVER:
            if self._delay_timer is not None:
                self._delay_timer.cancel()
            self._delay_timer = self._loop.call_later(max(wake - time.monotonic(), 0.0), self._dispatch)

    async def answer_in_background(self, place: int, inputs: Mapping[str, Tensor]) -> Told | None:
        """Let a tier answer a batch for somebody who only watches. None: it would delay real requests, ask again later.
        A ZoolensError: the model failed on these inputs, do not ask again."""
        state = self.rungs[place]
        model = state.slot.model
        instance = None if model is None else model.idle_instance()
        if self.queue or self._flights or instance is None:
            return None
        return await answer_for_observer(self._flights, instance, state, inputs)

    # --- answers

    def _landed(self, flight: Flight, outcome: BatchOutcome) -> None:
        try:
            self._deliver(flight, outcome)
        except Exception as error:
            # Otherwise its requests would wait for ever.
            log.exception("the answers of %s cannot be delivered", self.name)
            for pending in flight.pendings:
                self._fail(pending, unforeseen(self.name, error))
        finally:
            self._dispatch()
            self._dispatcher.convert_next()
            self._check_drained()

    def _deliver(self, flight: Flight, outcome: BatchOutcome) -> None:
        if self._written is not None:
            self._written.add(flight, outcome)
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
            # The ladder was replaced meanwhile.
            if not any(state is flight.state for state in self.rungs):
                self._check_again()
        else:
            assert error is not None, "a batch ends with answers or with an error"
            refused = failure(self.name, error, outcome.worker_lost)
            for pending in waiting:
                self._fail(pending, refused)

    def _answer(self, flight: Flight, outcome: BatchOutcome, answers: Mapping[str, Tensor]) -> None:
        state, model = flight.state, flight.model
        seconds = outcome.seconds if self._written is None else self._written.seconds(flight, outcome)
        others_wait = self.queue.requests > 0
        if others_wait:
            self._ladder.served(state, flight.rows, seconds)
            # The worker need not wait until all answers are written.
            self._dispatch()
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
            described = parameters
            if nans and (own_nans := count_nans(own)):
                described = {**parameters, "zoolens_nan_outputs": own_nans}
            try:
                outputs = selected(request, own, labels, self.signature.batched) if request.outputs else own
            except Exception as error:  # of this request alone
                log.exception("an answer of %s cannot be delivered", self.name)
                self._fail(pending, unforeseen(self.name, error))
                continue
            answered.append(pending)
            pending.settle(InferResponse(request.model, self.version, outputs, request.id, described))
        # The answers are on their way.
        if not others_wait:
            self._ladder.served(state, flight.rows, seconds)
        if self.sharing is not None and model.verdict.rows > 1:
            seconds = sum(answered_ns - pending.arrived_ns for pending in answered) / 1e9
            self.sharing.answered(time.monotonic(), len(answered), seconds)
        self._accounts.answered(flight, outcome, answers, answered, answered_ns)

    # --- the end

    async def drain(self) -> None:
        """Wait until every request that was accepted is answered. Nothing new may be accepted meanwhile."""
        if self._drained is None:
            self._drained = asyncio.Event()
        self._dispatcher.hurry = True
        self._dispatch()
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


def _log_sharing(name: str, sentence: str) -> None:
    log.info("model %s: %s", name, sentence)


def _settle(future: asyncio.Future[InferResponse], result: InferResponse | ServingError) -> None:
    if future.done():  # whoever awaited it was cancelled
        return
    if isinstance(result, ServingError):
        future.set_exception(result)
    else:
        future.set_result(result)
