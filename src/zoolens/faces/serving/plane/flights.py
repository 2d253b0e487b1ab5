"""Batches that run: each has a tier, an instance, and the requests that wait for its answers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np

from zoolens.base.errors import UnexpectedError, ZoolensError, first_line
from zoolens.base.protocol.messages import Tensor
from zoolens.faces.serving.contracts.adapter import Adapter, Fed, Told
from zoolens.faces.serving.plane.instance import BatchOutcome, Instance
from zoolens.faces.serving.plane.next_token import NextTokenRequest
from zoolens.faces.serving.plane.queue import Converting, Pending
from zoolens.faces.serving.plane.rungs import RungState
from zoolens.faces.serving.plane.served_model import OpenModel
from zoolens.faces.serving.plane.text_request import WRITTEN, TextRequest, TextTurn, written

log = logging.getLogger("zoolens.serving")

Done = Callable[[BatchOutcome], object]
Given = TypeVar("Given")
Result = TypeVar("Result")


@dataclass(slots=True)
class Flight:
    """A batch that runs."""

    state: RungState
    model: OpenModel
    previous: int  # number of the tier that answered before
    reason: str  # why this tier answers
    free: bool  # the policy chose, not a client
    pendings: list[Pending]
    rows: int
    waiting: int  # requests in the queue when the batch was formed
    started: float  # on the monotonic clock
    started_ns: int
    read: int = 0  # tokens of the prompt that were computed, of a text

    def expected_end(self, now: float) -> float:
        """When it will have ended, on the monotonic clock, as far as can be predicted. A text that is longer than was
        expected may become as long as it may."""
        end = self.started + (self.state.predict(self.rows) or 0.0)
        request = self.pendings[0].request
        if end < now and isinstance(request, TextRequest):
            return self.started + (self.state.predict(request.most) or 0.0)
        return end

    @property
    def parts(self) -> list[Mapping[str, Tensor]]:
        return [pending.request.inputs for pending in self.pendings]


class Flights:
    """The batches of one endpoint that run. `landed` is called on the event loop with each and what became of it."""

    def __init__(self, executor: Executor, landed: Callable[[Flight, BatchOutcome], None]) -> None:
        self._executor = executor
        self._landed = landed
        self._running: dict[int, Flight] = {}
        self._number = 0
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def pendings(self) -> list[Pending]:
        return [pending for flight in self._running.values() for pending in flight.pendings]

    @property
    def latest(self) -> Flight | None:
        """The batch that was started last, of those that run."""
        return next(reversed(self._running.values()), None)

    def next_end(self, now: float) -> float:
        """When the first of them will have ended, as far as can be predicted."""
        return min(flight.expected_end(now) for flight in self._running.values())

    def start(self, flight: Flight, instance: Instance) -> None:
        self._number = number = self._number + 1
        self._running[number] = flight

        def done(outcome: BatchOutcome) -> None:
            del self._running[number]
            self._landed(flight, outcome)

        request = flight.pendings[0].request
        try:
            if isinstance(request, TextRequest):
                turn = TextTurn(instance, flight.state.parameters(flight.model, service=True))
                self._spawn(self._write(request, turn, flight, done))
            elif isinstance(request, NextTokenRequest):
                instance.extend(request.inputs[request.tokens], done)
            elif flight.state.adapter is None:
                instance.run(flight.parts, done)
            else:
                converted = [pending.converted for pending in flight.pendings]
                self.run(instance, flight.state, flight.parts, done, converted)
        except Exception:
            self._running.pop(number, None)
            raise

    async def _write(self, request: TextRequest, turn: TextTurn, flight: Flight, done: Done) -> None:
        """Let a tier write a text. What it wrote counts, not what it might have written."""
        try:
            outcome = await written(request, turn)
        except Exception as error:
            # Otherwise its client would wait for ever.
            log.exception("a text could not be written")
            outcome = BatchOutcome(None, UnexpectedError(f"The text could not be written: {first_line(error)}"))
        finally:
            turn.end()
        if outcome.answers is not None:
            flight.rows = flight.pendings[0].rows = int(outcome.answers[WRITTEN][0])
            flight.read = turn.read or 0
        done(outcome)

    def convert_ahead(self, pending: Pending, adapter: Adapter | None) -> None:
        """Begin to convert the inputs of a request that waits, for the tier that will probably answer it: the model and
        the conversion of the next inputs then run side by side."""
        if adapter is None or adapter.quick or not adapter.joins:
            return
        if pending.converted is not None and pending.converted[0] is adapter:
            return
        converting: Converting = asyncio.ensure_future(
            self._converted(adapter, adapter.feeds, pending.request.inputs), loop=self._loop
        )
        converting.add_done_callback(_look_at)
        pending.converted = adapter, converting

    def run(
        self,
        instance: Instance,
        state: RungState,
        parts: Sequence[Mapping[str, Tensor]],
        done: Done,
        converted: Sequence[tuple[Adapter, Converting] | None] = (),
    ) -> None:
        """Let an instance answer inputs as clients send them; `done` gets answers as clients expect them. `converted`:
        what there is already of each part."""
        adapter = state.adapter
        if adapter is None:
            instance.run(parts, done)
        else:
            instance.reserve()
            ahead = [known[1] if known is not None and known[0] is adapter else None for known in converted]
            self._spawn(self._run_adapted(instance, adapter, parts, done, ahead))

    async def _feeds(
        self, adapter: Adapter, parts: Sequence[Mapping[str, Tensor]], ahead: Sequence[Converting | None]
    ) -> Fed:
        if not any(ahead):
            return await self._converted(adapter, lambda batch: adapter.feeds(joined(batch)), parts)
        parts_fed = [
            await (self._converted(adapter, adapter.feeds, part) if converting is None else converting)
            for part, converting in zip(parts, ahead, strict=True)
        ]
        try:
            tensors = joined([fed.tensors for fed in parts_fed])
        except ValueError as error:
            raise ZoolensError(f"The inputs of several requests do not fit together: {first_line(error)}") from error
        return Fed(tensors, tuple(memo for fed in parts_fed for memo in fed.memos))

    async def _run_adapted(
        self,
        instance: Instance,
        adapter: Adapter,
        parts: Sequence[Mapping[str, Tensor]],
        done: Done,
        ahead: Sequence[Converting | None],
    ) -> None:
        begun_ns = time.perf_counter_ns()
        try:
            fed = await self._feeds(adapter, parts, ahead)
        except ZoolensError as error:
            instance.release()
            done(BatchOutcome(None, error))
            return
        fed_ns = time.perf_counter_ns()
        future: asyncio.Future[BatchOutcome] = self._loop.create_future()
        instance.run([fed.tensors], lambda outcome: _settle(future, outcome))
        outcome = await future
        if outcome.answers is not None:
            answered_ns = time.perf_counter_ns()
            try:
                read = partial(adapter.outputs, memos=fed.memos)
                told = await self._converted(adapter, read, outcome.answers)
                input_ns = outcome.input_ns + fed_ns - begun_ns
                output_ns = outcome.output_ns + time.perf_counter_ns() - answered_ns
                outcome = replace(outcome, answers=told.tensors, input_ns=input_ns, output_ns=output_ns, kept=told.kept)
            except ZoolensError as error:
                outcome = replace(outcome, answers=None, error=error)
        done(outcome)

    async def _converted(self, adapter: Adapter, convert: Callable[[Given], Result], tensors: Given) -> Result:
        try:
            if adapter.quick:
                return convert(tensors)
            return await self._loop.run_in_executor(self._executor, convert, tensors)
        except ZoolensError:
            raise
        except Exception as error:
            # Otherwise its requests would wait for ever.
            log.exception("an adapter failed")
            raise UnexpectedError(f"Its tensors could not be converted: {first_line(error)}") from error

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        # The loop alone would let it be collected.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def answer_for_observer(
    flights: Flights, instance: Instance, state: RungState, inputs: Mapping[str, Tensor]
) -> Told:
    """What a tier answers to somebody who only watches; a ZoolensError says why it does not."""
    future: asyncio.Future[BatchOutcome] = asyncio.get_running_loop().create_future()
    flights.run(instance, state, [inputs], lambda outcome: _settle(future, outcome))
    outcome = await future
    if outcome.answers is None:
        raise outcome.error or ZoolensError(f"{state.rung.model} gave no answer.")
    return Told(outcome.answers, outcome.kept)


def joined(parts: Sequence[Mapping[str, Tensor]]) -> Mapping[str, Tensor]:
    """The rows of all parts, one below the other."""
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _look_at(converting: Converting) -> None:
    """Keep asyncio from complaining about an error that nobody asks for: the request may have gone meanwhile."""
    if not converting.cancelled():
        converting.exception()


def _settle(future: asyncio.Future[BatchOutcome], outcome: BatchOutcome) -> None:
    if not future.done():
        future.set_result(outcome)
