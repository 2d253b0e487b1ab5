"""A run over time: the latency of every answer by the model that gave it, and what was offered, answered and not."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.present.charts import (
    DIM,
    INK,
    LETTER,
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
from zoolens.base.present.figures import figure
from zoolens.faces.load.exchanges import Exchanges
from zoolens.faces.load.results import Results

WIDTH: Final = 760
MOST_POINTS: Final = 4000
MOST_SWITCHES: Final = 40  # marked one by one; more would hide the rest
BARS: Final = 60  # stretches of time for which requests are counted
WORST: Final = 0.02  # share of the slowest answers, all of which are drawn
_OFFERED, _ANSWERED = "requests sent", "answered"


def latency_chart(exchanges: Exchanges, results: Results) -> Chart:
    end = max(results.seconds, float(np.nanmax(exchanges.finished, initial=0.0)))
    panels = [_latencies(exchanges, results, end), _counts(exchanges, results, end)]
    spec = {
        "vconcat": panels,
        "title": heading("Latency and requests over time", _subtitle(exchanges, results)),
        "resolve": {"scale": {"color": "independent"}},
    }
    return Chart("latency", "Latency of every answer over time, and requests per second", spec)


def _subtitle(exchanges: Exchanges, results: Results) -> str:
    words = [f"{len(exchanges):,} requests"]
    if len(exchanges.models) > 1:
        changes = len(results.switches)
        words.append(f"{changes:,} change{'s' * (changes != 1)} of the answering model")
    if int(exchanges.answered.sum()) > MOST_POINTS:
        words.append(f"a sample of {MOST_POINTS:,} answers is drawn, all of the slowest 2 % among them")
    return ", ".join(words)


def _latencies(exchanges: Exchanges, results: Results, end: float) -> Spec:
    chosen = _drawn(exchanges)
    milliseconds = np.maximum(exchanges.latency * 1e3, 1e-3)
    rows = [
        {"x": float(exchanges.intended[row]), "y": float(milliseconds[row]), "model": _model(exchanges, row)}
        for row in chosen
    ]
    limits = [*milliseconds[chosen].tolist(), *([1e3 * results.deadline] if results.deadline else [])] or [1.0, 100.0]
    low, high = min(limits) * 0.8, max(limits) * 1.25
    names = exchanges.models or [_ANSWERED]
    # Columns of the legend, which may not be wider than the chart.
    columns = max(1, int(WIDTH / (LETTER * max(map(len, names)) + 60)))
    x = quantity("x", 0.0, end, axis("seconds", tickCount=8))
    y = quantity("y", low, high, axis("latency in ms", values=logarithmic_ticks(low, high)), type="log")
    answers = {
        "data": values(rows),
        "mark": {"type": "circle", "size": 14, "opacity": 0.55},
        "encoding": {"x": x, "y": y, "color": series("model", names, columns=columns)},
    }
    layers = [*_switches(results, x), answers, *_deadline(results, end, x, y)]
    return {"layer": layers, "width": WIDTH, "height": 280}


def _switches(results: Results, x: Spec) -> list[Spec]:
    if len(results.switches) > MOST_SWITCHES:
        return []
    mark = {"type": "rule", "strokeDash": [3, 3], "color": DIM, "opacity": 0.7}
    return [{"data": values([{"x": at} for at in results.switches]), "mark": mark, "encoding": {"x": x}}]


def _deadline(results: Results, end: float, x: Spec, y: Spec) -> list[Spec]:
    if not results.deadline:
        return []
    words = f"deadline {figure(results.deadline, 's')}"
    rows = values([{"x": end, "y": 1e3 * results.deadline, "text": words}])
    text = {"type": "text", "align": "right", "dy": -7, "dx": -4, "color": INK, "fontSize": 11}
    return [
        {"data": rows, "mark": {"type": "rule", "color": INK, "strokeWidth": 1}, "encoding": {"y": y}},
        {"data": rows, "mark": text, "encoding": {"x": x, "y": y, "text": {"field": "text"}}},
    ]


def _model(exchanges: Exchanges, row: int) -> str:
    place = int(exchanges.model[row])
    return exchanges.models[place] if place >= 0 else _ANSWERED


def _drawn(exchanges: Exchanges) -> NDArray[np.int64]:
    """Which answers are drawn: all, or a sample that keeps the slowest, which is what one looks for."""
    answered = np.flatnonzero(exchanges.answered)
    if len(answered) <= MOST_POINTS:
        return answered
    by_latency = answered[np.argsort(exchanges.latency[answered])]
    worst = min(int(WORST * len(answered)), MOST_POINTS // 2)
    slowest, rest = by_latency[-worst:], by_latency[:-worst]
    some = np.random.default_rng(0).choice(rest, MOST_POINTS - worst, replace=False)
    return np.sort(np.concatenate([slowest, some]))


def _counts(exchanges: Exchanges, results: Results, end: float) -> Spec:
    """Requests per second by when they were meant to be sent, so that all lines are about the same requests."""
    edges = np.linspace(0, results.seconds, BARS + 1)
    width = results.seconds / BARS
    good = exchanges.answered
    named = _ANSWERED
    if results.deadline is not None:
        good, named = good & (exchanges.latency <= results.deadline), "answered within the deadline"
    lines = {_OFFERED: np.ones(len(exchanges), bool), named: good}
    if not exchanges.answered.all():
        lines["not answered"] = ~exchanges.answered
    rows: list[dict[str, Any]] = []
    for name, chosen in lines.items():
        counts, _ = np.histogram(exchanges.intended[chosen], edges)
        rows += [
            {"x": float(edge + width / 2), "y": count / width, "line": name}
            for edge, count in zip(edges, counts.tolist(), strict=False)
        ]
    most = max(row["y"] for row in rows) * 1.05 or 1.0
    return {
        "data": values(rows),
        "mark": {"type": "line", "interpolate": "step", "strokeWidth": 2},
        "encoding": {
            "x": quantity("x", 0.0, end, axis("seconds", tickCount=8)),
            "y": quantity("y", 0.0, most, axis("requests/s", tickCount=4)),
            "color": series(
                "line", list(lines), (SERIES[5], SERIES[0], SERIES[4]), symbolType="stroke", symbolStrokeWidth=3
            ),
        },
        "width": WIDTH,
        "height": 130,
    }
