"""A timeline: the spans of one call, below each other as they were called, as plain data and as a chart."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zoolens.base.present.charts import INK, SERIES, Chart, Spec, axis, heading, quantity, series, values
from zoolens.base.present.figures import figure
from zoolens.findings.tracing.spans import USER, Level

if TYPE_CHECKING:
    import pyarrow as pa

WIDTH: Final = 1040
ROW: Final = 22  # pixels of a line
LETTER: Final = 6.6  # pixels of a letter in a bar, about
MOST: Final = 4_000  # spans that are drawn; the shortest of more are left out, and that is said
MOST_LANES: Final = 60
NARROWEST: Final = 0.0006  # of the width, so that nothing that took time is invisible
LABELLED: Final = 0.015  # of the width: narrower bars have no room for a name
CALLS: Final = "calls and steps"
KERNELS: Final = "kernels"
OTHERS: Final = "other layers"
_NEUTRAL: Final = {CALLS: "#44546a", KERNELS: "#76839a", OTHERS: SERIES[-1]}
_UNITS: Final = (
    ("s", 1.0, 1.0),
    ("ms", 1e-3, 1e3),
    ("µs", 0.0, 1e6),
)  # name, from how many seconds on, how many in one


@dataclass(frozen=True)
class TimelineSpan:
    """A span of the call, with its place in the drawing."""

    number: int  # its place in the order of time
    lane: int  # the line that it is drawn on, from 0
    start: float  # seconds from the beginning of the call
    seconds: float
    name: str
    kind: str
    level: str
    nodes: tuple[str, ...] = ()
    kernel: str | None = None
    precision: str | None = None
    shapes: tuple[str, ...] = ()
    laid_out: bool = False  # only its duration was measured, and not its start

    @property
    def end(self) -> float:
        return self.start + self.seconds


@dataclass(frozen=True)
class Timeline:
    """One call during which a level was observed. `repeat`: which repetition, from 0; None in a recording."""

    observed: str
    repeat: int | None
    seconds: float
    spans: tuple[TimelineSpan, ...]

    @property
    def lanes(self) -> int:
        return max((span.lane for span in self.spans), default=-1) + 1


@dataclass(frozen=True)
class TimelineWindow:
    """The part of a call that is drawn, as shares of its time."""

    start: float = 0.0
    end: float = 1.0


WHOLE: Final = TimelineWindow()


def timeline(table: pa.Table, observed: str) -> Timeline | None:
    """The call during which this level was observed and whose time is nearest to the median; None: there is none."""
    rows = [row for row in table.to_pylist() if row["observed"] == observed]
    call = _typical(rows)
    if call is None:
        return None
    own = sorted((row for row in rows if row["repeat"] == call["repeat"]), key=lambda row: row["time"])
    start, end = min(row["time"] for row in own), max(row["time"] + row["duration"] for row in own)
    spans = [_span(number, lane, row, start) for number, (row, lane) in enumerate(zip(own, _lanes(own), strict=True))]
    repeat = None if observed == USER else int(call["repeat"])
    return Timeline(str(observed), repeat, (end - start) / 1e9, tuple(spans))


def _span(number: int, lane: int, row: Mapping[str, Any], start: int) -> TimelineSpan:
    return TimelineSpan(
        number,
        lane,
        (row["time"] - start) / 1e9,
        row["duration"] / 1e9,
        row["name"],
        row["kind"],
        row["level"],
        tuple(row["nodes"] or ()),
        row["kernel"],
        row["precision"],
        tuple("×".join(map(str, shape)) for shape in row["shapes"] or ()),
        bool(row["synthetic"]),
    )


def _typical(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The outermost span of the undisturbed repetition whose duration is the median one."""
    numbers = {row["span_id"] for row in rows}
    roots = [row for row in rows if row["parent"] not in numbers]
    usable = [row for row in roots if row["clean"] is not False] or roots
    if not usable:
        return None
    median = float(np.median([row["duration"] for row in usable]))
    return min(usable, key=lambda row: abs(row["duration"] - median))


def _lanes(spans: Sequence[Mapping[str, Any]]) -> list[int]:
    """The line of each span: below its caller, and one further down where another span is drawn there already."""
    ends: dict[int, int] = {}
    placed: dict[int, int] = {}
    lanes = []
    for row in spans:
        lane = placed.get(row["parent"], -1) + 1
        while ends.get(lane, -1) > row["time"]:
            lane += 1
        ends[lane], placed[row["span_id"]] = row["time"] + row["duration"], lane
        lanes.append(lane)
    return lanes


# --- as a chart


@dataclass(frozen=True)
class Band:
    """A timeline in a chart that may have several below each other. `marked`: the numbers of the spans that stand out;
    None: all are alike."""

    timeline: Timeline
    title: str = ""
    marked: Collection[int] | None = None


def timeline_chart(drawn: Timeline, title: str = "", window: TimelineWindow = WHOLE) -> Chart:
    """The spans of one call. The selection "window" gives the stretch of time that a reader chose; each datum has the
    `number` of its span and the `band` that it is in."""
    return bands_chart([Band(drawn)], title or f"Timeline of one call, {drawn.observed} observed", window)


def bands_chart(bands: Sequence[Band], title: str, window: TimelineWindow = WHOLE) -> Chart:
    """Return several calls below each other, each from its own beginning, on one scale of time."""
    longest = max(band.timeline.seconds for band in bands)
    start, end = window.start * longest, max(window.end, window.start + 1e-9) * longest
    unit, factor = next((name, inverse) for name, least, inverse in _UNITS if end - start >= least)
    categories = Categories([band.timeline for band in bands])
    rows: list[dict[str, Any]] = []
    headings: list[dict[str, Any]] = []
    left_out = top = 0
    for place, band in enumerate(bands):
        if band.title:
            headings.append({"x": start * factor, "y": top + 0.5, "text": band.title})
            top += 1
        visible = [span for span in band.timeline.spans if span.end >= start and span.start <= end]
        shown = longest_spans(visible, MOST // len(bands))
        left_out += len(visible) - len(shown)
        rows += [_row(span, place, band, top, (start, end, factor), categories) for span in shown]
        top += min(band.timeline.lanes, MOST_LANES)
    lines = max(top, 1)
    x = quantity("x", start * factor, end * factor, axis(unit, tickCount=8))
    y = quantity("y", 0, lines, None, reverse=True)
    spec: Spec = {
        "title": heading(title, "; ".join(_notes(bands, left_out))),
        "width": WIDTH,
        "height": lines * ROW,
        "layer": [*_bars(rows, x, y, categories), _names(rows, x, y), *_headings(headings, x, y)],
    }
    return Chart("timeline", title, spec)


def longest_spans(spans: Sequence[TimelineSpan], most: int) -> list[TimelineSpan]:
    """Return the longest spans on lanes that are drawn, in the order of time."""
    fitting = [span for span in spans if span.lane < MOST_LANES]
    longest = sorted(fitting, key=lambda span: -span.seconds)[:most]
    return sorted(longest, key=lambda span: span.number)


def _notes(bands: Sequence[Band], left_out: int) -> Iterator[str]:
    for band in bands:
        side = f"{band.title.split()[0]} " if band.title else ""
        words = f"{side}{figure(band.timeline.seconds, 's')} in all"
        repeat = "" if band.timeline.repeat is None else f", repetition {band.timeline.repeat + 1}"
        yield words + repeat
    if left_out:
        yield f"{left_out:,} of the shortest spans are not drawn"


class Categories:
    """What decides the colour of a span: the kind of a layer or the name of a user's step, if it is one of those that
    take longest; else what it is."""

    def __init__(self, timelines: Sequence[Timeline]) -> None:
        seconds: dict[str, float] = {}
        for span in (span for drawn in timelines for span in drawn.spans):
            if (own := _own_category(span)) is not None:
                seconds[own] = seconds.get(own, 0.0) + span.seconds
        self._leading = sorted(seconds, key=lambda name: -seconds[name])[: len(SERIES) - 1]
        known = {self.of(span) for drawn in timelines for span in drawn.spans}
        self.names = [name for name in (*self._leading, OTHERS, KERNELS, CALLS) if name in known]
        own_colours = iter(SERIES)
        self.colours = [_NEUTRAL.get(name) or next(own_colours) for name in self.names]

    def of(self, span: TimelineSpan) -> str:
        own = _own_category(span)
        if own is not None:
            return own if own in self._leading else OTHERS
        return KERNELS if span.level == Level.LIBRARY else CALLS


def _own_category(span: TimelineSpan) -> str | None:
    if span.level == USER:
        return span.name
    return span.kind if span.level == Level.LAYER else None


def _row(
    span: TimelineSpan, place: int, band: Band, top: int, shown: tuple[float, float, float], categories: Categories
) -> dict[str, Any]:
    start, end, factor = shown
    least = NARROWEST * (end - start)
    computed = " ".join(word for word in (span.kernel, span.precision) if word)
    return {
        "number": span.number,
        "band": place,
        "x": span.start * factor,
        "end": max(span.end, span.start + least) * factor,
        "y": top + span.lane + 0.05,
        "below": top + span.lane + 0.92,
        "name": span.name,
        "kind": span.kind,
        "category": categories.of(span),
        "time": figure(span.seconds, "s"),
        "computed": computed,
        "output": ", ".join(span.shapes[:4]),
        "start": "not measured" if span.laid_out else figure(span.start, "s"),
        "laid": span.laid_out,
        "marked": band.marked is None or span.number in band.marked,
        "text_x": max(span.start, start) * factor,
        "wide": (min(span.end, end) - max(span.start, start)) >= LABELLED * (end - start),
    }


def _bars(rows: Sequence[Mapping[str, Any]], x: Spec, y: Spec, categories: Categories) -> Iterator[Spec]:
    hints = [{"field": field, "type": "nominal"} for field in ("name", "kind", "time", "start", "computed", "output")]
    chosen: Spec = {
        "name": "window",
        "select": {"type": "interval", "encodings": ["x"], "mark": {"fill": INK, "fillOpacity": 0.12, "stroke": None}},
    }
    place = {"x": x, "x2": {"field": "end"}, "y": y, "y2": {"field": "below"}}
    visible = {"condition": {"test": "datum.marked", "value": 1}, "value": 0.18}
    yield {
        "data": values(rows),
        "params": [chosen],
        "mark": {"type": "rect", "clip": True, "cornerRadius": 2},
        "encoding": {
            **place,
            "color": series("category", categories.names, categories.colours),
            "opacity": visible,
            "tooltip": hints,
        },
    }
    if laid := [row for row in rows if row["laid"]]:
        dashed = {"filled": False, "stroke": INK, "strokeDash": [2, 2], "strokeWidth": 0.6, "tooltip": None}
        yield {
            "data": values(laid),
            "mark": {"type": "rect", "clip": True, "cornerRadius": 2, **dashed},
            "encoding": {**place, "opacity": visible},
        }


def _names(rows: Sequence[Mapping[str, Any]], x: Spec, y: Spec) -> Spec:
    """The names in bars. The end of a name tells layers apart, so the beginning is cut; how much depends on the width
    that the chart has in the end."""
    room = f"(scale('x', datum.end) - scale('x', datum.text_x) - 8) / {LETTER}"
    text = (
        f"length(datum.name) <= {room} ? datum.name : {room} > 5 ? "
        f"'…' + slice(datum.name, length(datum.name) - floor({room}) + 1) : ''"
    )
    mark = {
        "type": "text",
        "align": "left",
        "baseline": "middle",
        "dx": 4,
        "fontSize": 11,
        "color": "#fff",
        "clip": True,
    }
    return {
        "data": values([{**row, "y": row["y"] + 0.45} for row in rows if row["wide"] and row["marked"]]),
        "mark": {**mark, "clip": True, "text": {"expr": text}},
        "encoding": {"x": {**x, "field": "text_x"}, "y": y},
    }


def _headings(headings: Sequence[Mapping[str, Any]], x: Spec, y: Spec) -> Iterator[Spec]:
    if headings:
        mark = {"type": "text", "align": "left", "baseline": "middle", "fontWeight": 600, "fontSize": 12, "color": INK}
        yield {"data": values(headings), "mark": mark, "encoding": {"x": x, "y": y, "text": {"field": "text"}}}
