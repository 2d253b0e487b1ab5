"""The pictures of a report. Each is a description of marks; `vector` and `raster` draw it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.crosstrain.analysis.tables import APART
from zoolens.crosstrain.report.axes import Frame, Scale, scale_of, wider
from zoolens.crosstrain.report.findings import Figure, Findings
from zoolens.crosstrain.report.marks import (
    DELTA,
    SIDES,
    Line,
    Mark,
    Picture,
    Points,
    Polygon,
    Text,
    box,
    ramp,
    shortened,
)
from zoolens.crosstrain.report.words import percent

WIDTH: Final = 860.0
SHADES: Final = 12  # colours of points: one path each
MOST_POINTS: Final = 1500  # in a panel
MOST_DIMENSIONS: Final = 6
MOST_PAIRS: Final = 6
STRIP: Final = 0.06  # of a density's height: one row of points below it
BAR: Final = 170.0


def density_picture(name: str, title: str, figures: Sequence[tuple[Figure, str]], *, line: bool) -> Picture | None:
    """Curves with a row of points each below; `line` marks 5 %."""
    shown = [(figure, colour) for figure, colour in figures if figure.density is not None]
    if not shown:
        return None
    top = max(float(figure.density.height.max()) for figure, _ in shown if figure.density)
    legend = 22.0 * ((len(shown) + 1) // 2)
    low, high = _range(shown, line)
    y = Scale(-top * STRIP * (len(shown) + 0.5), top * 1.08)
    frame = Frame(20, 48 + legend, WIDTH - 40, 270, Scale(low, high, percent=True), y)
    marks: list[Mark] = [frame.ground(), *frame.x_axis(most=10), *_heading(title)]
    if line:
        at = frame.left + frame.x.share(APART) * frame.width
        marks += [
            Line(((at, frame.top), (at, frame.bottom)), "dim", 1, (4, 3)),
            Text((at + 5, frame.top + 14), "5 %", "dim", 11),
        ]
    for row, (figure, colour) in enumerate(shown):
        marks += _curve(frame, figure, colour, -top * STRIP * (row + 0.75))
        x, y_at = frame.left + (row % 2) * WIDTH / 2, 42 + 22.0 * (row // 2)
        marks += _legend(x, y_at, figure, colour)
    return Picture(name, title, WIDTH, frame.bottom + 30, tuple(marks))


def _range(shown: Sequence[tuple[Figure, str]], line: bool) -> tuple[float, float]:
    grids = [figure.density.grid for figure, _ in shown if figure.density]
    low, high = min(float(grid[0]) for grid in grids), max(float(grid[-1]) for grid in grids)
    return (0.0, max(high, 1.2 * APART)) if line else (low, high)


def _curve(frame: Frame, figure: Figure, colour: str, row: float) -> Iterator[Mark]:
    if figure.density is None:
        return
    grid, height = figure.density.grid, figure.density.height
    path = frame.path(grid, height)
    base = frame.path(grid[[-1, 0]], np.zeros(2))
    yield Polygon((*path, *base), colour, 0.16)
    yield Line(path, colour, 2)
    known = _thinned(np.sort(figure.known))
    yield Points(frame.path(known, np.full(len(known), row)), colour, 2, 0.45)


def _legend(x: float, y: float, figure: Figure, colour: str) -> Iterator[Mark]:
    middle = percent(float(np.median(figure.known)), 1)
    yield box(x, y, x + 14, y + 10, colour)
    yield Text((x + 20, y + 9), f"{shortened(figure.name, 30)}: median {middle}, {len(figure.known):,} trials", size=12)


def accuracy_picture(findings: Findings) -> Picture | None:
    figures = [(figure, SIDES[i % len(SIDES)]) for i, figure in enumerate(findings.accuracies.values())]
    return density_picture("accuracies", "Test accuracy of each side", figures, line=False)


def delta_picture(findings: Findings) -> Picture | None:
    """For more than two sides a curve per pair, in other colours than the sides have."""
    figures = list(zip(findings.pairs.values(), reversed(SIDES), strict=False))
    figures = [(findings.delta, DELTA)] if len(figures) == 1 else figures
    return density_picture("deltas", "Δ: difference of accuracy between the sides", figures, line=True)


def pairs_picture(findings: Findings) -> Picture | None:
    """One side's accuracy against the other's; on the diagonal they are equal."""
    shown = [(pair, figure) for pair, figure in findings.pairs.items() if len(figure.known)][:MOST_PAIRS]
    if not shown:
        return None
    known = np.concatenate([figure.known for figure in findings.accuracies.values()])
    room = 0.04 * (known.max() - known.min()) or 0.01
    scale = Scale(float(known.min() - room), float(known.max() + room), percent=True)
    across = min(len(shown), 3)
    side = min((WIDTH - 100) / across - 70 * (across - 1) / across, 330.0)
    most = max(float(figure.known.max()) for _, figure in shown)
    title = "Accuracy of one side against the other"
    marks: list[Mark] = [*_heading(title), *_colour_bar(WIDTH - BAR - 20, 24, most, "Δ")]
    for place, ((a, b), figure) in enumerate(shown):
        left, top = 80 + place % across * (side + 70), 62 + place // across * (side + 60)
        frame = Frame(left, top, side, side, scale, scale)
        marks += [frame.ground(), *frame.x_axis(shortened(a, 28)), *frame.y_axis(shortened(b, 28), away=50)]
        ends = np.array([scale.low, scale.high])
        marks.append(Line(frame.path(ends, ends), "dim", 1))
        for shift in (APART, -APART):
            inside = np.clip(ends, scale.low - min(shift, 0), scale.high - max(shift, 0))
            if inside[0] < inside[1]:
                marks.append(Line(frame.path(inside, inside + shift), "dim", 1, (4, 3)))
        at = frame.points(findings.accuracies[a].values, findings.accuracies[b].values)
        marks += _coloured(at, figure.values, most)
    rows = -(-len(shown) // across)
    return Picture("pairs", title, WIDTH, 62 + rows * (side + 60), tuple(marks))


def space_picture(findings: Findings) -> Picture | None:
    """Each hyperparameter against each other, coloured by Δ; the last row is Δ itself."""
    names = list(findings.columns)[:MOST_DIMENSIONS]
    if not names or not len(findings.delta.known):
        return None
    most, count = float(findings.delta.known.max()), len(names)
    scales = {name: scale_of(findings.columns[name], name in findings.log) for name in names}
    more = wider(scales[name] for name in names[1:])
    side = min((WIDTH - 100 - more) / count - 12, 340.0 if count == 1 else 220.0)
    wide = WIDTH - 110 if count == 1 else side
    title = "Where the sides part: every trial by its hyperparameters, coloured by Δ"
    marks: list[Mark] = [*_heading(title), *_colour_bar(WIDTH - BAR - 20, 34, most, "Δ")]
    delta_scale = Scale(-0.04 * most, 1.04 * most or 0.01, percent=True)
    for row in range(1, count + 1):
        last = row == count
        vertical = findings.delta.values if last else findings.columns[names[row]]
        y = delta_scale if last else scales[names[row]]
        for column in range(count if last else row):
            left, top = 84 + more + column * (side + 12), 76 + (row - 1) * (side + 12)
            frame = Frame(left, top, wide, side, scales[names[column]], y)
            label = "Δ" if last else names[row]
            marks += [frame.ground(), *frame.x_axis(shortened(names[column], 24), most=4, named=last)]
            marks += frame.y_axis(shortened(label, 24), most=4, named=column == 0, away=62 + more)
            marks += _coloured(frame.points(findings.columns[names[column]], vertical), findings.delta.values, most)
    return Picture("space", title, WIDTH, 76 + count * (side + 12) + 36, tuple(marks))


def _heading(title: str) -> Iterator[Mark]:
    yield Text((20, 24), title, size=15, bold=True)


def _coloured(at: NDArray[np.float64], deltas: NDArray[np.float64], most: float) -> Iterator[Mark]:
    """The largest Δ on top; trials without one in grey, below."""
    placed = np.isfinite(at).all(axis=1)
    known = np.isfinite(deltas)
    without = at[placed & ~known]
    if len(without):
        yield Points(_pairs(without[:MOST_POINTS]), "dim", 1.8, 0.5)
    order = np.flatnonzero(placed & known)
    order = _thinned(order[np.argsort(deltas[order], kind="stable")])
    shade = np.minimum((deltas[order] / (most or 1) * SHADES).astype(int), SHADES - 1)
    for one in np.unique(shade):
        yield Points(_pairs(at[order[shade == one]]), ramp(one / (SHADES - 1)), 2.6, 0.85)


def _colour_bar(x: float, y: float, most: float, label: str) -> Iterator[Mark]:
    step = BAR / SHADES
    for one in range(SHADES):
        yield box(x + one * step, y, x + (one + 1) * step + 0.3, y + 10, ramp(one / (SHADES - 1)))
    yield Text((x - 8, y + 9), label, "ink", 12, "end")
    yield Text((x, y + 23), "0", "dim", 11)
    yield Text((x + BAR, y + 23), percent(most, 1), "dim", 11, "end")


def _thinned(values: NDArray[Any]) -> NDArray[Any]:
    """Evenly through the sorted values, with both ends."""
    if len(values) <= MOST_POINTS:
        return values
    kept: NDArray[Any] = values[np.linspace(0, len(values) - 1, MOST_POINTS).round().astype(int)]
    return kept


def _pairs(at: NDArray[np.float64]) -> tuple[tuple[float, float], ...]:
    return tuple((float(x), float(y)) for x, y in at)
