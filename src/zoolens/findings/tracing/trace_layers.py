"""From the spans of many repetitions to layers: each with a median, an interval and what computed it.

A layer is the same in two repetitions where its name, its kind, its place among namesakes and its callers are the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.statistics.intervals import quantile
from zoolens.base.store.records import Observation
from zoolens.findings.tracing.spans import RUN, Level

if TYPE_CHECKING:
    import pyarrow as pa

OUTSIDE: Final = 0.02  # of a call: so far may its layers begin before it or end after it
FEWEST_CLEAN: Final = 8  # undisturbed repetitions, so that there is an interval: with fewer, all are taken and marked

Samples = NDArray[np.float64]


@dataclass(frozen=True)
class Timing:
    """Seconds: the median of the undisturbed repetitions, its interval, and the median of all of them. An end of the
    interval is None where so few repetitions do not tell it. `disturbed`: too few were clean, so that all count."""

    median: float
    low: float | None
    high: float | None
    n: int
    raw: float
    disturbed: bool = False

    @property
    def as_data(self) -> dict[str, Any]:
        return {
            "seconds": self.median,
            "low": self.low,
            "high": self.high,
            "n": self.n,
            "raw_seconds": self.raw,
            "disturbed": self.disturbed,
        }

    def observation(self, name: str) -> Observation:
        """This median as a figure, marked where too few repetitions were undisturbed."""
        # Names the method: equal ends are then ticks of the clock, and not a missing spread.
        details = {"interval": "order statistics"} | ({"disturbed": True} if self.disturbed else {})
        return Observation(name, self.median, unit="s", low=self.low, high=self.high, n=self.n, details=details)


@dataclass(frozen=True)
class TracedLayer:
    """An operator of the framework, or a kernel."""

    name: str
    kind: str
    level: str
    timing: Timing
    samples: Samples = field(repr=False)  # seconds by repetition; NaN where it did not run
    nodes: tuple[str, ...] = ()
    kernel: str | None = None  # of most repetitions, like the precision
    precision: str | None = None
    shapes: tuple[tuple[int, ...], ...] = ()
    device: str = "cpu"
    synthetic: bool = False
    children: tuple[TracedLayer, ...] = ()
    started: float = 0.0  # seconds from the beginning of the call, in the median repetition

    @property
    def knows_nodes(self) -> bool:
        """Whether it or a layer inside names the nodes of the graph that it computes."""
        return bool(self.nodes) or any(child.knows_nodes for child in self.children)


@dataclass(frozen=True)
class MedianCall:
    """The call whose time is nearest to the median, in seconds. Its parts add up, as medians of parts do not."""

    seconds: float
    layers: float  # sum of its layers
    rest: float | None  # in no layer; None: unknown
    gaps: Mapping[str, float]  # where that is
    busy: float | None  # time in which at least one layer ran
    run: float | None  # the framework's own run, by its own clock

    @property
    def share(self) -> float:
        return self.layers / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class ObservedCalls:
    """What was observed at one level: the calls, the layers below them, and which repetitions were clean."""

    calls: Timing
    layers: tuple[TracedLayer, ...]
    total: Timing | None  # of the outermost layers; None where there are none
    gaps: Mapping[str, Timing]  # time of the call in no layer: before the first, between, after the last
    overlap: bool  # layers ran at the same time, so that their sum is more than the time they took
    clean: NDArray[np.bool_] = field(repr=False)
    rest: Timing | None = None  # time of the call in no layer; None where it is not known
    run: Timing | None = None  # the framework's own run in the call, by its own clock; None where it does not report it
    median: MedianCall | None = None  # None where there are no layers


def timing(samples: Samples, clean: NDArray[np.bool_]) -> Timing:
    """The figures of some repetitions. Those in which nothing ran are left out."""
    ran = ~np.isnan(samples)
    chosen = ran & clean
    disturbed = int(chosen.sum()) < min(FEWEST_CLEAN, int(ran.sum()))
    used = np.sort(samples[ran if disturbed else chosen])
    median, low, high = quantile(used, 0.5)
    return Timing(median, low, high, len(used), float(np.median(samples[ran])), disturbed)


def call_timing(table: pa.Table, observed: str, *, name: str = "predict") -> Timing | None:
    """The time of the calls during which this level was observed; None where there are none."""
    rows = [
        (row["duration"] / 1e9, row["clean"] is not False)
        for row in table.select(["duration", "clean", "observed", "name"]).to_pylist()
        if row["observed"] == observed and row["name"] == name
    ]
    if not rows:
        return None
    return timing(np.array([row[0] for row in rows]), np.array([row[1] for row in rows], bool))


def observed_calls_of(table: pa.Table, observed: Level) -> ObservedCalls | None:
    """The layers of the calls during which this level was observed."""
    rows = [row for row in table.to_pylist() if row["observed"] == observed]
    models = [row for row in rows if row["level"] == Level.MODEL]
    calls = {row["span_id"]: row for row in models if row["kind"] != RUN}
    if not calls:
        return None
    repeats = {row["repeat"]: place for place, row in enumerate(calls.values())}
    clean = np.array([row["clean"] is not False for row in calls.values()], bool)
    whole = np.array([row["duration"] / 1e9 for row in calls.values()])
    inside = [row for row in rows if row["level"] in (Level.LAYER, Level.LIBRARY)]
    tree = _Tree(inside, calls, repeats, clean)
    outer = [layer for layer in tree.layers if layer.level == Level.LAYER] or list(tree.layers)
    summed = np.nansum([layer.samples for layer in outer], axis=0) if outer else None
    outermost = [row for row in inside if row["parent"] in calls and row["level"] == (outer[0].level if outer else "")]
    placed = _placed(outermost, calls, repeats, clean)
    runs = _runs(models, calls, repeats, clean)
    times = timing(whole, clean)
    rest = None if summed is None else _rest(whole, summed, placed, clean)
    return ObservedCalls(
        times,
        tuple(tree.layers),
        None if summed is None else timing(summed, clean),
        {name: timing(samples, clean) for name, samples in placed.gaps.items()},
        placed.overlap,
        clean,
        None if rest is None else timing(rest, clean),
        None if runs is None else timing(runs, clean),
        None if summed is None else _median_call(whole, summed, rest, placed, runs, times, clean),
    )


def _median_call(
    whole: Samples,
    summed: Samples,
    rest: Samples | None,
    placed: _Placed,
    runs: Samples | None,
    times: Timing,
    clean: NDArray[np.bool_],
) -> MedianCall:
    apart = np.abs(whole - times.median)
    place = int(np.argmin(apart if times.disturbed else np.where(clean, apart, np.inf)))

    def of(samples: Samples | None) -> float | None:
        return None if samples is None or np.isnan(samples[place]) else float(samples[place])

    gaps = {name: float(samples[place]) for name, samples in placed.gaps.items()}
    return MedianCall(float(whole[place]), float(summed[place]), of(rest), gaps, of(placed.busy), of(runs))


def _rest(whole: Samples, summed: Samples, placed: _Placed, clean: NDArray[np.bool_]) -> Samples | None:
    """The time of each call in no layer. Where it is not known when layers ran, it is the call less their sum, unless
    that is more than the call: then layers ran at the same time, and how long none ran is not known."""
    if placed.busy is not None:
        return np.maximum(whole - placed.busy, 0.0)
    if placed.overlap or timing(whole - summed, clean).median < 0:
        return None
    return np.maximum(whole - summed, 0.0)


def _runs(
    rows: Sequence[Mapping[str, Any]],
    calls: Mapping[int, Mapping[str, Any]],
    repeats: Mapping[int, int],
    clean: NDArray[np.bool_],
) -> Samples | None:
    samples = np.full(len(clean), np.nan)
    for row in rows:
        if row["kind"] == RUN and row["parent"] in calls:
            samples[repeats[row["repeat"]]] = row["duration"] / 1e9
    return None if np.isnan(samples).all() else samples


class _Tree:
    """Groups the rows of all repetitions into layers."""

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        calls: Mapping[int, Mapping[str, Any]],
        repeats: Mapping[int, int],
        clean: NDArray[np.bool_],
    ) -> None:
        self._repeats, self._clean = repeats, clean
        self._starts = {row["repeat"]: int(row["time"]) for row in calls.values()}
        self._below: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
        for row in sorted(rows, key=lambda row: row["time"]):
            self._below[row["parent"]].append(row)
        self.layers = self._grouped(list(calls))

    def _grouped(self, parents: Sequence[int]) -> list[TracedLayer]:
        """The layers below spans that are the same one in different repetitions, in the order of time."""
        groups: dict[tuple[str, str, str, int], list[Mapping[str, Any]]] = {}
        for parent in parents:
            seen: dict[tuple[str, str, str], int] = defaultdict(int)
            for row in self._below.get(parent, ()):
                key = (row["name"], row["kind"], row["level"])
                groups.setdefault((*key, seen[key]), []).append(row)
                seen[key] += 1
        layers = [self._layer(group) for group in groups.values()]
        return sorted(layers, key=lambda layer: layer.started)

    def _layer(self, rows: Sequence[Mapping[str, Any]]) -> TracedLayer:
        samples = np.full(len(self._clean), np.nan)
        began = np.full(len(self._clean), np.nan)
        for row in rows:
            place = self._repeats[row["repeat"]]
            samples[place] = row["duration"] / 1e9
            began[place] = (row["time"] - self._starts[row["repeat"]]) / 1e9
        first = rows[0]
        (kernel, precision), _ = Counter((row["kernel"], row["precision"]) for row in rows).most_common(1)[0]
        return TracedLayer(
            first["name"],
            first["kind"],
            first["level"],
            timing(samples, self._clean),
            samples,
            tuple(first["nodes"] or ()),
            kernel,
            precision,
            tuple(tuple(shape) for shape in first["shapes"] or ()),
            first["device"],
            first["synthetic"],
            tuple(self._grouped([row["span_id"] for row in rows])),
            float(np.nanmedian(began)),
        )


@dataclass(frozen=True)
class _Placed:
    """What the starts of layers tell. `busy`: seconds of each call in which a layer ran; None where starts are unknown,
    or layers lie outside of their call, since these were timed by another clock or go on after it."""

    gaps: Mapping[str, Samples] = field(default_factory=dict)
    overlap: bool = False
    busy: Samples | None = None


def _placed(
    rows: Sequence[Mapping[str, Any]],
    calls: Mapping[int, Mapping[str, Any]],
    repeats: Mapping[int, int],
    clean: NDArray[np.bool_],
) -> _Placed:
    """Return where the call was in no layer, and whether layers overlap."""
    if not rows or any(row["synthetic"] for row in rows):
        return _Placed()
    by_call: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        by_call[row["parent"]].append((row["time"], row["time"] + row["duration"]))
    gaps = np.zeros((3, len(clean)))
    busy = np.zeros(len(clean))
    overlapping = outside = 0
    for span_id, call in calls.items():
        spans = sorted(by_call.get(span_id, ()))
        if not spans:
            continue
        covered = sum(end - start for start, end in _merged(spans))
        summed = sum(end - start for start, end in spans)
        overlapping += summed > 1.02 * covered
        first, last = spans[0][0], max(end for _, end in spans)
        call_start = call["time"]
        call_end = call_start + call["duration"]
        beyond = max(call_start - first, last - call_end)
        outside += beyond > OUTSIDE * call["duration"]
        place = repeats[call["repeat"]]
        gaps[:, place] = np.maximum([first - call_start, last - first - covered, call_end - last], 0)
        busy[place] = covered / 1e9
    overlap = overlapping > len(calls) / 2
    if outside > len(calls) / 2:
        return _Placed(overlap=overlap)
    names = ("before the first layer", "between layers", "after the last layer")
    seconds = {name: row / 1e9 for name, row in zip(names, gaps, strict=True)}
    return _Placed(seconds, overlap, busy)


def _merged(spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Sorted intervals as intervals that do not overlap."""
    start, end = spans[0]
    for begun, ended in spans[1:]:
        if begun > end:
            yield start, end
            start, end = begun, ended
        else:
            end = max(end, ended)
    yield start, end


def flat(layers: Sequence[TracedLayer]) -> Iterator[TracedLayer]:
    """Layers and everything below them."""
    for layer in layers:
        yield layer
        yield from flat(layer.children)
