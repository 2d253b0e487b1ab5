"""Pictures of the surrogate: what a hyperparameter does to Δ, and what two do together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.crosstrain.analysis.dependence import Curve, Dependence, Surface
from zoolens.crosstrain.analysis.surrogate import Input
from zoolens.crosstrain.report.axes import Frame, Scale, level_scale, scale_between, wider
from zoolens.crosstrain.report.marks import DELTA, Line, Mark, Picture, Points, Polygon, Text, box, ramp, shortened
from zoolens.crosstrain.report.pictures import BAR, MOST_DIMENSIONS, SHADES, WIDTH
from zoolens.crosstrain.report.words import percent

HEIGHT: Final = 190.0
GAP: Final = 26.0
LEFT: Final = 66.0


def curves_picture(dependence: Dependence) -> Picture | None:
    """The most important first, all on one scale of Δ."""
    shown = sorted(dependence.curves, key=lambda one: -one.importance)[:MOST_DIMENSIONS]
    if not shown:
        return None
    low = min(float(one.low.min()) for one in shown)
    high = max(float(one.high.max()) for one in shown)
    room = 0.05 * (high - low) or 0.01
    y = Scale(low - room, high + room, percent=True)
    title = "Partial dependence of Δ on each hyperparameter, with 95 % band"
    marks: list[Mark] = [Text((20, 24), title, size=15, bold=True)]
    marks.append(Text((20, 44), quality(dependence), "dim", 12))
    across = 2 if len(shown) in (1, 2, 4) else 3
    width = (WIDTH - LEFT - 20) / across - GAP
    for place, curve in enumerate(shown):
        left, top = LEFT + place % across * (width + GAP), 62 + place // across * (HEIGHT + 58)
        frame = Frame(left, top, width, HEIGHT, _scale(curve.input), y)
        first = place % across == 0
        marks += [frame.ground(), *frame.x_axis(shortened(curve.input.name, 28), most=4)]
        marks += [*frame.y_axis("Δ" if first else "", named=first, away=48), *_curve(frame, curve)]
    rows = -(-len(shown) // across)
    return Picture("dependence", title, WIDTH, 62 + rows * (HEIGHT + 58), tuple(marks))


def quality(dependence: Dependence) -> str:
    found = f"Surrogate of {dependence.surrogate.n} trials, leave-one-out R² {dependence.surrogate.r_squared:.2f}"
    return found if dependence.trusted else f"{found}: too poor a fit to be trusted"


def interaction_picture(surface: Surface, columns: dict[str, NDArray[Any]], dependence: Dependence) -> Picture:
    """Δ by two hyperparameters, averaged over the others; dots are the trials."""
    across, up = surface.inputs[1], surface.inputs[0]
    title = f"Strongest interaction: Δ by {shortened(up.name, 20)} and {shortened(across.name, 20)}"
    y = _edges(surface.rows, up.log)
    frame = Frame(84 + wider([y]), 62, 520, 400, _edges(surface.columns, across.log), y)
    low, high = float(surface.mean.min()), float(surface.mean.max())
    marks: list[Mark] = [Text((20, 24), title, size=15, bold=True), Text((20, 44), quality(dependence), "dim", 12)]
    marks += _cells(frame, surface, low, high)
    dots = frame.points(columns[across.name], columns[up.name])
    dots = dots[np.isfinite(dots).all(axis=1)]
    marks.append(Points(tuple((float(x), float(y)) for x, y in dots[:1500]), "#1b1f24", 1.4, 0.55))
    marks += _ticks(frame, shortened(across.name, 28), shortened(up.name, 28))
    marks += _bar(frame.right + 50, frame.top, frame.height, low, high)
    return Picture("interaction", title, WIDTH, frame.bottom + 50, tuple(marks))


def _curve(frame: Frame, curve: Curve) -> Iterator[Mark]:
    low, high = frame.path(curve.values, curve.low), frame.path(curve.values, curve.high)
    middle = frame.path(curve.values, curve.mean)
    if curve.input.levels:
        for bottom, top in zip(low, high, strict=True):
            yield Line((bottom, top), DELTA, 2, opacity=0.5)
        yield Points(middle, DELTA, 4)
        return
    yield Polygon((*low, *reversed(high)), DELTA, 0.16)
    yield Line(middle, DELTA, 2)


def _scale(one: Input) -> Scale:
    return level_scale(one.levels) if one.levels else scale_between(one.low, one.high, one.log)


def _edges(values: NDArray[Any], log: bool) -> Scale:
    """A scale whose cells are centred on the values."""
    if values.dtype.kind != "f":
        return Scale(-0.5, len(values) - 0.5, levels=tuple(str(value) for value in values))
    if log:
        half = float(values[1] / values[0]) ** 0.5
        return Scale(float(values[0]) / half, float(values[-1]) * half, log=True)
    half = float(values[1] - values[0]) / 2
    return Scale(float(values[0]) - half, float(values[-1]) + half)


def _cells(frame: Frame, surface: Surface, low: float, high: float) -> Iterator[Mark]:
    rows, columns = surface.mean.shape
    width, height = frame.width / columns, frame.height / rows
    for i in range(rows):
        for j in range(columns):
            x, y = frame.left + j * width, frame.bottom - (i + 1) * height
            share = (surface.mean[i, j] - low) / ((high - low) or 1)
            yield box(x, y, x + width + 0.4, y + height + 0.4, ramp(float(share)))


def _ticks(frame: Frame, across: str, up: str) -> Iterator[Mark]:
    """Only the labels: lines would lie on the cells."""
    for mark in (*frame.x_axis(across), *frame.y_axis(up, away=62 + wider([frame.y]))):
        if isinstance(mark, Text):
            yield mark


def _bar(x: float, top: float, height: float, low: float, high: float) -> Iterator[Mark]:
    steps = 2 * SHADES
    part = min(height, BAR) / steps
    for one in range(steps):
        y = top + 20 + (steps - 1 - one) * part
        yield box(x, y, x + 14, y + part + 0.4, ramp(one / (steps - 1)))
    yield Text((x, top + 10), "Δ", "ink", 12)
    yield Text((x + 22, top + 30), percent(high, 1), "dim", 11)
    yield Text((x + 22, top + 20 + steps * part), percent(low, 1), "dim", 11)
