"""Whether a request is accepted: the queue is bounded, and what cannot be answered in time is refused at once."""

from __future__ import annotations

from collections.abc import Iterable

from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.faces.serving.plane.flights import Flights
from zoolens.faces.serving.plane.plane_settings import EndpointSettings
from zoolens.faces.serving.plane.queue import NEVER, RequestQueue
from zoolens.faces.serving.plane.rungs import RungState


def check_room(name: str, queue: RequestQueue, settings: EndpointSettings) -> None:
    if queue.requests >= settings.max_queue:
        raise ServingError(
            Refusal.OVERLOADED, f"Model '{name}' is overloaded: {queue.requests:,} requests wait already."
        )
    if queue.bytes >= settings.max_queue_bytes:
        raise ServingError(
            Refusal.OVERLOADED,
            f"Model '{name}' is overloaded: the requests that wait hold {queue.bytes / 1e6:,.0f} MB.",
        )


def check_time(
    name: str,
    rows: int,
    rungs: Iterable[RungState],
    queue: RequestQueue,
    flights: Flights,
    settings: EndpointSettings,
    now: float,
    deadline: float,
) -> None:
    """Refuse what cannot be answered by its deadline, even by the fastest of the rungs that it accepts.

    A request that need not wait is always tried: nothing else would correct a prediction that is wrong.
    """
    if deadline <= now:
        raise ServingError(Refusal.TOO_LATE, f"The deadline of the request to model '{name}' has passed.")
    if settings.objective is not None and settings.shed_late:
        deadline = min(deadline, now + settings.objective)
    if deadline == NEVER or (not queue and len(flights) < settings.concurrency):
        return
    works = [_work(state, rows, queue, settings) for state in rungs if state.slot.ready]
    predicted = min((seconds for seconds in works if seconds is not None), default=None)
    if predicted is None:
        return
    if len(flights) >= settings.concurrency:
        predicted += max(flights.next_end() - now, 0.0)
    if now + predicted > deadline:
        raise ServingError(
            Refusal.OVERLOADED,
            f"Model '{name}' cannot answer within {(deadline - now) * 1e3:.0f} ms: {queue.requests} "
            f"requests wait, and an answer would take about {predicted * 1e3:.0f} ms.",
        )


def _work(state: RungState, rows: int, queue: RequestQueue, settings: EndpointSettings) -> float | None:
    """Seconds that a rung takes for all that waits and for one more request."""
    model = state.slot.model
    if model is None or not model.verdict.batched:
        each = state.predict(1)
        return None if each is None else each * (1 + queue.requests / settings.concurrency)
    largest = min(settings.max_batch, model.verdict.rows)
    full, rest = divmod(queue.rows + rows, largest)
    of_full, of_rest = state.predict(largest), state.predict(rest) if rest else 0.0
    if of_full is None or of_rest is None:
        return None
    last = of_rest if rest else of_full
    return (full - (not rest)) * of_full / settings.concurrency + last
