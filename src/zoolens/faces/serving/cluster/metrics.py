"""What a cluster is doing, as numbers: for Prometheus, and for the live line of `zoolens serve --on ray`.

They are those of the front, which sees every request: latencies count from a request's arrival there to its answer, the
way to the replica and back among them. What happens inside a replica (queue, batches, memory) is not in them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, Protocol

from zoolens.base.present.text import clean
from zoolens.base.protocol.errors import ServingError
from zoolens.base.protocol.messages import InferRequest, InferResponse
from zoolens.faces.serving.cluster.reports import ClusterView
from zoolens.faces.serving.monitoring.live_line import recent_parts
from zoolens.faces.serving.monitoring.metrics import (
    ANSWERED,
    LATENCY_BUCKETS,
    Exposition,
    Histogram,
    Recent,
    RecentRequests,
    library,
)
from zoolens.inventory.catalog.names import bare

_SHOWN: Final = 3  # served names that the live line has


class MeasuredPlane(Protocol):
    """What the metrics read from the front of a cluster when somebody asks for them."""

    @property
    def view(self) -> ClusterView: ...

    @property
    def running(self) -> int: ...

    def ready(self) -> bool: ...

    def serves(self, model: str) -> bool: ...


class ClusterMetrics:
    """Counts the answered and refused requests of the cluster that `follow` was called with."""

    def __init__(self) -> None:
        self._outcomes: Counter[tuple[str, str]] = Counter()  # by served name and outcome
        self._latency: dict[tuple[str, str, str], Histogram] = {}  # by served name, model and runtime
        self._last: dict[str, str] = {}  # who answered last, by served name
        self._recent = RecentRequests()
        self.plane: MeasuredPlane | None = None
        self.text = Exposition(self)

    def follow(self, plane: MeasuredPlane) -> None:
        self.plane = plane

    # --- what happens

    def answered(self, request: InferRequest, response: InferResponse, seconds: float) -> None:
        model = str(response.parameters.get("zoolens_model", ""))
        runtime = str(response.parameters.get("zoolens_runtime", ""))
        key = (request.model, model, runtime)
        if key not in self._latency:
            self._latency[key] = Histogram(LATENCY_BUCKETS)
        self._latency[key].add(seconds)
        self._outcomes[request.model, ANSWERED] += 1
        self._last[request.model] = model
        self._recent.answered(seconds)

    def refused(self, request: InferRequest, error: ServingError) -> None:
        known = self.plane is not None and self.plane.serves(request.model)
        # Names that a client makes up would grow without end.
        name = request.model if known else ""
        self._outcomes[name, error.refusal.name.lower()] += 1
        self._recent.refused()

    # --- what is asked

    def recent(self) -> Recent:
        return self._recent.summary()

    def line(self) -> str:
        """The state of the cluster in one line, over the last ten seconds."""
        parts = recent_parts(self.recent())
        if self.plane is not None:
            replicas = self.plane.view.replicas
            ready = sum(replica.ready for replica in replicas)
            parts += [f"{self.plane.running:,} in work", f"{ready} of {len(replicas)} replicas ready"]
        parts += [f"{name}: {bare(model)}" for name, model in list(self._last.items())[:_SHOWN]]
        return clean("  ".join(parts))

    def collect(self) -> Iterator[Any]:
        """Called by the registry of prometheus_client for each scrape."""
        core = library().core
        outcomes = core.CounterMetricFamily(
            "zoolens_requests", "Requests by what became of them.", labels=["endpoint", "outcome"]
        )
        for (name, outcome), count in self._outcomes.items():
            outcomes.add_metric([name, outcome], count)
        labels = ["endpoint", "model", "runtime"]
        answers = core.CounterMetricFamily("zoolens_answers", "Requests that were answered.", labels=labels)
        latency = core.HistogramMetricFamily(
            "zoolens_answer_seconds", "From a request's arrival at the front to its answer.", labels=labels
        )
        for key, histogram in self._latency.items():
            rows = histogram.cumulative()
            answers.add_metric(key, rows[-1][1])
            latency.add_metric(key, rows, histogram.sum)
        yield from (outcomes, answers, latency)
        if self.plane is not None:
            yield from _of_replicas(core, self.plane)


def _of_replicas(core: Any, plane: MeasuredPlane) -> Iterator[Any]:
    replicas = plane.view.replicas
    ready = sum(replica.ready for replica in replicas)
    yield core.GaugeMetricFamily("zoolens_replicas", "Replicas that were heard of lately.", value=len(replicas))
    yield core.GaugeMetricFamily("zoolens_ready_replicas", "Replicas that answer requests.", value=ready)
    yield core.GaugeMetricFamily("zoolens_running_requests", "Requests that wait or run.", value=plane.running)
    yield core.GaugeMetricFamily("zoolens_ready", "1 where requests are answered, else 0.", value=int(plane.ready()))
