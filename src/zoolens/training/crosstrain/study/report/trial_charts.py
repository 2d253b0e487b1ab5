"""Charts of the trials: how accuracies and their differences are spread, side against side, and over the space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.present.charts import (
    DIM,
    PERCENT,
    SERIES,
    Chart,
    Spec,
    axis,
    heading,
    level,
    logarithmic_ticks,
    quantity,
    series,
    shade,
    values,
)
from zoolens.base.present.figures import percent
from zoolens.base.present.text import clean
from zoolens.training.crosstrain.study.analysis.analysis_tables import APART
from zoolens.training.crosstrain.study.analysis.scales import LARGEST, usable
from zoolens.training.crosstrain.study.report.study_findings import Findings, TrialFigure
from zoolens.training.crosstrain.training.trials import TrainedSide, Trial

DELTA_COLOUR: Final = "#a3164a"
WIDTH: Final = 820  # of a chart without its axes
MOST_POINTS: Final = 1500  # in a panel
MOST_DIMENSIONS: Final = 6
MOST_LEVELS: Final = 12
MOST_PAIRS: Final = 6
STRIP: Final = 0.06  # of a density's height: one row of points below it
ROOM: Final = 0.04  # of a range, left free at both ends
DASHED: Final = [4, 3]

DELTA_LEGEND: Final[Spec] = {"orient": "top", "direction": "horizontal", "titleOrient": "left"}


def accuracy_chart(findings: Findings) -> Chart | None:
    return _density_chart("accuracies", "Test accuracy of each side", list(findings.accuracies.values()), SERIES)


def delta_chart(findings: Findings) -> Chart | None:
    """Draws Δ over the trials; with more than two sides a curve for each pair, in other colours than the sides have."""
    title = "Δ: difference of accuracy between the sides"
    if len(findings.pairs) == 1:
        return _density_chart("deltas", title, [findings.delta], (DELTA_COLOUR,), from_zero=True)
    return _density_chart("deltas", title, list(findings.pairs.values())[:MOST_PAIRS], SERIES[::-1], from_zero=True)


def _density_chart(
    name: str, title: str, figures: Sequence[TrialFigure], colours: Sequence[str], *, from_zero: bool = False
) -> Chart | None:
    """A curve for each figure with its trials as a row of points below; `from_zero` also marks 5 %."""
    shown = [(figure, figure.density) for figure in figures if figure.density is not None]
    if not shown:
        return None
    captions = [_caption(figure) for figure, _ in shown]
    top = max(float(density.height.max()) for _, density in shown)
    low = 0.0 if from_zero else min(float(density.grid[0]) for _, density in shown)
    high = max(float(density.grid[-1]) for _, density in shown)
    position = {
        "x": quantity("x", low, max(high, 1.2 * APART) if from_zero else high, axis(expression=PERCENT, tickCount=10)),
        "y": quantity("y", -top * STRIP * (len(shown) + 0.5), 1.08 * top, None),
        "color": series("of", captions, colours, columns=2),
    }
    curves = values(
        [
            {"x": x, "y": y, "of": caption}
            for caption, (_, density) in zip(captions, shown, strict=True)
            for x, y in zip(density.grid, density.height, strict=True)
        ]
    )
    points = values(
        [
            {"x": x, "y": -top * STRIP * (row + 0.75), "of": caption}
            for row, (caption, (figure, _)) in enumerate(zip(captions, shown, strict=True))
            for x in _thinned(np.sort(figure.known))
        ]
    )
    area = {**position, "y": {**position["y"], "stack": None}, "y2": {"datum": 0}}
    layers: list[Spec] = [
        {"data": curves, "mark": {"type": "area", "opacity": 0.16, "clip": True}, "encoding": area},
        {"data": curves, "mark": {"type": "line", "strokeWidth": 2, "clip": True}, "encoding": position},
        {"data": points, "mark": {"type": "circle", "size": 16, "opacity": 0.45}, "encoding": position},
    ]
    if from_zero:
        layers += _five_percent(position["x"])
    return Chart(name, title, {"title": heading(title), "width": WIDTH, "height": 270, "layer": layers})


def _caption(figure: TrialFigure) -> str:
    middle = percent(float(np.median(figure.known)), 1)
    return f"{clean(figure.name, 60)}: median {middle}, {len(figure.known):,} trials"


def _five_percent(x: Spec) -> list[Spec]:
    """A dashed line where the sides are five points apart."""
    label = {"type": "text", "align": "left", "dx": 5, "dy": 10, "fontSize": 11, "color": DIM}
    at = {"data": values([{"x": APART}])}
    return [
        {**at, "mark": {"type": "rule", "strokeDash": DASHED, "color": DIM}, "encoding": {"x": x}},
        {**at, "mark": label, "encoding": {"x": x, "y": {"value": 0}, "text": {"value": "5 %"}}},
    ]


def pairs_chart(findings: Findings) -> Chart | None:
    """One side's accuracy against the other's; on the diagonal they are equal."""
    shown = [(pair, figure) for pair, figure in findings.pairs.items() if len(figure.known)][:MOST_PAIRS]
    if not shown:
        return None
    known = np.concatenate([figure.known for figure in findings.accuracies.values()])
    room = ROOM * (known.max() - known.min()) or 0.01
    low, high = float(known.min() - room), float(known.max() + room)
    most = max(float(figure.known.max()) for _, figure in shown)
    across = min(len(shown), 3)
    panels = []
    for (a, b), figure in shown:
        rows = {"x": findings.accuracies[a].values, "y": findings.accuracies[b].values, "delta": figure.values}
        encoding = {
            "x": quantity("x", low, high, axis(a, expression=PERCENT, tickCount=5)),
            "y": quantity("y", low, high, axis(b, expression=PERCENT, tickCount=5)),
        }
        lines = [_parallel(encoding, low, high, shift) for shift in (0.0, APART, -APART)]
        side = 330 if across < 3 else 205
        points = _coloured(encoding, most)
        panels.append({"width": side, "height": side, "data": _by_delta(rows), "layer": [*lines, *points]})
    title = "Accuracy of one side against the other"
    return Chart("pairs", title, _panels(title, panels, across, spacing=24))


def _parallel(encoding: Spec, low: float, high: float, shift: float) -> Spec:
    """The line on which the second side is better by `shift`."""
    ends = values([{"x": end, "y": end + shift} for end in (low, high)])
    dash = {"strokeDash": DASHED} if shift else {}
    return {"data": ends, "mark": {"type": "line", "color": DIM, "strokeWidth": 1, "clip": True, **dash}} | {
        "encoding": encoding
    }


def space_chart(findings: Findings) -> Chart | None:
    """Each hyperparameter against each other, coloured by Δ; the last row is Δ itself."""
    names = list(findings.columns)[:MOST_DIMENSIONS]
    if not names or not len(findings.delta.known):
        return None
    columns = {f"d{place}": shown_values(findings.columns[name]) for place, name in enumerate(names)}
    title = "Where the sides part: every trial by its hyperparameters, coloured by Δ"
    spec = {
        "title": heading(title),
        "data": _by_delta({**columns, "delta": findings.delta.values}),
        "vconcat": [_space_row(findings, names, row) for row in range(1, len(names) + 1)],
        "spacing": 12,
        "resolve": {"scale": {"color": "shared"}},
    }
    return Chart("space", title, spec)


def _space_row(findings: Findings, names: Sequence[str], row: int) -> Spec:
    """One hyperparameter upwards against those before it; after the last one Δ upwards against all."""
    most, count, last = float(findings.delta.known.max()), len(names), row == len(names)
    side = min(770 // count - 14, 340 if count == 1 else 220)
    bare: Spec = {"labels": False, "title": None}
    words = [value for name in names[1:] for value in shown_values(findings.columns[name]) if isinstance(value, str)]
    room = max(36, min(7 * max(map(len, words), default=0), 112))  # the same in every row: columns are straight
    named: Spec = {"minExtent": room, "maxExtent": room}
    width = 750 if count == 1 else side
    panels = []
    for column in range(count if last else row):
        x = hyperparameter(f"d{column}", names[column], findings, width=width, tickCount=4, **({} if last else bare))
        labels = {"tickCount": 4, **(bare if column else named)}
        if last:
            up = axis("Δ", expression=PERCENT) | labels
            y = quantity("delta", -ROOM * most, (1 + ROOM) * most or 0.01, up)
        else:
            y = hyperparameter(f"d{row}", names[row], findings, upwards=True, **labels)
        points = _coloured({"x": x, "y": y}, most, grey=not last)
        panels.append({"width": width, "height": side, "layer": points})
    return {"hconcat": panels, "spacing": 12, "bounds": "flush"}  # long names below a panel do not push the next away


def hyperparameter(
    field: str, name: str, findings: Findings, *, width: float = WIDTH, upwards: bool = False, **settings: Any
) -> Spec:
    """The position of a trial by a hyperparameter: on named levels, or on a linear or logarithmic scale."""
    column = findings.columns[name]
    if column.dtype.kind != "f":
        levels = sorted({str(value) for value in column})[:MOST_LEVELS]
        named = axis(name, labelLimit=110) | settings
        return level(field, levels[::-1], named) if upwards else level(field, levels, named, width)
    known = usable(column)
    if not len(known):
        return quantity(field, 0.0, 1.0, axis(name) | settings)
    return scaled(field, name, float(known.min()), float(known.max()), log=name in findings.log, **settings)


def scaled(field: str, name: str, low: float, high: float, *, log: bool, room: float = ROOM, **settings: Any) -> Spec:
    """A position between two numbers, with some room at both ends."""
    if log and low < high:
        factor = (high / low) ** room
        low, high = low / factor, high * factor
        return quantity(field, low, high, axis(name, values=logarithmic_ticks(low, high)) | settings, type="log")
    free = (high - low) * room or abs(high) * room or 1.0
    return quantity(field, low - free, high + free, axis(name) | settings)


def shown_values(column: NDArray[Any]) -> list[Any]:
    """The values of a hyperparameter that have a place on its scale, None for the others."""
    if column.dtype.kind == "f":
        return [float(value) if abs(value) < LARGEST else None for value in column]
    levels = sorted({str(value) for value in column})[:MOST_LEVELS]
    return [str(value) if str(value) in levels else None for value in column]


def _by_delta(columns: Mapping[str, Sequence[Any] | NDArray[Any]]) -> Spec:
    """One row for each trial, the largest Δ last, so that it is drawn on top; those without Δ come first."""
    deltas = np.asarray(columns["delta"], np.float64)
    without, known = np.flatnonzero(~np.isfinite(deltas)), np.flatnonzero(np.isfinite(deltas))
    order = [*without[:MOST_POINTS], *_thinned(known[np.argsort(deltas[known], kind="stable")])]
    return values([{name: column[place] for name, column in columns.items()} for place in order])


def _coloured(encoding: Spec, most: float, *, grey: bool = True) -> list[Spec]:
    """Trials as points in the colour of their Δ, and below them those without one in grey."""
    fields = [channel["field"] for channel in encoding.values()]
    placed = " && ".join(f"isValid(datum.{field})" for field in fields)
    colour = shade("delta", 0.0, most, "Δ", **DELTA_LEGEND)
    layers: list[Spec] = [
        {
            "transform": [{"filter": f"{placed} && isValid(datum.delta)"}],
            "mark": {"type": "circle", "size": 27, "opacity": 0.85, "clip": True},
            "encoding": {**encoding, "color": colour},
        }
    ]
    if grey:
        pale = {"type": "circle", "size": 13, "opacity": 0.5, "color": DIM, "clip": True}
        layers.insert(0, {"transform": [{"filter": f"{placed} && !isValid(datum.delta)"}]} | {"mark": pale})
        layers[0]["encoding"] = encoding
    return layers


def training_chart(
    trials: Sequence[Trial], title: str = "How the trials that are furthest apart were trained"
) -> Chart | None:
    """One row for each trial that has at least two epochs: the loss on the left, the accuracy on the right."""
    shown = [trial for trial in trials if max((_epochs(side) for side in trial.sides), default=0) > 1]
    if not shown:
        return None
    frameworks = list(dict.fromkeys(side.framework for trial in shown for side in trial.sides))
    rows = []
    for trial in shown:
        delta = "" if trial.delta is None else f", Δ {100 * trial.delta:.2f} %"
        small = {"fontSize": 12, "offset": 6}
        panels = [_course(trial, what, frameworks) for what in ("loss", "accuracy")]
        name = {**heading(f"Trial {clean(trial.id, 40)}{delta}"), **small}
        rows.append({"title": name, "hconcat": [panel for panel in panels if panel], "spacing": 40})
    shared = {"scale": {"color": "shared"}}
    return Chart("training", title, {"title": heading(title), "vconcat": rows, "spacing": 24, "resolve": shared})


def _epochs(side: TrainedSide) -> int:
    return max(len(side.losses), len(side.accuracies))


def _course(trial: Trial, what: str, frameworks: Sequence[str]) -> Spec | None:
    """What became of the loss or the accuracy of each side, epoch by epoch."""
    rows: list[Spec] = [
        {"epoch": epoch, "value": float(value), "of": side.framework}
        for side in trial.sides
        for epoch, value in enumerate(side.losses if what == "loss" else side.accuracies, 1)
        if value is not None and np.isfinite(value)
    ]
    if not rows:
        return None
    low, high = min(row["value"] for row in rows), max(row["value"] for row in rows)
    free = (high - low) * ROOM or abs(high) * ROOM or 1.0
    most = max(_epochs(side) for side in trial.sides)
    label = axis("loss while training") if what == "loss" else axis("test accuracy", expression=PERCENT)
    encoding = {
        "x": quantity("epoch", 0.5, most + 0.5, axis("epoch", tickMinStep=1, tickCount=min(most, 6))),
        "y": quantity("value", low - free, high + free, {**label, "tickCount": 5}),
        "color": series("of", frameworks),
    }
    mark = {"type": "line", "strokeWidth": 2, "point": {"size": 28}}
    return {"width": 340, "height": 180, "data": values(rows), "mark": mark, "encoding": encoding}


def _panels(title: str, panels: Sequence[Spec], columns: int, *, spacing: int, subtitle: str = "") -> Spec:
    return {
        "title": heading(title, subtitle),
        "concat": list(panels),
        "columns": columns,
        "spacing": spacing,
        "resolve": {"scale": {"color": "shared"}},
    }


def _thinned(order: NDArray[Any]) -> NDArray[Any]:
    """Evenly through what is sorted, with both ends."""
    if len(order) <= MOST_POINTS:
        return order
    kept: NDArray[Any] = order[np.linspace(0, len(order) - 1, MOST_POINTS).round().astype(int)]
    return kept
