"""The agreement matrix as a chart: a heat map with its numbers, families framed, as SVG or as a page."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

import numpy as np

from zoolens.base.present import images
from zoolens.base.present.charts import DIM, INK, LINE, Chart, Spec, heading, shade, values
from zoolens.base.present.pages import Page, Section, page_html
from zoolens.base.present.text import shareable
from zoolens.findings.comparisons.matrix import Matrix

CELL: Final = 46
SMALL_CELL: Final = 34  # from so many models on:
MANY: Final = 16
LONGEST: Final = 48  # characters of a name
COLOURS: Final = ("#441e70", "#21788c", "#fae450")  # dark to light: readable without colour too
LIGHT: Final = 0.576  # of the colour scale: where cells are so light that their numbers are dark


def svg(matrix: Matrix) -> str:
    return images.svg(chart(matrix))


def html(matrix: Matrix) -> str:
    """The chart as a page that needs nothing else."""
    title = f"Agreement of {len(matrix.names)} models on {matrix.dataset}"
    return page_html(Page(title, sections=(Section(charts=(chart(matrix),), items=matrix.notes),)))


def chart(matrix: Matrix) -> Chart:
    side = len(matrix.names) * (CELL if len(matrix.names) < MANY else SMALL_CELL)
    low = _lowest_colour(matrix)
    gaps = bool(np.isnan(matrix.agreement).any())
    rows = {"field": "row", "type": "ordinal", "sort": None, "title": None}
    columns = {**rows, "field": "column"}
    names = [_name(matrix, place) for place in range(len(matrix.names))]
    place = {
        "y": {**rows, "scale": {"domain": names, "paddingInner": 0}, "axis": _labels(offset=52)},
        "x": {**columns, "scale": {"domain": names, "paddingInner": 0}, "axis": _labels(orient="top", labelAngle=-45)},
    }
    runtimes = ", ".join(dict.fromkeys(run.stack.runtime for run in matrix.runs))
    grey = " Grey: cannot be compared." if gaps else ""
    subtitle = f"In {runtimes}. Frames: families by average linkage. Left: accuracy.{grey}"
    title = f"{matrix.title}, % of {matrix.n:,} inputs of {matrix.dataset}"
    tooltip = {"field": "hint", "type": "nominal"}
    ink = {"condition": {"test": "datum.light", "value": "#111"}, "value": "#fff"}
    known, unknown = ([{"filter": f"{sign}isValid(datum.agreement)"}] for sign in ("", "!"))
    layers: list[Spec] = [
        {
            "transform": known,
            "mark": {"type": "rect", "width": {"band": 0.98}, "height": {"band": 0.98}},
            "encoding": {**place, "color": _colour(matrix, low), "tooltip": tooltip},
        },
        {
            "transform": unknown,
            "mark": {"type": "rect", "width": {"band": 0.98}, "height": {"band": 0.98}, "color": LINE},
            "encoding": {**place, "tooltip": tooltip},
        },
        {
            "transform": known,
            "mark": {"type": "text", "fontSize": 12, "tooltip": None},
            "encoding": {**place, "text": {"field": "shown"}, "color": ink},
        },
        {
            "data": values([_accuracy(matrix, i) for i in range(len(names))]),
            "mark": {"type": "text", "align": "right", "fontSize": 12, "color": DIM},
            "encoding": {"y": place["y"], "x": {"value": -6}, "text": {"field": "accuracy"}},
        },
        {
            "data": values(list(_families(matrix))),
            "mark": {"type": "rect", "fill": None, "stroke": INK, "strokeWidth": 2},
            "encoding": {
                "x": {**place["x"], "field": "first", "bandPosition": 0},
                "x2": {"field": "last", "bandPosition": 1},
                "y": {**place["y"], "field": "first", "bandPosition": 0},
                "y2": {"field": "last", "bandPosition": 1},
            },
        },
    ]
    spec = {
        "title": heading(title, subtitle),
        "width": side,
        "height": side,
        "data": values(list(_cells(matrix, low))),
        "layer": layers,
        "config": {"view": {"fill": None}, "axis": {"grid": False, "labelColor": INK, "labelFontSize": 12}},
    }
    return Chart("agreement", f"Agreement of {len(names)} models on {matrix.dataset}", spec)


def _labels(**settings: Any) -> Spec:
    return {"labelLimit": 340, "labelOverlap": False, "labelPadding": 6, **settings}


def _name(matrix: Matrix, place: int) -> str:
    """The name as it is shown, which is also the key of its row: two names that are cut to one get their numbers."""
    shown = [shareable(name, LONGEST) for name in matrix.names]
    return shown[place] if shown.count(shown[place]) == 1 else f"{shown[place]} #{place + 1}"


def _lowest_colour(matrix: Matrix) -> float:
    """Where the colour scale begins: at the least agreement of two different models that is no outlier.

    One model that answers nonsense would otherwise make all others look the same.
    """
    pairs = matrix.agreement[~np.eye(len(matrix.names), dtype=bool)]
    known = pairs[~np.isnan(pairs)]
    if not len(known):
        return 0.0
    quarter, half = np.quantile(known, [0.25, 0.5])
    return float(max(known.min(), quarter - 3 * max(half - quarter, 0.02)))


def _colour(matrix: Matrix, low: float) -> Spec:
    beyond = "≤ " if np.nanmin(matrix.agreement) < low else ""
    label = f"(datum.index == 0 ? '{beyond}' : '') + format(100 * datum.value, '.0f') + ' %'"
    legend = {"orient": "bottom", "direction": "horizontal", "labelExpr": label, "gradientLength": 200}
    return shade("agreement", low, 1.0, "", COLOURS, gradientThickness=14, **legend)


def _cells(matrix: Matrix, low: float) -> Iterator[Spec]:
    digits = 1 if len(matrix.names) < MANY else 0
    for i, row in enumerate(matrix.agreement):
        for j, value in enumerate(row):
            cell = {"row": _name(matrix, i), "column": _name(matrix, j)}
            if np.isnan(value):
                yield {**cell, "agreement": None, "hint": "cannot be compared"}
                continue
            shown = f"{100 * value:.{digits}f}"
            if float(shown) == 100 and value < 1:
                shown = ">99.9" if digits else ">99"
            light = bool(low == 1 or (value - low) / (1 - low) > LIGHT)
            hint = f"{cell['row']} and {cell['column']}: {100 * value:.2f} %"
            yield {**cell, "agreement": value, "shown": shown, "light": light, "hint": hint}


def _accuracy(matrix: Matrix, place: int) -> Spec:
    accuracy = matrix.accuracy[place]
    return {"row": _name(matrix, place), "accuracy": "" if np.isnan(accuracy) else f"{100 * accuracy:.1f} %"}


def _families(matrix: Matrix) -> Iterator[Spec]:
    """The first and the last model of each family of two or more."""
    start = 0
    for _, members in groupby(matrix.groups):
        end = start + len(list(members)) - 1
        if end > start:
            yield {"first": _name(matrix, start), "last": _name(matrix, end)}
        start = end + 1
