"""What became of an endpoint's requests: counted, traced, and told to those who watch."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np

from zoolens.base.protocol.errors import ServingError
from zoolens.base.protocol.messages import InferRequest, Tensor
from zoolens.faces.serving.contracts.observer import BatchReport, Observer
from zoolens.faces.serving.plane.counters import Counters
from zoolens.faces.serving.plane.flights import Flight, joined
from zoolens.faces.serving.plane.instance import BatchOutcome
from zoolens.faces.serving.plane.plane_answers import rows_of
from zoolens.faces.serving.plane.queue import Pending
from zoolens.faces.serving.plane.traces import Traces
from zoolens.inventory.tasks.task import taken_answers

log = logging.getLogger("zoolens.serving")


class Accounts:
    """The books of one endpoint. An observer that fails disturbs nobody else."""

    def __init__(self, name: str, version: str, observers: Sequence[Observer], traces: Traces | None) -> None:
        self.counters = Counters()
        self.observers = list(observers)
        self._name, self._version, self._traces = name, version, traces

    def refused(self, request: InferRequest, error: ServingError, arrived_ns: int) -> None:
        """Count a request that gets no answer."""
        self.counters.failed(time.perf_counter_ns() - arrived_ns, error.refusal)
        for observer in self.observers:
            try:
                observer.refused(self._name, request, str(error))
            except Exception:
                log.exception("an observer of %s failed", self._name)

    def answered(
        self,
        flight: Flight,
        outcome: BatchOutcome,
        answers: Mapping[str, Tensor],
        answered: Sequence[Pending],
        answered_ns: int,
    ) -> None:
        """Count a batch and those of its requests that were answered."""
        counters, traces = self.counters, self._traces
        parts = outcome.input_ns, outcome.infer_ns, outcome.output_ns
        counters.executed(flight.rows, *parts)
        flight.state.requests += len(answered)
        for pending in answered:
            queue_ns = flight.started_ns - pending.arrived_ns
            counters.succeeded(pending.rows, answered_ns - pending.arrived_ns, queue_ns, *parts)
            if traces is not None and traces.active:
                request = pending.request
                traces.record(self._name, self._version, request, pending.arrived_ns, flight.started_ns, parts)
        if self.observers and answered:
            self._tell(batch_report(self._name, flight, outcome, answers, answered))

    def _tell(self, report: BatchReport) -> None:
        for observer in self.observers:
            try:
                observer.answered(report)
            except Exception:
                log.exception("an observer of %s failed", self._name)


def batch_report(
    endpoint: str, flight: Flight, outcome: BatchOutcome, answers: Mapping[str, Tensor], answered: Sequence[Pending]
) -> BatchReport:
    """What observers are told: of the requests that were answered, not of those that came too late or whose client has
    gone."""
    outputs, kept = answers, outcome.kept
    if len(answered) < len(flight.pendings):
        ends = list(accumulate(pending.rows for pending in flight.pendings))
        places = [place for place, pending in enumerate(flight.pendings) if pending in answered]
        spans = [(ends[place] - flight.pendings[place].rows, flight.pendings[place].rows) for place in places]
        outputs = joined([rows_of(answers, start, rows) for start, rows in spans])
        if kept is not None:
            kept = taken_answers(kept, np.concatenate([np.arange(start, start + rows) for start, rows in spans]))
    return BatchReport(
        endpoint=endpoint,
        rung=flight.state.place,
        previous=flight.previous,
        reason=flight.reason,
        requests=[pending.request for pending in answered],
        rows=[pending.rows for pending in answered],
        inputs=joined([pending.request.inputs for pending in answered]),
        outputs=outputs,
        waited=[(flight.started_ns - pending.arrived_ns) / 1e9 for pending in answered],
        seconds=outcome.seconds,
        waiting=flight.waiting,
        answered_by=flight.state.rung,
        free=flight.free,
        kept=kept,
    )
