"""Charts of the surrogate: what a hyperparameter does to Δ, and what two do together."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.present.charts import (
    PERCENT,
    Chart,
    Spec,
    axis,
    heading,
    level,
    logarithmic_ticks,
    quantity,
    shade,
    values,
)
from zoolens.training.crosstrain.study.analysis.dependence import Curve, Dependence, Surface
from zoolens.training.crosstrain.study.analysis.surrogate import SurrogateInput
from zoolens.training.crosstrain.study.report.trial_charts import (
    DELTA_COLOUR,
    MOST_DIMENSIONS,
    MOST_LEVELS,
    MOST_POINTS,
    scaled,
)

WIDTH_OF_SURFACE: Final = 520
DOTS: Final[Spec] = {"type": "circle", "size": 8, "color": "#1b1f24", "opacity": 0.55, "clip": True}


def curves_chart(dependence: Dependence) -> Chart | None:
    """The most important hyperparameter first, all on one scale of Δ."""
    shown = sorted(dependence.curves, key=lambda curve: -curve.importance)[:MOST_DIMENSIONS]
    if not shown:
        return None
    low = min(float(curve.low.min()) for curve in shown)
    high = max(float(curve.high.max()) for curve in shown)
    room = 0.05 * (high - low) or 0.01
    across = 2 if len(shown) in (1, 2, 4) else 3
    panels = []
    for place, curve in enumerate(shown):
        label = axis("Δ", expression=PERCENT, tickCount=5)
        labels = label if place % across == 0 else {**label, "labels": False, "title": None}
        y = quantity("mean", low - room, high + room, labels)
        width = 770 // across - 26
        panels.append({"width": width, "height": 190, **_curve(curve, y, width)})
    title = "Partial dependence of Δ on each hyperparameter, ± 2 standard deviations of the surrogate"
    layout = {"concat": panels, "columns": across, "spacing": {"row": 20, "column": 26}}
    return Chart("dependence", title, {"title": heading(title, quality(dependence)), **layout})


def quality(dependence: Dependence) -> str:
    words = f"Surrogate of {dependence.surrogate.n} trials, leave-one-out R² {dependence.surrogate.r_squared:.2f}"
    return words if dependence.trusted else f"{words}: too poor a fit to be trusted"


def _curve(curve: Curve, y: Spec, width: float) -> Spec:
    rows = [
        {"x": str(value) if curve.input.levels else float(value), "mean": mean, "low": low, "high": high}
        for value, mean, low, high in zip(curve.values, curve.mean, curve.low, curve.high, strict=True)
        if not curve.input.levels or str(value) in curve.input.levels[:MOST_LEVELS]
    ]
    encoding = {"x": _position(curve.input, width), "y": y}
    band = {"x": encoding["x"], "y": {**y, "field": "low"}, "y2": {"field": "high"}}
    if curve.input.levels:
        layers = [
            {"mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.5, "color": DELTA_COLOUR}, "encoding": band},
            {"mark": {"type": "circle", "size": 64, "opacity": 1, "color": DELTA_COLOUR}, "encoding": encoding},
        ]
    else:
        layers = [
            {"mark": {"type": "area", "opacity": 0.16, "color": DELTA_COLOUR}, "encoding": band},
            {"mark": {"type": "line", "strokeWidth": 2, "color": DELTA_COLOUR}, "encoding": encoding},
        ]
    return {"data": values(rows), "layer": layers}


def _position(given: SurrogateInput, width: float) -> Spec:
    if given.levels:
        return level("x", given.levels[:MOST_LEVELS], axis(given.name), width)
    return scaled("x", given.name, given.low, given.high, log=given.log, tickCount=4)


def interaction_chart(surface: Surface, columns: dict[str, NDArray[Any]], dependence: Dependence) -> Chart:
    """Δ by two hyperparameters, averaged over the others; dots are the trials."""
    across, up = surface.inputs[1], surface.inputs[0]
    x_cells, x = _cells("x", surface.columns, across)
    y_cells, y = _cells("y", surface.rows, up, reverse=True)
    cells = [
        {**left, **bottom, "delta": float(surface.mean[i, j])}
        for i, bottom in enumerate(y_cells)
        for j, left in enumerate(x_cells)
    ]
    ends = {f"{name}2": {"field": f"{name}2"} for name in ("x", "y") if f"{name}2" in cells[0]}
    colour = shade("delta", float(surface.mean.min()), float(surface.mean.max()), "Δ", gradientThickness=14)
    edge = {**colour, "legend": None}  # drawn around each cell in its own colour, so that no seam shows
    dots = [
        {"x": _placed(left, across), "y": _placed(bottom, up)}
        for left, bottom in zip(columns[across.name], columns[up.name], strict=True)
    ]
    kept = [dot for dot in dots if dot["x"] is not None and dot["y"] is not None][:MOST_POINTS]
    title = f"Strongest interaction: Δ by {up.name[:20]} and {across.name[:20]}"
    layers: list[Spec] = [
        {
            "data": values(cells),
            "mark": {"type": "rect", "strokeWidth": 0.6},
            "encoding": {"x": x, "y": y, **ends, "color": colour, "stroke": edge},
        },
        {"data": values(kept), "mark": DOTS, "encoding": {"x": x, "y": y}},
    ]
    return Chart(
        "interaction",
        title,
        {"title": heading(title, quality(dependence)), "width": WIDTH_OF_SURFACE, "height": 400, "layer": layers},
    )


def _cells(field: str, at: NDArray[Any], variable: SurrogateInput, *, reverse: bool = False) -> tuple[list[Spec], Spec]:
    """The cells along one axis, each around a value of the grid, and the axis itself."""
    if at.dtype.kind != "f":
        names = [str(value) for value in at]
        named = axis(variable.name, grid=False)
        position = level(field, names[::-1], named) if reverse else level(field, names, named, WIDTH_OF_SURFACE)
        return [{field: name} for name in names], {**position, "scale": {**position["scale"], "type": "band"}}
    middles = np.log(at) if variable.log else at
    half = float(middles[1] - middles[0]) / 2
    edges = np.append(middles - half, middles[-1] + half)
    edges = np.exp(edges) if variable.log else edges
    low, high = float(edges[0]), float(edges[-1])
    ticks: Spec = {"values": logarithmic_ticks(low, high)} if variable.log else {}
    scale = {"type": "log"} if variable.log else {}
    position = quantity(field, low, high, axis(variable.name, grid=False, **ticks), **scale)
    cells = [{field: float(a), f"{field}2": float(b)} for a, b in pairwise(edges)]
    return cells, position


def _placed(value: Any, variable: SurrogateInput) -> Any:
    """The value of a trial where it has a place on the axis."""
    if variable.levels:
        return str(value) if str(value) in variable.levels else None
    return float(value) if np.isfinite(value) and (value > 0 or not variable.log) else None
