"""What a running server of models does right now, told from its own metrics (`zoolens serve`, /metrics).

Rates and percentiles are those of the last seconds: the difference between two looks. The server counts times in
buckets, so that a percentile is known only as "at most the upper bound of its bucket".
"""

from __future__ import annotations

import math
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from zoolens.base.errors import MissingDependency, ZoolensError, first_line

WINDOW: Final = 10.0  # seconds that are looked back
_REST: Final = 1.0  # seconds between two looks, however many pages ask
_PATIENCE: Final = 3.0  # seconds for an answer
_LARGEST: Final = 8 << 20  # bytes

_LABELS: Final = ("endpoint", "model", "runtime", "version", "outcome", "le")  # in the order of keys

Key = tuple[str, ...]


@dataclass(frozen=True)
class ModelNow:
    """Who answers at an endpoint, over the last seconds."""

    model: str
    runtime: str
    # Answers per second
    rate: float
    # Percentiles of the time in the server, by percent, each the upper bound of a bucket in seconds (infinity: beyond
    # the last bucket); empty where nothing was answered
    percentiles: Mapping[int, float]


@dataclass(frozen=True)
class EndpointNow:
    """One served name."""

    name: str
    ready: bool
    waiting: int
    running: int
    rate: float
    # Requests per second that got an error
    refused: float
    models: tuple[ModelNow, ...]


@dataclass(frozen=True)
class ServerNow:
    """What a server did over the last seconds."""

    # How long the stretch is that rates are about; 0 at the first look, when there are none yet
    seconds: float
    endpoints: tuple[EndpointNow, ...]


@dataclass(frozen=True)
class Look:
    """What a server told at one moment: values by metric and by the values of its labels."""

    at: float
    values: Mapping[str, Mapping[Key, float]]


class ServerWatcher:
    """Looks at one server when it is asked; threads may share it."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._looks: deque[Look] = deque()
        self._lock = threading.Lock()

    def now(self) -> ServerNow:
        """ZoolensError says why the server cannot be asked."""
        with self._lock:
            if not self._looks or time.monotonic() - self._looks[-1].at > _REST:
                self._looks.append(Look(time.monotonic(), _values(self._text())))
                while len(self._looks) > 2 and self._looks[-1].at - self._looks[1].at > WINDOW:
                    self._looks.popleft()
            return compared(self._looks[0], self._looks[-1])

    def _text(self) -> str:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        request = urllib.request.Request(f"{self.url}/metrics", headers=headers)  # noqa: S310 - see Settings
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=_PATIENCE) as response:
                return str(response.read(_LARGEST).decode("utf-8", "replace"))
        except (urllib.error.URLError, OSError, ValueError) as error:
            self._looks.clear()  # its counters restart
            reason = getattr(error, "reason", None) or first_line(error)
            raise ZoolensError(f"The server {self.url} does not publish its metrics: {reason}.") from error


def _values(text: str) -> dict[str, dict[Key, float]]:
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError as error:
        raise MissingDependency("zoolens ui --server", "prometheus-client", "serve") from error
    values: dict[str, dict[Key, float]] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name.startswith("zoolens_"):
                    key = tuple(sample.labels[label] for label in _LABELS if label in sample.labels)
                    values.setdefault(sample.name, {})[key] = float(sample.value)
    except (ValueError, KeyError, IndexError) as error:
        raise ZoolensError(f"The server's answer is not metrics: {first_line(error)}.") from error
    return values


def compared(first: Look, last: Look) -> ServerNow:
    """What happened between two looks. A counter that has become smaller belongs to a server that was restarted."""
    seconds = last.at - first.at

    def grown(metric: str) -> Iterator[tuple[Key, float]]:
        before = first.values.get(metric, {})
        for key, value in last.values.get(metric, {}).items():
            growth = value - before.get(key, 0.0)
            yield key, growth if growth >= 0 else value

    def gauge(metric: str, name: str) -> float:
        return sum(value for key, value in last.values.get(metric, {}).items() if key[0] == name)

    answered = dict(grown("zoolens_answers_total"))
    buckets: dict[Key, list[tuple[float, float]]] = {}
    for key, count in grown("zoolens_answer_seconds_bucket"):
        buckets.setdefault(key[:3], []).append((float(key[3].replace("+Inf", "inf")), count))
    outcomes = list(grown("zoolens_requests_total"))
    names = list(dict.fromkeys(key[0] for key in last.values.get("zoolens_ready", {})))
    return ServerNow(
        seconds,
        tuple(
            EndpointNow(
                name,
                gauge("zoolens_ready", name) > 0,
                round(gauge("zoolens_queue_requests", name)),
                round(gauge("zoolens_running_requests", name)),
                _rate(sum(count for key, count in outcomes if key[0] == name and key[2] == "answered"), seconds),
                _rate(sum(count for key, count in outcomes if key[0] == name and key[2] != "answered"), seconds),
                tuple(
                    ModelNow(key[1], key[2], _rate(count, seconds), _percentiles(buckets.get(key, [])))
                    for key, count in sorted(answered.items(), key=lambda item: -item[1])
                    if key[0] == name
                ),
            )
            for name in names
        ),
    )


def _rate(count: float, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0


def _percentiles(buckets: list[tuple[float, float]]) -> dict[int, float]:
    """The bound of the first bucket that reaches each share; counts are cumulative."""
    total = max((count for _, count in buckets), default=0.0)
    if total <= 0:
        return {}
    ordered = sorted(buckets)
    return {
        percent: next((bound for bound, count in ordered if count >= total * percent / 100), math.inf)
        for percent in (50, 90, 99)
    }
