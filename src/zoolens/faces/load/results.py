"""What a run under load says: latency percentiles, goodput, what was shed, and how right the answers were.

Nothing here looks at the server's own word. Two rules keep the figures honest. Percentiles are shown over the answered
requests *and* over all that were asked, where one without an answer took infinitely long: a server that sheds nine of
ten looks quick by the first alone. And a run in which the driver itself was late is marked as invalid.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.statistics.intervals import Interval, bootstrap_mean, random_blocks, wilson
from zoolens.base.statistics.series import series_quantile, series_share
from zoolens.faces.load.exchanges import UNKNOWN, Exchanges, Outcome

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
LATE: Final = 0.002  # seconds by which the driver may be late, or 5 % of the median latency
LATE_SHARE_OF_MEDIAN: Final = 0.05
MOST_LATE: Final = 0.01  # share of requests that may be later than that
MOST_HELD: Final = 0.001  # share of requests that may have waited for a free connection


@dataclass(frozen=True)
class Percentile:
    """One latency percentile in seconds, over the answered requests and over all requests."""

    name: str
    answered: float  # over the answered requests
    low: float | None  # confidence interval of `answered`; None where there are too few requests for one
    high: float | None
    asked: float  # over all requests; infinite where too many were not answered


@dataclass(frozen=True)
class Share:
    count: int
    total: int
    interval: Interval | None = None

    @property
    def value(self) -> float:
        return self.count / self.total if self.total else math.nan


@dataclass(frozen=True)
class AnsweredBy:
    """What one model answered: how often, how quickly, how right."""

    model: str
    count: int
    median: float
    p99: float
    accuracy: Share | None


@dataclass(frozen=True)
class Results:
    """The figures of a run under load."""

    loop: str
    seconds: float  # of the arrivals, or of the closed loop
    requests: int
    offered_rate: float
    answered_rate: float
    percentiles: tuple[Percentile, ...]
    outcomes: Mapping[Outcome, int]
    reasons: Mapping[Outcome, str]
    deadline: float | None
    goodput: Share | None
    accuracy: Share | None
    models: tuple[AnsweredBy, ...]
    switches: tuple[float, ...]  # seconds at which the answering model changed, in the order of the answers
    driver_late_p99: float  # seconds between the intended and the real sending
    invalid: tuple[str, ...]  # why the figures do not describe the server; empty where they do
    notes: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        return not self.invalid


def summarise(
    exchanges: Exchanges,
    *,
    loop: str,
    seconds: float,
    deadline: float | None = None,
    notes: tuple[str, ...] = (),
) -> Results:
    """The results of a run. `loop` is "open" or "closed", `deadline` in seconds from the intended arrival."""
    latency, answered = exchanges.latency, exchanges.answered
    count = len(exchanges)
    within = answered & (latency <= deadline) if deadline is not None else answered
    wall = max(seconds, float(np.nanmax(exchanges.finished, initial=0.0)))
    return Results(
        loop=loop,
        seconds=seconds,
        requests=count,
        offered_rate=count / seconds,
        answered_rate=int(answered.sum()) / wall,
        percentiles=_percentiles(exchanges),
        outcomes={outcome: n for outcome in Outcome if (n := int(exchanges.of(outcome).sum()))},
        reasons=dict(exchanges.reasons),
        deadline=deadline,
        goodput=_goodput(exchanges, within) if deadline is not None else None,
        accuracy=_accuracy(exchanges, answered),
        models=_by_model(exchanges),
        switches=_switches(exchanges),
        driver_late_p99=_driver_late(exchanges),
        invalid=tuple(_invalid(exchanges, loop)),
        notes=notes,
    )


def _percentiles(exchanges: Exchanges) -> tuple[Percentile, ...]:
    answered = exchanges.answered
    times = exchanges.latency[answered]
    everyone = np.sort(np.where(answered, exchanges.latency, np.inf))
    rows = []
    for name, q in QUANTILES.items():
        value, low, high = series_quantile(times, q)
        asked = value if answered.all() else _upper_quantile(everyone, q)
        rows.append(Percentile(name, value, low, high, asked))
    worst = float(times.max()) if len(times) else math.nan
    rows.append(Percentile("max", worst, None, None, float(everyone[-1]) if len(everyone) else math.nan))
    return tuple(rows)


def _upper_quantile(ordered: NDArray[np.float64], q: float) -> float:
    """A value of the sample, since one cannot interpolate to infinity."""
    if not len(ordered):
        return math.nan
    rank = min(math.ceil(q * len(ordered)), len(ordered))
    return float(ordered[rank - 1])


def _goodput(exchanges: Exchanges, within: NDArray[np.bool_]) -> Share:
    """The share of all requests that were answered within the deadline."""
    latency = np.where(exchanges.answered, exchanges.latency, np.inf)
    return Share(int(within.sum()), len(exchanges), series_share(within, latency))


def _accuracy(exchanges: Exchanges, chosen: NDArray[np.bool_]) -> Share | None:
    """How often the answers were right, among those whose inputs have labels.

    A small dataset is sent over and over, and the same input gets the same answer: the interval comes from resampling
    inputs, not requests.
    """
    judged = chosen & (exchanges.correct != UNKNOWN)
    total = int(judged.sum())
    if not total:
        return None
    right = (exchanges.correct[judged] == 1).astype(np.float64)
    _, inputs = np.unique(exchanges.input[judged], return_inverse=True)
    distinct = int(inputs.max()) + 1
    # Where all answers are right, or all wrong, resampling shows no spread: Wilson's interval of the inputs does.
    counted = wilson(round(float(right.mean()) * distinct), distinct)
    resampled = bootstrap_mean(right, random_blocks(distinct)[inputs])
    return Share(int(right.sum()), total, resampled.with_all_of(counted))


def _by_model(exchanges: Exchanges) -> tuple[AnsweredBy, ...]:
    rows = []
    for place, model in enumerate(exchanges.models):
        chosen = exchanges.answered & (exchanges.model == place)
        times = exchanges.latency[chosen]
        if len(times):
            median, p99 = np.quantile(times, [0.5, 0.99]).tolist()
            rows.append(AnsweredBy(model, len(times), median, p99, _accuracy(exchanges, chosen)))
    return tuple(sorted(rows, key=lambda row: -row.count))


def _switches(exchanges: Exchanges) -> tuple[float, ...]:
    chosen = np.flatnonzero(exchanges.answered & (exchanges.model != UNKNOWN))
    chosen = chosen[np.argsort(exchanges.finished[chosen], kind="stable")]
    models = exchanges.model[chosen]
    changed = np.flatnonzero(models[1:] != models[:-1]) + 1
    return tuple(float(at) for at in exchanges.finished[chosen[changed]])


def _lateness(exchanges: Exchanges) -> NDArray[np.float64]:
    """Seconds between the intended and the real sending; a request that was never sent is as late as can be."""
    late = exchanges.sent - exchanges.intended
    return np.where(np.isnan(exchanges.sent), np.inf, late)


def _driver_late(exchanges: Exchanges) -> float:
    return _upper_quantile(np.sort(_lateness(exchanges)), 0.99)


def _invalid(exchanges: Exchanges, loop: str) -> list[str]:
    if loop != "open" or not len(exchanges):
        return []
    reasons = []
    held = int(exchanges.held.sum())
    if held > MOST_HELD * len(exchanges):
        reasons.append(
            f"{held:,} of {len(exchanges):,} requests had to wait for a free connection of the driver: allow more "
            "connections, or a lower rate."
        )
    times = exchanges.latency[exchanges.answered]
    median = float(np.median(times)) if len(times) else 0.0
    allowed = max(LATE, LATE_SHARE_OF_MEDIAN * median)
    late = int((_lateness(exchanges)[~exchanges.held] > allowed).sum())
    if late > MOST_LATE * len(exchanges):
        reasons.append(
            f"{late:,} of {len(exchanges):,} requests were sent more than {1e3 * allowed:.1f} ms late: the driver "
            "could not keep up, and its own delay is part of the latencies. Lower the rate, or use another machine."
        )
    return reasons


def as_data(results: Results) -> dict[str, Any]:
    """The results as plain data for JSON; what is infinite or unknown is null."""
    return {
        "loop": results.loop,
        "valid": results.valid,
        "invalid_because": list(results.invalid),
        "seconds": results.seconds,
        "requests": results.requests,
        "offered_requests_per_second": results.offered_rate,
        "answered_requests_per_second": results.answered_rate,
        "latency_seconds": {
            row.name: {
                "answered": _finite(row.answered),
                "low": row.low,
                "high": row.high,
                "all_requests": _finite(row.asked),
            }
            for row in results.percentiles
        },
        "outcomes": {outcome.name.lower(): count for outcome, count in results.outcomes.items()},
        "reasons": {outcome.name.lower(): words for outcome, words in results.reasons.items()},
        "deadline_seconds": results.deadline,
        "goodput": _share(results.goodput),
        "accuracy": _share(results.accuracy),
        "models": [
            {
                "model": row.model,
                "answers": row.count,
                "latency_p50_seconds": row.median,
                "latency_p99_seconds": row.p99,
                "accuracy": _share(row.accuracy),
            }
            for row in results.models
        ],
        "switches_at_seconds": list(results.switches),
        "driver_late_p99_seconds": _finite(results.driver_late_p99),
        "notes": list(results.notes),
    }


def _share(share: Share | None) -> dict[str, Any] | None:
    if share is None:
        return None
    low, high = share.interval if share.interval is not None else (None, None)
    return {"value": _finite(share.value), "low": low, "high": high, "count": share.count, "total": share.total}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
