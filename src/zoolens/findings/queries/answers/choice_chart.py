"""A choice as a picture: every row as a point with its intervals, the Pareto front as a line, the query's limits.

The selections "brush" (a rectangle) and "picked" (points, by `key`) are there for whoever listens; in a still picture
they do nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from zoolens.base.present.charts import (
    DIM,
    FILLS,
    INK,
    LETTER,
    NUMBER,
    SERIES,
    Chart,
    Spec,
    axis,
    heading,
    logarithmic_ticks,
    quantity,
    series,
    si_labels,
    values,
)
from zoolens.base.present.labels import LONGEST, fitting_labels, label_mark
from zoolens.base.present.text import shareable
from zoolens.findings.queries.answers.choice import Choice, Point, Respect, Standing
from zoolens.findings.queries.answers.wording import amount, amount_with_interval

WIDTH: Final = 720
HEIGHT: Final = 420
LABELLED: Final = 9
MANY: Final = 300  # points, from which on they are small and only those that matter have intervals
_LONGEST_TITLE: Final = 60  # characters of an axis
MOST_RUNTIMES: Final = 5  # with a colour of their own
_COLOURS: Final = {
    Standing.ANSWER: SERIES[0], Standing.FITS: "#7fb0f5", Standing.NEAR_MISS: SERIES[1],
    Standing.REFERENCE: SERIES[3], Standing.NOT_KNOWN: "#d9a0c0", Standing.LEFT_OUT: "#9aa3ad",
}  # fmt: skip
_OTHERS: Final = "other runtimes"
_NEVER_RUN: Final = "never run here"


def choice_chart(choice: Choice) -> Chart:
    title = "No figures to choose by"
    if choice.x is None or choice.y is None or not choice.points:
        note = choice.notes[0] if choice.notes else "Nothing is indexed yet."
        return Chart("choice", title, {"title": heading(title, note), "width": WIDTH, "height": 60, **_nothing()})
    x, y = choice.x, choice.y
    title = f"{_capital(y.title)} against {x.title}"
    drawn = [point for point in choice.points if _drawable(point, x, y)]
    if not drawn:
        words = heading(title, "No row has figures above zero, which a logarithmic scale needs.")
        return Chart("choice", title, {"title": words, "width": WIDTH, "height": 60, **_nothing()})
    axes = _Axes(drawn, x, y)
    names, colours = _groups(drawn)
    layers = [
        *_limits(choice, axes),
        *_front(drawn, axes),
        *_intervals(
            drawn if len(drawn) <= MANY else [point for point in drawn if _matters(point)], axes, names, colours
        ),
        _circles(drawn, axes, choice.size, names, colours),
        *_labels(drawn, axes),
    ]
    spec = {
        **FILLS,
        "title": heading(title, _subtitle(choice)),
        "width": WIDTH,
        "height": HEIGHT,
        "layer": layers,
    }
    return Chart("choice", f"{title} of {len(drawn):,} rows, with the Pareto front", spec)


def _nothing() -> Spec:
    return {"data": {"values": []}, "mark": "point", "config": {"view": {"fill": None}}}


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _subtitle(choice: Choice) -> str:
    words = ["Line: the front."]
    if choice.size is not None:
        large = "a large file" if choice.size.column == "file_size" else choice.size.metric.replace("_", " ")
        words += [f"Ringed: unbeaten in {choice.size.metric} too.", f"Large: {large}."]
    if any(point.beaten for point in choice.points):
        words.append("Pale: clearly beaten.")
    if any(not point.measured for point in choice.points):
        words.append("Hollow: not measured.")
    return " ".join(words)


def _drawable(point: Point, x: Respect, y: Respect) -> bool:
    return all(value > 0 or not _logarithmic(respect) for value, respect in ((point.x, x), (point.y, y)))


def _logarithmic(respect: Respect) -> bool:
    """Times, sizes and counts span decades; shares of 1 and figures of unknown units do not."""
    return respect.unit in ("s", "B", "", "J")


class _Axes:
    """The scales of both positions, from which also follows where a point lies in pixels."""

    def __init__(self, points: Sequence[Point], x: Respect, y: Respect) -> None:
        self.x, self.y = x, y
        self._ends = [
            self._domain(x, [end for point in points for end in (point.x, point.x_low, point.x_high)]),
            self._domain(y, [end for point in points for end in (point.y, point.y_low, point.y_high)]),
        ]

    def _domain(self, respect: Respect, ends: Sequence[float | None]) -> tuple[float, float]:
        known = [end / respect.factor for end in ends if end is not None and (end > 0 or not _logarithmic(respect))]
        known += [limit / respect.factor for limit, _ in respect.limits if limit > 0 and math.isfinite(limit)]
        low, high = min(known), max(known)
        if _logarithmic(respect):
            room = (high / low) ** 0.06 if high > low else 1.5
            return low / room, high * room
        room = 0.07 * (high - low) or max(abs(high) * 0.05, 0.01)
        return low - room, high + room

    @property
    def encoding(self) -> Spec:
        return {
            name: self._position(name, respect, *ends)
            for name, respect, ends in zip(("x", "y"), (self.x, self.y), self._ends, strict=True)
        }

    def _position(self, name: str, respect: Respect, low: float, high: float) -> Spec:
        labels = si_labels(respect.unit, respect.factor) or NUMBER
        title = shareable(respect.title, _LONGEST_TITLE)
        if _logarithmic(respect):
            ticks = logarithmic_ticks(low, high)
            shown: Spec = {"values": ticks} if len(ticks) > 2 else {"tickCount": 5}
            return quantity(name, low, high, {**axis(expression=labels, **shown), "title": title}, type="log")
        return quantity(name, low, high, {**axis(expression=labels, tickCount=6), "title": title})

    def pixels(self, point: Point) -> tuple[float, float]:
        across, up = (
            _share(value / respect.factor, *ends, logarithmic=_logarithmic(respect))
            for value, respect, ends in zip((point.x, point.y), (self.x, self.y), self._ends, strict=True)
        )
        return across * WIDTH, (1 - up) * HEIGHT

    def shown(self, point: Point) -> Spec:
        return {"x": point.x / self.x.factor, "y": point.y / self.y.factor}


def _share(value: float, low: float, high: float, *, logarithmic: bool) -> float:
    if logarithmic:
        value, low, high = math.log(value), math.log(low), math.log(high)
    return (value - low) / (high - low)


def _groups(points: Sequence[Point]) -> tuple[list[str], list[str]]:
    """The names in the legend with their colours: standings to a query, else runtimes."""
    standings = {point.standing for point in points}
    if standings != {Standing.INDEXED}:
        used = [standing for standing in _COLOURS if standing in standings]
        return [str(standing) for standing in used], [_COLOURS[standing] for standing in used]
    counted: dict[str, int] = {}
    for point in points:
        counted[_runtime(point)] = counted.get(_runtime(point), 0) + 1
    often = sorted(counted, key=lambda name: (-counted[name], name))
    names = often if len(often) <= MOST_RUNTIMES + 1 else [*often[:MOST_RUNTIMES], _OTHERS]
    return names, [SERIES[place % len(SERIES)] for place in range(len(names))]


def _runtime(point: Point) -> str:
    return point.runtime or _NEVER_RUN


def _group(point: Point, names: Sequence[str]) -> str:
    if point.standing is not Standing.INDEXED:
        return str(point.standing)
    return _runtime(point) if _runtime(point) in names else _OTHERS


def _colour(names: Sequence[str], colours: Sequence[str]) -> Spec:
    columns = max(1, int(WIDTH / (LETTER * max(map(len, names)) + 60)))
    return series("group", names, colours, columns=columns, symbolType="circle")


def _limits(choice: Choice, axes: _Axes) -> list[Spec]:
    """Dashed lines at what the query asks of the two figures."""
    layers: list[Spec] = []
    mark = {"type": "rule", "strokeDash": [5, 4], "color": DIM, "strokeWidth": 1.2}
    for name, respect in (("x", axes.x), ("y", axes.y)):
        rows = [
            {name: limit / respect.factor, "asked": words} for limit, words in respect.limits if math.isfinite(limit)
        ]
        if rows:
            tooltip = {"field": "asked", "type": "nominal", "title": "asked for"}
            encoding = {name: axes.encoding[name], "tooltip": tooltip}
            layers.append({"data": values(rows), "mark": {**mark, "clip": True}, "encoding": encoding})
    return layers


def _front(points: Sequence[Point], axes: _Axes) -> list[Spec]:
    """Steps along the front: what is left of or below the line needs to give up one of the two figures."""
    on_front = sorted((point for point in points if point.front), key=lambda point: (point.x, point.y))
    if len(on_front) < 2:
        return []
    # A step holds the figure of the point before it until the next point is reached.
    step = "step-after" if not axes.x.higher_is_better else "step-before"
    rows = [{**axes.shown(point), "order": place} for place, point in enumerate(on_front)]
    mark = {"type": "line", "interpolate": step, "color": INK, "strokeWidth": 1.3, "opacity": 0.7}
    return [{"data": values(rows), "mark": mark, "encoding": {**axes.encoding, "order": {"field": "order"}}}]


def _intervals(points: Sequence[Point], axes: _Axes, names: Sequence[str], colours: Sequence[str]) -> list[Spec]:
    layers: list[Spec] = []
    for name, respect, low, high in (("x", axes.x, "x_low", "x_high"), ("y", axes.y, "y_low", "y_high")):
        rows = [
            {
                **axes.shown(point),
                "low": getattr(point, low) / respect.factor,
                "high": getattr(point, high) / respect.factor,
                "group": _group(point, names),
                "beaten": point.beaten,
            }
            for point in points
            if getattr(point, low) is not None
            and getattr(point, high) is not None
            and (getattr(point, low) > 0 or not _logarithmic(respect))
        ]
        if not rows:
            continue
        other = "y" if name == "x" else "x"
        position = {
            name: {**axes.encoding[name], "field": "low"},
            f"{name}2": {"field": "high"},
            other: axes.encoding[other],
        }
        layers.append(
            {
                "data": values(rows),
                "mark": {"type": "rule", "strokeWidth": 1.2, "clip": True},
                "encoding": {
                    **position,
                    "color": _colour(names, colours),
                    "opacity": {"condition": {"test": "datum.beaten", "value": 0.15}, "value": 0.5},
                },
            }
        )
    return layers


def _circles(
    points: Sequence[Point], axes: _Axes, size: Respect | None, names: Sequence[str], colours: Sequence[str]
) -> Spec:
    rows = [_row(point, axes, size, names) for point in points]
    encoding: Spec = {
        **axes.encoding,
        "color": _colour(names, colours),
        "fillOpacity": {
            "condition": [
                {"test": "!datum.measured", "value": 0},
                {"test": "datum.beaten", "value": 0.3},
            ],
            "value": 0.9,
        },
        "opacity": {"condition": {"param": "brush", "value": 1}, "value": 0.2},
        "stroke": {
            "condition": {"test": "datum.front_with_size", "value": INK},
            "field": "group",
            "type": "nominal",
            **{part: _colour(names, colours)[part] for part in ("scale", "legend")},
        },
        "strokeWidth": {"condition": {"test": "datum.front_with_size || !datum.measured", "value": 1.6}, "value": 0.5},
        "tooltip": [
            {"field": "name", "type": "nominal", "title": "model"},
            {"field": "runtime", "type": "nominal"},
            {"field": "x_words", "type": "nominal", "title": axes.x.title},
            {"field": "y_words", "type": "nominal", "title": axes.y.title},
            *([{"field": "size_words", "type": "nominal", "title": size.metric}] if size else []),
            {"field": "about", "type": "nominal"},
        ],
    }
    known = sorted(row["size"] for row in rows if row["size"])
    if known:
        scale = {"type": "log", "domain": [known[0], known[-1] * (1.0001 if known[0] < known[-1] else 1.1)]}
        encoding["size"] = {
            "field": "size",
            "type": "quantitative",
            "scale": {**scale, "range": [45, 380] if len(rows) <= MANY else [12, 90]},
            "legend": None,
        }
    return {
        "name": "points",
        "params": [
            {"name": "brush", "select": {"type": "interval", "encodings": ["x", "y"]}},
            {"name": "picked", "select": {"type": "point", "fields": ["key"]}},
        ],
        "data": values(rows),
        "mark": {"type": "point", "shape": "circle", "filled": True, "size": 90 if len(rows) <= MANY else 30},
        "encoding": encoding,
    }


def _row(point: Point, axes: _Axes, size: Respect | None, names: Sequence[str]) -> dict[str, Any]:
    return {
        **axes.shown(point),
        "key": point.key,
        "name": point.ref,
        "runtime": _runtime(point),
        "group": _group(point, names),
        "size": point.size / size.factor if size and point.size else None,
        "measured": point.measured,
        "beaten": point.beaten,
        "front_with_size": point.front_with_size,
        "x_words": amount_with_interval(point.x, point.x_low, point.x_high, axes.x.unit),
        "y_words": amount_with_interval(point.y, point.y_low, point.y_high, axes.y.unit),
        "size_words": "unknown" if size is None or point.size is None else amount(point.size, size.unit),
        "about": _about(point),
    }


def _about(point: Point) -> str:
    words = [
        str(point.standing) if point.standing is not Standing.INDEXED else "",
        point.why_not,
        "not measured here" if not point.measured else "",
        "measured under load" if point.disturbed else "",
        "on the front" if point.front else "clearly beaten" if point.beaten else "",
    ]
    return "; ".join(word for word in words if word)


def _labels(points: Sequence[Point], axes: _Axes) -> list[Spec]:
    """Names of what matters most: the reference and the answer, near misses, then the front. A model that has several
    rows is named once."""
    ranked = {point.ref: point for point in sorted(points, key=_importance, reverse=True)}
    named = sorted((point for point in ranked.values() if _importance(point) < len(_IMPORTANT)), key=_importance)
    refs = {id(point) for point in named}
    labels = fitting_labels(
        [(*axes.pixels(point), _short(point.ref)) for point in named],
        WIDTH,
        LABELLED,
        [axes.pixels(point) for point in points if id(point) not in refs],
    )
    layers = []
    for align in ("left", "right"):
        rows = [{**axes.shown(named[label.place]), "text": label.text} for label in labels if label.align == align]
        mark = {**label_mark(align), "color": INK}
        if rows:
            layers.append(
                {
                    "name": f"labels_{align}",
                    "data": values(rows),
                    "mark": mark,
                    "encoding": {**axes.encoding, "text": {"field": "text"}},
                }
            )
    return layers


def _short(ref: str) -> str:
    """A name without its version; a long one without its folders too, since names often differ at their end."""
    name = ref.partition("@")[0]
    return name if len(name) <= LONGEST else name.rpartition("/")[2]


def _matters(point: Point) -> bool:
    return _importance(point) < len(_IMPORTANT)


_IMPORTANT: Final = (Standing.REFERENCE, Standing.ANSWER, Standing.NEAR_MISS)


def _importance(point: Point) -> int:
    if point.standing in _IMPORTANT:
        return _IMPORTANT.index(point.standing)
    return len(_IMPORTANT) - 1 if point.front else len(_IMPORTANT)
