"""Whether a service keeps the latency that it promises: counted request by request, said in intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from zoolens.base.present.figures import percent
from zoolens.base.protocol.errors import Refusal
from zoolens.faces.serving.contracts.observer import BatchReport
from zoolens.faces.serving.services.definition import LatencyObjective
from zoolens.faces.serving.services.events import EventKind, ObjectiveCounts, ServiceEvent

_FEWEST_JUDGED: Final = 100  # requests before the objective is judged
_OUR_REFUSALS: Final = (Refusal.OVERLOADED, Refusal.TOO_LATE, Refusal.UNAVAILABLE, Refusal.INTERNAL)


class LatencyRecord:
    """Counts the requests of one service against its objective. A request that was refused, although it was right, is
    not in time."""

    def __init__(self, objective: LatencyObjective) -> None:
        self._objective = objective
        self._timed = self._in_time = 0  # since the last entries
        self._refused = self._all_timed = self._all_in_time = 0  # since the start
        self._broken = False

    def add(self, report: BatchReport) -> None:
        """Count the requests of a batch that was answered."""
        self._timed += len(report.waited)
        self._in_time += sum(waited + report.seconds <= self._objective.bound for waited in report.waited)

    def entries(self, refusals: Mapping[Refusal, int]) -> Iterator[ServiceEvent | ObjectiveCounts]:
        """What is new since the last time. `refusals`: requests of the endpoint that were refused since its start."""
        bound, percentile = self._objective.bound, self._objective.percentile
        all_refused = sum(refusals.get(refusal, 0) for refusal in _OUR_REFUSALS)
        requests, within, refused = self._timed, self._in_time, all_refused - self._refused
        self._timed, self._in_time, self._refused = 0, 0, all_refused
        self._all_timed += requests + refused
        self._all_in_time += within
        share = self._all_in_time / max(1, self._all_timed)
        if not self._broken and self._all_timed >= _FEWEST_JUDGED and share < percentile / 100:
            self._broken = True
            yield ServiceEvent(
                EventKind.OBJECTIVE,
                f"{percent(share, 1)} of {self._all_timed:,} requests were answered within {bound * 1e3:.4g} ms, "
                f"but {percentile:.4g} % should be.",
            )
        if requests or refused:
            yield ObjectiveCounts(requests, within, refused, bound, percentile)
