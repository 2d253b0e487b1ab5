"""Charts as Vega-Lite specs: plain dictionaries that pages draw with vega and `images` turns into PNG and SVG.

Specs name their own fields ("x", "y", "delta"); names that strangers chose are values of the data or titles, which
vega never reads as expressions. The roles of colours are variables of the page's style sheet, so that a chart follows
the reader's light or dark scheme; `for_file` puts the light values in their place.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from zoolens.base.present.text import shareable

Spec = dict[str, Any]

INK: Final = "var(--ink, #1b1f24)"
DIM: Final = "var(--dim, #5c6773)"
LINE: Final = "var(--line, #d9dee4)"
SOFT: Final = "var(--soft, #f4f6f8)"
# One for each series, then again. Chosen so that any two of them stay apart for every kind of colour vision, on light
# and on dark ground: a test holds the least distance (CIE 1976) of a pair, which was 8.8 of the colours before these.
SERIES: Final = ("#4258ff", "#d67100", "#19a06f", "#a14dbb", "#c0002c", "#5b5d72")
RAMP: Final = ("#b0c2d2", "#e9983e", "#a30f42")  # small to large: pale to dark, so that it reads without colour too

LABEL: Final = 110  # characters of a label
TURNED: Final = 15  # pixels from one turned label to the next
LETTER: Final = 6.4  # pixels of a letter on an axis, about
_ROLE: Final = re.compile(r"var\(--\w+, (#\w+)\)")

PERCENT: Final = "format(100 * datum.value, '.4~g') + ' %'"
# Vega's "g" writes 70000 with four digits as 7e+4: from ten thousand on an axis has SI prefixes.
NUMBER: Final = (
    "datum.value == 0 ? '0' : abs(datum.value) < 1e-3 ? replace(format(datum.value, '.2~e'), 'e-', 'e−') "
    ": abs(datum.value) >= 1e15 ? replace(format(datum.value, '.2~e'), 'e+', 'e') "
    ": abs(datum.value) >= 1e4 ? format(datum.value, '.3~s') : format(datum.value, '.4~g')"
)
_PREFIXES: Final[dict[str, tuple[tuple[float, str], ...]]] = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")),
    "J": ((1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ")),
    "B": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")),
}
_NEARLY: Final = 1 - 1e-9  # 1000 × 1e-6 may lie a little below 1e-3
FILLS: Final[Spec] = {"usermeta": {"fills": True}}
ROOM: Final = "room"  # a parameter of a chart of several panels: how many pixels wide they are drawn

FONT: Final = "system-ui, 'Liberation Sans', Arial, sans-serif"
_CONFIG: Final[dict[str, Spec]] = {
    "view": {"fill": SOFT, "stroke": None},
    "axis": {
        "domain": False, "ticks": False, "grid": True, "gridColor": LINE, "labelColor": DIM, "labelFontSize": 11,
        "labelPadding": 5, "labelLimit": 120, "titleColor": INK, "titleFontSize": 12, "titleFontWeight": "normal",
        "titlePadding": 8,
    },
    "title": {
        "anchor": "start", "frame": "bounds", "color": INK, "fontSize": 15, "fontWeight": 600, "offset": 12,
        "subtitleColor": DIM, "subtitleFontSize": 12, "subtitlePadding": 6,
    },
    "legend": {
        "labelColor": INK, "labelFontSize": 12, "labelLimit": 400, "titleColor": INK, "titleFontSize": 12,
        "titleFontWeight": "normal", "symbolStrokeWidth": 0, "symbolOpacity": 1, "columnPadding": 32, "rowPadding": 6,
        "offset": 14,
    },
    "line": {"strokeCap": "round", "strokeJoin": "round"},
    "concat": {"spacing": 14},
}  # fmt: skip


@dataclass(frozen=True)
class Chart:
    """A chart that is drawn by Vega-Lite."""

    name: str  # of its file
    title: str  # what it shows, for readers who cannot see it
    spec: Mapping[str, Any]  # without a theme

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """The chart in a notebook, which draws Vega-Lite by itself."""
        return {"application/vnd.vegalite.v5+json": for_file(self), "text/plain": self.title}


def themed(chart: Chart) -> Spec:
    """The whole spec, for a page."""
    own = chart.spec.get("config", {})
    config = {part: {**_CONFIG.get(part, {}), **own.get(part, {})} for part in dict.fromkeys((*_CONFIG, *own))}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "background": None,
        "padding": 2,
        "description": shareable(chart.title, 200),
        **chart.spec,
        "config": {"font": FONT, **config},
    }


def drawn_spec(chart: Chart | None) -> Spec | None:
    """The whole spec, for a page; None where there is nothing to draw."""
    return None if chart is None else themed(chart)


def for_file(chart: Chart) -> Spec:
    """The whole spec on white paper, for a file that knows no style sheet."""
    spec = {**themed(chart), "background": "#ffffff", "padding": 16}
    return {key: _with_plain_colours(value) for key, value in spec.items()}


def _with_plain_colours(value: Any) -> Any:
    if isinstance(value, str):
        return _ROLE.sub(r"\1", value)
    if isinstance(value, Mapping):
        return {key: _with_plain_colours(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_with_plain_colours(inner) for inner in value]
    return value


# --- parts that specs are made of


def values(rows: Sequence[Mapping[str, Any]]) -> Spec:
    """Returns rows as inline data, with NaN and infinities as null and texts shortened and escaped."""
    plain = [{key: _plain(value) for key, value in row.items()} for row in rows]
    return {"values": plain}


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return shareable(value, LABEL)
    if isinstance(value, bool | int) or value is None:
        return value
    return float(value) if math.isfinite(value) else None


def heading(title: str, subtitle: str = "") -> Spec:
    text: Spec = {"text": shareable(title, LABEL)}
    return {**text, "subtitle": shareable(subtitle, LABEL)} if subtitle else text


def axis(title: str | None = None, *, expression: str = NUMBER, **settings: Any) -> Spec:
    """An axis whose labels read like figures in a text; `settings` are Vega-Lite's own."""
    shown = None if title is None else shareable(title, 28)
    return {"title": shown, "labelExpr": expression, **settings}


def si_labels(unit: str, factor: float = 1.0) -> str | None:
    """The expression by which every tick of an axis has its own prefix: 10 µs, 1 ms. A value on the axis times `factor`
    is in `unit`. None: the unit has no prefixes, and stands in the title of the axis."""
    if unit == "fraction":
        return f"format({100 * factor:g} * datum.value, '.4~g') + ' %'"
    if unit not in _PREFIXES:
        return None
    value = f"({factor:g} * datum.value)"
    *larger, (least, name) = _PREFIXES[unit]
    label = f"format({value} / {least:g}, '.4~g') + ' {name}'"
    for scale, prefixed in reversed(larger):
        shown = f"format({value} / {scale:g}, '.4~g') + ' {prefixed}'"
        label = f"abs{value} >= {scale * _NEARLY!r} ? {shown} : {label}"
    return f"datum.value == 0 ? '0' : {label}"


def fills_up_to(pixels: int) -> Spec:
    """`FILLS` of a chart that is no easier to read when it is wider than this."""
    return {"usermeta": {"fills": True, "most": pixels}}


def quantity(field: str, low: float, high: float, axis: Spec | None, **scale: Any) -> Spec:
    """A position on a scale that runs from `low` to `high` exactly."""
    return {
        "field": field,
        "type": "quantitative",
        "scale": {
            "domain": [low, high],
            "nice": False,
            **({} if scale.get("type") == "log" else {"zero": False}),
            **scale,
        },
        "axis": axis,
    }


def level(field: str, levels: Sequence[str], axis: Spec | None, width: float | None = None) -> Spec:
    """A position on one of several named levels. `width`: of a horizontal axis, below which names that have no room
    beside each other are turned."""
    names = [shareable(name, LABEL) for name in levels]
    labels: Spec = {"labelAngle": 0, "labelOverlap": "greedy", "labelSeparation": 6}
    if width is not None and LETTER * max(map(len, names), default=0) > width / max(len(names), 1):
        apart = width / len(names) >= TURNED
        labels = {
            "labelAngle": -40, "labelAlign": "right", "labelLimit": 90, "labelOverlap": False if apart else "greedy",
        }  # fmt: skip
    return {
        "field": field,
        "type": "nominal",
        "scale": {"domain": names},
        "axis": None if axis is None else {**axis, **labels, "labelExpr": "datum.label"},
    }


def series(field: str, names: Sequence[str], colours: Sequence[str] = SERIES, **legend: Any) -> Spec:
    """One colour for each name, explained above the chart."""
    return {
        "field": field,
        "type": "nominal",
        "scale": {
            "domain": [shareable(name, LABEL) for name in names],
            "range": [colours[place % len(colours)] for place in range(len(names))],
        },
        "legend": {
            "orient": "top",
            "title": None,
            "symbolType": "square",
            "symbolSize": 130,
            "symbolOpacity": 1,
            **legend,
        },
    }


def shade(field: str, low: float, high: float, title: str, colours: Sequence[str] = RAMP, **legend: Any) -> Spec:
    """A colour between `low` and `high`, with the ramp and both ends in percent as its legend."""
    high = high if high > low else low + 0.01
    domain = [low + (high - low) * place / (len(colours) - 1) for place in range(len(colours))]
    return {
        "field": field,
        "type": "quantitative",
        "scale": {"domain": domain, "range": list(colours), "interpolate": "rgb", "clamp": True},
        "legend": {
            "type": "gradient",
            "title": title,
            "values": [low, high],
            "labelExpr": "datum.value == 0 ? '0' : format(100 * datum.value, '.1f') + ' %'",
            "labelOffset": 4,
            "gradientOpacity": 1,
            "labelColor": DIM,
            "labelFontSize": 11,
            "gradientLength": 170,
            "gradientThickness": 10,
            **legend,
        },
    }


def logarithmic_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Powers of ten where there are three or more, else also 2 and 5 times them; vega draws nine lines for a decade."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = [10.0**power for power in range(first, last + 1)]
    powers = [power for power in decades if low <= power <= high]
    if len(powers) >= 3:
        every = math.ceil(len(powers) / most)
        return powers[::every]
    steps = [step * decade for decade in decades for step in (1, 2, 5)]
    return [step for step in steps if low <= step <= high]
