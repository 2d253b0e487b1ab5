"""The samples of a latency measurement as a picture: how long calls took, all of them and the undisturbed ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.present.charts import (
    DIM,
    FILLS,
    INK,
    SERIES,
    Chart,
    Spec,
    axis,
    heading,
    logarithmic_ticks,
    quantity,
    series,
    values,
)
from zoolens.base.present.figures import NOTHING, figure
from zoolens.base.present.labels import HEIGHT
from zoolens.base.present.tables import Column, Table
from zoolens.base.statistics.intervals import quantile
from zoolens.base.store.records import Run
from zoolens.base.store.store import Store
from zoolens.findings.measure.latency import FEWEST_CLEAN, LatencySamples

WIDTH: Final = 640
BARS: Final = 60
QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_KIND: Final = "latency-batch"
_ALL, _CLEAN = "all calls", "undisturbed calls"


@dataclass(frozen=True)
class Quantile:
    """A quantile in seconds. An end of the interval is None where the samples are too few to tell it."""

    name: str
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class LatencyDistribution:
    """The samples of one batch size as a histogram with quantiles."""

    batch: int
    n: int
    clean_n: int
    watched: bool  # the kernel told which calls were disturbed; if not, all calls count as clean
    disturbed: bool  # too few clean calls for a figure of their own
    edges: tuple[float, ...]  # of the bars, in seconds: one more than there are bars
    raw: tuple[int, ...]  # calls in each bar
    clean: tuple[int, ...]  # undisturbed calls in each bar
    raw_quantiles: tuple[Quantile, ...]
    clean_quantiles: tuple[Quantile, ...]


def latency_distributions(store: Store, run: Run) -> Iterator[LatencyDistribution]:
    """One for each batch size that the run was timed with, the smallest first."""
    batches = sorted(
        int(kind.removeprefix(_KIND))
        for kind in store.kinds(run.id)
        if kind.startswith(_KIND) and kind.removeprefix(_KIND).isdecimal()
    )
    for batch in batches:
        samples = LatencySamples.from_table(store.table(run.id, f"{_KIND}{batch}"))
        if len(samples):
            yield latency_distribution(samples, batch)


def latency_distribution(samples: LatencySamples, batch: int) -> LatencyDistribution:
    """`samples`: at least one. The bars are equally wide on a logarithmic scale, so that the tail has room."""
    seconds = np.maximum(samples.elapsed_ns, 1) / 1e9
    clean = seconds[samples.clean]
    low, high = float(seconds.min()), float(seconds.max())
    room = 1.02 if high > low else 1.2
    edges = np.geomspace(low / room, high * room, BARS + 1)
    return LatencyDistribution(
        batch=batch,
        n=len(seconds),
        clean_n=len(clean),
        watched=samples.watched,
        disturbed=len(clean) < FEWEST_CLEAN,
        edges=tuple(edges.tolist()),
        raw=tuple(np.histogram(seconds, edges)[0].tolist()),
        clean=tuple(np.histogram(clean, edges)[0].tolist()),
        raw_quantiles=_quantiles(seconds),
        clean_quantiles=_quantiles(clean),
    )


def latency_table(distributions: Iterable[LatencyDistribution]) -> Table:
    """The quantiles of each batch size: of the undisturbed calls, or of all where those are too few."""
    rows = [
        (
            each.batch,
            each.n,
            each.clean_n if each.watched else NOTHING,
            "all" if each.disturbed or not each.watched else "undisturbed",
            *map(_quantile_words, each.raw_quantiles if each.disturbed else each.clean_quantiles),
        )
        for each in distributions
    ]
    numbers = ("batch", "calls", "undisturbed")
    columns = (
        *(Column(name, "number") for name in numbers),
        Column("quantiles of"),
        *(Column(name, "number") for name in QUANTILES),
    )
    return Table("latency", columns, tuple(rows))


def _quantile_words(of: Quantile) -> str:
    ends = [NOTHING if end is None else figure(end, "s") for end in (of.low, of.high)]
    return f"{figure(of.value, 's')} [{', '.join(ends)}]"


def _quantiles(seconds: NDArray[np.float64]) -> tuple[Quantile, ...]:
    if not len(seconds):
        return ()
    ordered = np.sort(seconds)
    return tuple(Quantile(name, *quantile(ordered, share)) for name, share in QUANTILES.items())


def latency_distribution_chart(distribution: LatencyDistribution) -> Chart:
    """Bars of all calls, those of the undisturbed ones in front of them, and lines at the quantiles of the latter."""
    factor, unit = _scale(distribution)
    rows = [
        {"left": left / factor, "right": right / factor, "calls": count, "of": name, "words": words}
        for name, counts in ((_ALL, distribution.raw), (_CLEAN, distribution.clean))
        for left, right, count in zip(distribution.edges, distribution.edges[1:], counts, strict=False)
        if count
        for words in [f"{count:,} of {name}, {figure(left, 's')} to {figure(right, 's')}"]
    ]
    low, high = distribution.edges[0] / factor, distribution.edges[-1] / factor
    most = max(distribution.raw) * 1.12
    x = quantity("left", low, high, axis(f"time of a call in {unit}", values=logarithmic_ticks(low, high)), type="log")
    y = quantity("calls", 0, most, axis("calls", tickCount=4))
    title = f"Latency at batch {distribution.batch}"
    bars = {
        "data": values(rows),
        "mark": {"type": "rect"},
        "encoding": {
            "x": x,
            "x2": {"field": "right"},
            "y": {**y, "stack": None},
            "y2": {"datum": 0},
            "color": series("of", (_ALL, _CLEAN), ("#b9c2cc", SERIES[0])),
            "tooltip": {"field": "words", "type": "nominal", "title": "calls"},
        },
    }
    spec = {
        **FILLS,
        "title": heading(title, _subtitle(distribution)),
        "width": WIDTH,
        "height": 240,
        "layer": [bars, *_lines(distribution, factor, x)],
    }
    return Chart(f"latency-batch{distribution.batch}", f"{title}: {distribution.n:,} calls", spec)


def _scale(distribution: LatencyDistribution) -> tuple[float, str]:
    middle = distribution.raw_quantiles[0].value
    return next(((size, unit) for size, unit in ((1.0, "s"), (1e-3, "ms")) if middle >= size), (1e-6, "µs"))


def _subtitle(distribution: LatencyDistribution) -> str:
    if not distribution.watched:
        return f"{distribution.n:,} calls; this kernel does not report which were disturbed"
    share = 100 * distribution.clean_n / distribution.n
    words = f"{distribution.clean_n:,} of {distribution.n:,} calls ({share:.0f} %) were undisturbed"
    return words + ("; too few for a figure of their own, so lines are of all calls" if distribution.disturbed else "")


def _lines(distribution: LatencyDistribution, factor: float, x: Spec) -> list[Spec]:
    """The quantiles as lines, each name a line lower than the one before, so that near ones can be read."""
    quantiles = distribution.raw_quantiles if distribution.disturbed else distribution.clean_quantiles
    rows = [
        {"left": each.value / factor, "up": 4 + (HEIGHT + 2) * place, "text": f"{each.name} {figure(each.value, 's')}"}
        for place, each in enumerate(quantiles)
    ]
    if not rows:
        return []
    top = {"field": "up", "type": "quantitative", "scale": None, "axis": None}
    text = {"type": "text", "align": "left", "baseline": "top", "dx": 5, "color": INK, "fontSize": 11}
    return [
        {"data": values(rows), "mark": {"type": "rule", "color": DIM, "strokeDash": [4, 3]}, "encoding": {"x": x}},
        {"data": values(rows), "mark": text, "encoding": {"x": x, "y": top, "text": {"field": "text"}}},
    ]
