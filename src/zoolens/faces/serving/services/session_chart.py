"""The session of a service over time: who answered how many requests, which switches there were and why, how many were
answered in time, and how long the queue was whenever something happened.

Times of single requests are not kept in the store, so that percentiles over time are known only of those who measured
them: `zoolens load` from outside, and the live metrics of the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.present.charts import (
    DIM,
    FILLS,
    INK,
    LETTER,
    ROOM,
    SERIES,
    SOFT,
    Chart,
    Spec,
    axis,
    heading,
    quantity,
    series,
    values,
)
from zoolens.base.present.figures import figure, percent
from zoolens.faces.serving.services.events import COUNTED_EVERY, EventKind, ServiceEvent, Session, counted_again_after

WIDTH: Final = 1000
MOST_BARS: Final = 90
MOST_SWITCHES: Final = 60  # marked one by one; more would hide the rest
_MARGIN: Final = 6  # pixels beside a name in the band of models
_SECOND: Final = 1_000_000_000  # nanoseconds
_SHORTEST: Final = 0.5  # seconds of a bar
_TOGETHER: Final = 0.05  # seconds within which counts are written together

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Stretch:
    """What was counted in a stretch of time. Counts of a longer time are shared out: they are no whole numbers."""

    start: float  # seconds since the session began
    end: float
    requests: dict[str, float]  # answered, by the model's name and runtime
    timed: float = 0.0  # requests that the latency objective is about
    within: float = 0.0  # those answered within its bound
    refused: float = 0.0


@dataclass(frozen=True)
class Happening:
    """An event, in seconds since the session began."""

    at: float
    kind: EventKind
    reason: str
    model: str
    previous: str
    waiting: int


@dataclass(frozen=True)
class SessionCourse:
    """`begun` is in nanoseconds since the Unix epoch. Counts are written every few seconds, and a stretch is no shorter
    than that. `bound` and `percentile`: of the latency objective; None where there is none."""

    service: str
    run: str
    begun: int
    seconds: float
    models: tuple[str, ...]
    stretches: tuple[Stretch, ...]
    events: tuple[Happening, ...]
    bound: float | None
    percentile: float | None

    @property
    def switches(self) -> tuple[Happening, ...]:
        return tuple(event for event in self.events if event.kind is EventKind.SWITCH)


def session_course(session: Session) -> SessionCourse:
    """What happened in a session, cut into stretches of equal length. Counts are shared out over the time that they
    were counted in, so that a stretch that two of them fall into looks no busier than it was."""
    times = [row.time for rows in (session.events, session.answers, session.objectives) for row in rows]
    begun = min(times, default=int(session.run.created.timestamp() * _SECOND))
    seconds = max((max(times, default=begun) - begun) / _SECOND, _SHORTEST)
    counted = _Counted([row.time for rows in (session.answers, session.objectives) for row in rows], begun)
    width = max(seconds / MOST_BARS, counted.usual, _SHORTEST)
    edges: Floats = np.arange(max(1, int(np.ceil(seconds / width - 1e-9))) + 1, dtype=np.float64) * np.float64(width)
    requests: dict[str, Floats] = {}
    for row in session.answers:
        name = f"{row.model.partition('@')[0]} in {row.runtime}"
        requests.setdefault(name, np.zeros(len(edges) - 1))
        requests[name] += row.requests * counted.shares(row.time, edges)
    objectives = np.zeros((3, len(edges) - 1))
    for kept in session.objectives:
        sums = np.array([kept.requests, kept.within, kept.refused], np.float64)
        objectives += np.outer(sums, counted.shares(kept.time, edges))
    last = session.objectives[-1] if session.objectives else None
    return SessionCourse(
        service=session.service,
        run=session.run.id,
        begun=begun,
        seconds=float(edges[-1]),
        models=tuple(requests),
        stretches=tuple(
            Stretch(
                float(edges[place]),
                float(edges[place + 1]),
                {name: float(of_model[place]) for name, of_model in requests.items() if of_model[place]},
                *(float(of_all[place]) for of_all in objectives),
            )
            for place in range(len(edges) - 1)
        ),
        events=tuple(_happening(event, begun) for event in session.events),
        bound=None if last is None else last.bound,
        percentile=None if last is None else last.percentile,
    )


class _Counted:
    """When counts were written, and so over which time each of them was counted. `usual`: seconds between two."""

    def __init__(self, times: Sequence[int], begun: int) -> None:
        self._begun = begun
        moments = (np.unique(np.asarray(times, np.int64)) - begun) / _SECOND
        apart = np.diff(moments, prepend=-np.inf) > _TOGETHER
        self._moments = moments[apart]  # rows of several models are written one after the other
        gaps = np.diff(self._moments)
        # One count is of all the time before it, as far as a count can reach.
        usual = float(np.median(gaps)) if len(gaps) else max(float(moments.max(initial=0.0)), 0.0)
        self.usual = min(usual, COUNTED_EVERY)

    def shares(self, time: int, edges: Floats) -> Floats:
        """Which share of a count that was written then belongs to each stretch. Where nothing was counted for long,
        nobody was there to be counted: it then belongs to the usual time before it was written, which is never longer
        than the server waits between two counts."""
        end = (time - self._begun) / _SECOND
        before = int(np.searchsorted(self._moments, end - _TOGETHER))
        last_written = float(self._moments[before - 1]) if before else 0.0
        longest = min(1.5 * max(self.usual, counted_again_after(last_written)), COUNTED_EVERY)
        start = max(last_written, end - longest, 0.0)
        if end <= start:
            shares = np.zeros(len(edges) - 1)
            place = int(np.searchsorted(edges, end, side="right")) - 1
            shares[min(place, len(shares) - 1)] = 1.0
            return shares
        overlap = np.minimum(edges[1:], end) - np.maximum(edges[:-1], start)
        return np.asarray(np.maximum(overlap, 0.0) / (end - start))


def _happening(event: ServiceEvent, begun: int) -> Happening:
    return Happening(
        (event.time - begun) / _SECOND, event.kind, event.reason, event.model, event.previous, event.waiting
    )


def session_chart(course: SessionCourse) -> Chart:
    """Which model was to answer, and requests per second by model, with switches as dashed lines; below, the share
    answered in time and the queue."""
    panels = [*_answering(course), _rates(course)]
    if course.bound is not None and any(part.timed or part.refused for part in course.stretches):
        panels.append(_in_time(course))
    if any(event.waiting for event in course.events):
        panels.append(_queue(course))
    seconds = axis("seconds since the session began", tickCount=8)
    panels[-1]["layer"][-1]["encoding"]["x"]["axis"] = {**seconds, "title": "seconds since the session began"}
    title = f"Session of {course.service}"
    spec = {
        "title": heading(title, _subtitle(course)),
        "params": [{"name": ROOM, "value": WIDTH}],
        "vconcat": panels,
        "spacing": 16,
        **FILLS,
        "resolve": {"scale": {"color": "independent"}},
    }
    return Chart("session", f"{title}: requests per second by model, switches, requests in time", spec)


def _subtitle(course: SessionCourse) -> str:
    answered = sum(sum(part.requests.values()) for part in course.stretches)
    switches = len(course.switches)
    words = f"{answered:,.0f} answered requests counted, {switches:,} switch{'es' * (switches != 1)}"
    return words + ("; too many to be marked" if switches > MOST_SWITCHES else "")


def _x(course: SessionCourse) -> Spec:
    return quantity("x", 0, course.seconds, axis(tickCount=8, labels=False))


def _answering(course: SessionCourse) -> list[Spec]:
    """A band of the models that were to answer, from one switch to the next, with the reason of each switch; nothing
    where none was recorded, or more than can be told apart."""
    if not course.switches or len(course.switches) > MOST_SWITCHES:
        return []
    chosen = [event for event in course.events if event.kind in (EventKind.START, EventKind.SWITCH) and event.model]
    ends = [*(event.at for event in chosen[1:]), course.seconds]
    rows: list[dict[str, Any]] = []
    for event, end in zip(chosen, ends, strict=True):
        named = event.model.partition("@")[0]
        fits = (end - event.at) / course.seconds * WIDTH > LETTER * len(named) + 2 * _MARGIN
        shown = named if fits else ""
        words = f"{named} from {event.at:.1f} to {end:.1f} s: {event.reason}"
        rows.append({"x": event.at, "x2": end, "model": _series_name(course, named), "text": shown, "words": words})
    names = list(dict.fromkeys((*course.models, *(row["model"] for row in rows))))
    x = _x(course)
    hint = {"field": "words", "type": "nominal", "title": "was to answer"}
    text = {"type": "text", "align": "left", "dx": _MARGIN, "color": "#fff", "fontSize": 11, "fontWeight": 600}
    room = f"(datum.x2 - datum.x) * {ROOM} / {course.seconds} - {2 * _MARGIN}"
    text |= {"limit": {"expr": f"max(1, {room})"}}  # 0 would be no limit
    colour = {**series("model", names), "legend": None}
    return [
        {
            "width": WIDTH,
            "height": 24,
            "data": values(rows),
            "layer": [
                {
                    "mark": {"type": "rect", "stroke": SOFT, "strokeWidth": 1},
                    "encoding": {"x": x, "x2": {"field": "x2"}, "color": colour, "tooltip": hint},
                },
                {"mark": text, "encoding": {"x": x, "text": {"field": "text"}}},
            ],
        }
    ]


def _series_name(course: SessionCourse, model: str) -> str:
    """The name under which the answers of a model are counted, so that both have one colour."""
    return next((name for name in course.models if name.startswith(f"{model} in ")), model)


def _rates(course: SessionCourse) -> Spec:
    rows: list[dict[str, Any]] = []
    most = 0.0
    for part in course.stretches:
        below = 0.0
        for name in course.models:
            rate = part.requests.get(name, 0) / (part.end - part.start)
            if rate:
                words = f"{part.requests[name]:,.0f} requests in {part.end - part.start:.1f} s by {name}"
                rows.append(
                    {"x": part.start, "x2": part.end, "y": below, "y2": below + rate, "model": name, "words": words}
                )
            below += rate
        most = max(most, below)
    names = list(course.models) or ["no answers were counted"]
    columns = max(1, int(WIDTH / (LETTER * max(map(len, names)) + 60)))
    x, y = _x(course), quantity("y", 0, most * 1.1 or 1.0, axis("requests/s", tickCount=4))
    bars = {
        "data": values(rows),
        "mark": {"type": "rect"},
        "encoding": {
            "x": x,
            "x2": {"field": "x2"},
            "y": y,
            "y2": {"field": "y2"},
            "color": series("model", names, columns=columns),
            "tooltip": {"field": "words", "type": "nominal", "title": "answered"},
        },
    }
    return {"width": WIDTH, "height": 200, "layer": [*_switches(course), bars]}


def _switches(course: SessionCourse) -> list[Spec]:
    if not course.switches or len(course.switches) > MOST_SWITCHES:
        return []
    rows = [{"x": event.at, "words": f"{event.previous} → {event.model}: {event.reason}"} for event in course.switches]
    mark = {"type": "rule", "strokeDash": [3, 3], "color": INK, "opacity": 0.7}
    hint = {"field": "words", "type": "nominal", "title": "switch"}
    return [{"data": values(rows), "mark": mark, "encoding": {"x": _x(course), "tooltip": hint}}]


def _in_time(course: SessionCourse) -> Spec:
    rows: list[dict[str, Any]] = [
        {
            "x": part.start,
            "x2": part.end,
            "y": 100 * part.within / (part.timed + part.refused),
            "words": f"{part.within:,.0f} of {part.timed + part.refused:,.0f}, {part.refused:,.0f} refused",
        }
        for part in course.stretches
        if part.timed + part.refused
    ]
    bound, wanted = course.bound or 0.0, course.percentile or 0.0
    low = min(*(row["y"] for row in rows), wanted)
    x, y = _x(course), quantity("y", max(0.0, low - 5), 101, axis("% in time", tickCount=4))
    at = values([{"y": wanted, "x": 0, "text": f"{percent(wanted / 100, 0)} within {figure(bound, 's')}"}])
    text = {"type": "text", "align": "left", "dx": 4, "dy": 9, "color": DIM, "fontSize": 11}
    return {
        "width": WIDTH,
        "height": 80,
        "layer": [
            {"data": at, "mark": {"type": "rule", "color": DIM, "strokeDash": [5, 4]}, "encoding": {"y": y}},
            {"data": at, "mark": text, "encoding": {"x": {**x}, "y": y, "text": {"field": "text"}}},
            {
                "data": values(rows),
                "mark": {"type": "rule", "color": SERIES[2], "strokeWidth": 3},
                "encoding": {
                    "x": x,
                    "x2": {"field": "x2"},
                    "y": y,
                    "tooltip": {"field": "words", "type": "nominal", "title": "in time"},
                },
            },
        ],
    }


def _queue(course: SessionCourse) -> Spec:
    """How many requests waited when something happened; between two events nobody wrote it down."""
    rows: list[dict[str, Any]] = [
        {"x": event.at, "y": event.waiting, "words": f"{event.kind}: {event.reason}"}
        for event in course.events
        if event.kind is EventKind.SWITCH
    ]
    most = max(row["y"] for row in rows) if rows else 1
    return {
        "width": WIDTH,
        "height": 80,
        "layer": [
            {
                "data": values(rows),
                "mark": {"type": "circle", "color": SERIES[1], "size": 40},
                "encoding": {
                    "x": _x(course),
                    "y": quantity("y", 0, most * 1.15 or 1.0, {**axis(tickCount=3), "title": "waiting"}),
                    "tooltip": {"field": "words", "type": "nominal", "title": "event"},
                },
            }
        ],
    }
