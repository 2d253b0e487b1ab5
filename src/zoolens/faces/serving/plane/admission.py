"""Whether a request is accepted: the queue is bounded, and what cannot be answered in time is refused at once."""

from __future__ import annotations

from collections.abc import Iterable

from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.faces.serving.plane.flights import Flights
from zoolens.faces.serving.plane.plane_settings import EndpointSettings
from zoolens.faces.serving.plane.queue import NEVER, RequestQueue
from zoolens.faces.serving.plane.rungs import RungState


class Admission:
    """Decides which requests of one endpoint are accepted."""

    def __init__(self, name: str, queue: RequestQueue, flights: Flights, settings: EndpointSettings) -> None:
        self._name, self._queue, self._flights, self._settings = name, queue, flights, settings

    def check_room(self) -> None:
        """Refuse a request for which the queue has no room."""
        queue, settings = self._queue, self._settings
        if queue.requests >= settings.max_queue:
            raise ServingError(
                Refusal.OVERLOADED, f"Model '{self._name}' is overloaded: {queue.requests:,} requests wait already."
            )
        if queue.bytes >= settings.max_queue_bytes:
            raise ServingError(
                Refusal.OVERLOADED,
                f"Model '{self._name}' is overloaded: the requests that wait hold {queue.bytes / 1e6:,.0f} MB.",
            )

    def check_time(self, rows: int, tiers: Iterable[RungState], now: float, deadline: float) -> None:
        """Refuse a request that cannot be answered by its deadline, even by the fastest tier that it accepts.

        A request that need not wait is always tried: nothing else would correct a prediction that is wrong.
        """
        queue, flights, settings = self._queue, self._flights, self._settings
        if deadline <= now:
            raise ServingError(Refusal.TOO_LATE, f"The deadline of the request to model '{self._name}' has passed.")
        if settings.objective is not None and settings.shed_late:
            deadline = min(deadline, now + settings.objective)
        # An idle worker is always tried: if it were refused by a wrong prediction, no new measurement would ever
        # correct that.
        runs_at_once = not queue and len(flights) < settings.concurrency
        if deadline == NEVER or runs_at_once:
            return
        works = [self._work(state, rows) for state in tiers if state.slot.ready]
        known = [seconds for seconds in works if seconds is not None]
        if not known:
            return
        # The fastest tier decides: the request is refused only if none that it accepts could answer in time.
        predicted = min(known)
        if len(flights) >= settings.concurrency:
            predicted += max(flights.next_end(now) - now, 0.0)
        if now + predicted > deadline:
            raise ServingError(
                Refusal.OVERLOADED,
                f"Model '{self._name}' cannot answer within {(deadline - now) * 1e3:.0f} ms: {queue.requests} "
                f"requests wait, and an answer would take about {predicted * 1e3:.0f} ms.",
            )

    def _work(self, state: RungState, rows: int) -> float | None:
        """Predict the seconds that a tier takes for all that waits and for one more request; None where unknown."""
        queue, settings = self._queue, self._settings
        model = state.slot.model
        if model is None or not model.verdict.batched:
            requests = queue.requests + 1
            each = state.predict(max(1, round((queue.rows + rows) / requests)))
            return None if each is None else each * (1 + queue.requests / settings.concurrency)
        largest = min(settings.max_batch, model.verdict.rows)
        full, rest = divmod(queue.rows + rows, largest)
        of_full = state.predict(largest)
        of_rest = state.predict(rest) if rest else 0.0
        if of_full is None or of_rest is None:
            return None
        last = of_rest if rest else of_full
        before_last = full if rest else full - 1
        return before_last * of_full / settings.concurrency + last
