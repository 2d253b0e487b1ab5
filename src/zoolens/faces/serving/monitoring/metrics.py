"""What a server is doing, as numbers: for Prometheus, and for the live line of `zoolens serve`.

Answers are counted when their batch is reported, a few microseconds each; everything else is read from the data plane
when somebody asks. Latencies are those of the data plane, from a request's acceptance to its answer: what a client sees
adds the transport, which `zoolens load` measures from outside.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from zoolens.base.errors import MissingDependency
from zoolens.faces.serving.contracts.observer import BatchReport

if TYPE_CHECKING:
    from zoolens.base.protocol.messages import InferRequest
    from zoolens.faces.serving.plane.data_plane import Plane

LATENCY_BUCKETS: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
SIZE_BUCKETS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
RECENT_SECONDS: Final = 10.0  # that the live line looks back
MOST_RECENT: Final = 20_000  # answers that it remembers; beyond that it looks back less far
ANSWERED: Final = "answered"


class Histogram:
    """Counts by upper bound, and their sum."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float, times: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += times
        self.sum += value * times

    def cumulative(self) -> list[tuple[str, float]]:
        """Returns counts as Prometheus has them: for each bound, how many values were not above it."""
        total, rows = 0, []
        for bound, count in zip((*self._bounds, math.inf), self._counts, strict=True):
            total += count
            rows.append(("+Inf" if math.isinf(bound) else repr(bound), float(total)))
        return rows


@dataclass
class AnswerMetrics:
    """Metrics of one model under one served name."""

    requests: int = 0
    latency: Histogram = field(default_factory=lambda: Histogram(LATENCY_BUCKETS))
    queued: Histogram = field(default_factory=lambda: Histogram(LATENCY_BUCKETS))
    batch_rows: Histogram = field(default_factory=lambda: Histogram(SIZE_BUCKETS))


@dataclass(frozen=True)
class Recent:
    """The last seconds: answers and refusals per second, and latencies of the answers in seconds (None where nothing
    was answered)."""

    rate: float
    refused: float
    p50: float | None
    p99: float | None


class RecentRequests:
    """When the last requests were answered or refused, and how long the answers took."""

    def __init__(self) -> None:
        self._answered: deque[tuple[float, float]] = deque(maxlen=MOST_RECENT)  # when, and how long it took
        self._refused: deque[float] = deque(maxlen=MOST_RECENT)
        self._began = time.monotonic()

    def answered(self, seconds: float) -> None:
        now = time.monotonic()
        # Nobody may ever ask for a summary.
        self._forget(now)
        self._answered.append((now, seconds))

    def refused(self) -> None:
        now = time.monotonic()
        self._forget(now)
        self._refused.append(now)

    def _forget(self, now: float) -> None:
        while self._answered and self._answered[0][0] < now - RECENT_SECONDS:
            self._answered.popleft()
        while self._refused and self._refused[0] < now - RECENT_SECONDS:
            self._refused.popleft()

    def summary(self) -> Recent:
        now = time.monotonic()
        self._forget(now)
        first_refused = self._refused[0] if self._refused else now
        refused = self._rate(len(self._refused), first_refused, now)
        if not self._answered:
            return Recent(0.0, refused, None, None)
        first_answered, _ = self._answered[0]
        rate = self._rate(len(self._answered), first_answered, now)
        times = sorted(taken for _, taken in self._answered)
        return Recent(rate, refused, _percentile(times, 0.5), _percentile(times, 0.99))

    def _rate(self, count: int, first: float, now: float) -> float:
        """How many there were per second; of a memory that is full, since the first that it holds."""
        seconds = now - first if count == MOST_RECENT else min(RECENT_SECONDS, now - self._began)
        return count / max(seconds, 1e-9)


def _percentile(ordered: list[float], q: float) -> float:
    place = min(int(q * len(ordered)), len(ordered) - 1)
    return ordered[place]


class Exposition:
    """What `/metrics` answers. `collector` has a method `collect`, which prometheus_client calls for each scrape."""

    def __init__(self, collector: Any) -> None:
        self._collector = collector
        self._registry: Any = None

    def __call__(self) -> tuple[bytes, str]:
        """The text, and its content type."""
        client = library()
        if self._registry is None:
            self._registry = client.CollectorRegistry()
            self._registry.register(self._collector)
            client.ProcessCollector(registry=self._registry)
        return client.generate_latest(self._registry), client.CONTENT_TYPE_LATEST


class PlaneMetrics:
    """An observer of all endpoints of a plane; `follow` says of which."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str, str], AnswerMetrics] = {}  # by endpoint, model and runtime
        self._switches: dict[str, int] = {}
        self._recent = RecentRequests()
        self.plane: Plane | None = None
        self.text = Exposition(self)

    def follow(self, plane: Plane) -> None:
        self.plane = plane

    # --- what happens

    def answered(self, report: BatchReport) -> None:
        rung = report.answered_by
        key = (report.endpoint, rung.model, rung.runtime) if rung is not None else (report.endpoint, "", "")
        answers = self._answers.get(key)
        if answers is None:
            answers = self._answers[key] = AnswerMetrics()
        answers.requests += len(report.requests)
        answers.batch_rows.add(sum(report.rows))
        for waited in report.waited:
            answers.queued.add(waited)
            answers.latency.add(waited + report.seconds)
            self._recent.answered(waited + report.seconds)
        if report.free and report.rung != report.previous:
            self._switches[report.endpoint] = self._switches.get(report.endpoint, 0) + 1

    def refused(self, endpoint: str, request: InferRequest, reason: str) -> None:
        """The endpoint counts refusals by their kind; here is remembered when they were."""
        self._recent.refused()

    # --- what is asked

    def recent(self) -> Recent:
        return self._recent.summary()

    def switches(self, endpoint: str) -> int:
        return self._switches.get(endpoint, 0)

    def collect(self) -> Iterator[Any]:
        """Called by the registry of prometheus_client for each scrape."""
        core = library().core
        yield from self._of_answers(core)
        yield from self._of_switches(core)
        if self.plane is not None:
            yield from self._of_endpoints(core, self.plane)
            yield from self._of_pool(core, self.plane)

    def _of_answers(self, core: Any) -> Iterator[Any]:
        labels = ["endpoint", "model", "runtime"]
        requests = core.CounterMetricFamily("zoolens_answers", "Requests that were answered.", labels=labels)
        latency = core.HistogramMetricFamily(
            "zoolens_answer_seconds",
            "From the acceptance of a request to its answer, without transport.",
            labels=labels,
        )
        queued = core.HistogramMetricFamily("zoolens_queue_seconds", "Time of a request in the queue.", labels=labels)
        rows = core.HistogramMetricFamily("zoolens_batch_rows", "Rows of the batches that ran.", labels=labels)
        for key, answers in self._answers.items():
            requests.add_metric(key, answers.requests)
            for family, histogram in (
                (latency, answers.latency),
                (queued, answers.queued),
                (rows, answers.batch_rows),
            ):
                family.add_metric(key, histogram.cumulative(), histogram.sum)
        yield from (requests, latency, queued, rows)

    def _of_switches(self, core: Any) -> Iterator[Any]:
        family = core.CounterMetricFamily(
            "zoolens_switches", "How often a policy chose another model than for the batch before.", labels=["endpoint"]
        )
        for endpoint, count in self._switches.items():
            family.add_metric([endpoint], count)
        yield family

    def _of_endpoints(self, core: Any, plane: Plane) -> Iterator[Any]:
        labels = ["endpoint", "version"]
        outcomes = core.CounterMetricFamily(
            "zoolens_requests", "Requests by what became of them.", labels=[*labels, "outcome"]
        )
        nans = core.CounterMetricFamily(
            "zoolens_nan_values", "Values in answers that were NaN or infinite.", labels=labels
        )
        queue = core.GaugeMetricFamily("zoolens_queue_requests", "Requests that wait.", labels=labels)
        running = core.GaugeMetricFamily("zoolens_running_requests", "Requests in batches that run.", labels=labels)
        ready = core.GaugeMetricFamily("zoolens_ready", "1 where requests are answered, else 0.", labels=labels)
        current = core.GaugeMetricFamily(
            "zoolens_current_rung", "Number of the tier that answered last; 0 is the reference.", labels=labels
        )
        sharing = core.GaugeMetricFamily(
            "zoolens_sharing_batches",
            "1 where requests share batches at this load, 0 where they run one by one.",
            labels=labels,
        )
        for endpoint in plane.endpoints:
            key = [endpoint.name, endpoint.version]
            sharing.add_metric(key, int(endpoint.shares_batches))
            counters = endpoint.counters
            outcomes.add_metric([*key, ANSWERED], counters.successes)
            for refusal, count in counters.refusals.items():
                outcomes.add_metric([*key, refusal.name.lower()], count)
            nans.add_metric(key, counters.nan_values)
            queue.add_metric(key, endpoint.queue.requests)
            running.add_metric(key, endpoint.running)
            ready.add_metric(key, int(endpoint.ready))
            current.add_metric(key, endpoint.current)
        yield from (outcomes, nans, queue, running, ready, current, sharing)

    def _of_pool(self, core: Any, plane: Plane) -> Iterator[Any]:
        pool = plane.pool
        memory = core.GaugeMetricFamily(
            "zoolens_model_memory_bytes", "Resident memory of a model's processes.", labels=["model", "runtime"]
        )
        for slot in pool.slots.values():
            if slot.model is not None:
                memory.add_metric([slot.model.reference, slot.model.runtime], slot.model.memory_bytes)
        yield memory
        yield core.GaugeMetricFamily("zoolens_memory_bytes", "Memory of all open models.", value=pool.memory_used)
        if pool.memory_limit is not None:
            yield core.GaugeMetricFamily(
                "zoolens_memory_limit_bytes", "What all models may take.", value=pool.memory_limit
            )


def library() -> Any:
    """prometheus_client, which is an extra."""
    try:
        import prometheus_client
        import prometheus_client.core
    except ImportError as error:
        raise MissingDependency("The metrics of a server", "prometheus-client", "serve") from error
    return prometheus_client
