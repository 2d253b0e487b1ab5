"""/traces/{run}/timeline: one call of a trace on a scale of time."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from zoolens.base.present.charts import Chart, Spec, themed
from zoolens.base.present.figures import figure
from zoolens.base.store.records import Run
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, NotFound, Query, RequestError, Shown
from zoolens.faces.ui.trace_items import LONGEST, NAMED
from zoolens.findings.tracing.report import share_words
from zoolens.findings.tracing.stored import find_trace
from zoolens.findings.tracing.timeline import Categories, Timeline, TimelineSpan, TimelineWindow, longest_spans

_MOST_SPANS: Final = 20_000  # about 1 MB


class WindowQuery(Query):
    start: float = Field(0.0, ge=0, le=1, description="Where to begin, as a share of the call.")
    end: float = Field(1.0, ge=0, le=1, description="Where to end.")

    @property
    def window(self) -> TimelineWindow:
        if self.end <= self.start:
            raise RequestError("end: it must be larger than start.")
        return TimelineWindow(self.start, self.end)


class TimelineQuery(Query):
    run: str = Field(max_length=LONGEST, description=NAMED)
    level: str = Field("", max_length=20, description="The level that was observed; empty: the first that there is.")


class SpanQuery(TimelineQuery):
    number: int = Field(ge=0, description="The number of a span, in the order of time.")


class SpanDetail(Answer):
    """One span."""

    number: int
    name: Shown
    kind: Shown
    level: Shown
    seconds: float
    words: Shown
    start: Shown
    """The time since the beginning of the call; a sentence where it was not measured."""
    share: Shown
    kernel: Shown
    precision: Shown
    shapes: list[Shown]
    operators: list[Shown]
    from_share: float
    """`from_share` and `to_share`: where it lies in the call."""
    to_share: float


class SpanCategory(Answer):
    """What decides the colour of a span."""

    name: Shown
    colour: str


class TraceTimeline(Answer):
    """One call whose time is nearest to the median, as columns in the order of time: where each of the longest spans
    begins and how long it takes, in seconds, its line, and the places of its name and of its category. There are
    `spans` in all."""

    level: str
    seconds: float
    words: Shown
    spans: int
    left_out: int
    """The shortest spans, and those on lines that are too deep, are not listed."""
    lanes: int
    names: list[Shown]
    categories: list[SpanCategory]
    number: list[int]
    start: list[float]
    time: list[float]
    lane: list[int]
    name: list[int]
    category: list[int]
    laid_out: list[bool]
    """Whether only the duration was measured, and not the start."""


def trace_timeline(context: Context, query: TimelineQuery) -> TraceTimeline:
    drawn = _timeline(context, find_trace(context.store, query.run), query.level)
    shown = longest_spans(drawn.spans, _MOST_SPANS)
    categories = Categories([drawn])
    names = {name: place for place, name in enumerate(dict.fromkeys(span.name for span in shown))}
    return TraceTimeline(
        level=drawn.observed,
        seconds=drawn.seconds,
        words=figure(drawn.seconds, "s"),
        spans=len(drawn.spans),
        left_out=len(drawn.spans) - len(shown),
        lanes=max((span.lane for span in shown), default=0) + 1,
        names=list(names),
        categories=[
            SpanCategory(name=name, colour=colour)
            for name, colour in zip(categories.names, categories.colours, strict=True)
        ],
        number=[span.number for span in shown],
        start=[span.start for span in shown],
        time=[span.seconds for span in shown],
        lane=[span.lane for span in shown],
        name=[names[span.name] for span in shown],
        category=[categories.names.index(categories.of(span)) for span in shown],
        laid_out=[span.laid_out for span in shown],
    )


def trace_span(context: Context, query: SpanQuery) -> SpanDetail:
    drawn = _timeline(context, find_trace(context.store, query.run), query.level)
    if query.number >= len(drawn.spans):
        raise NotFound(f"This call has no span {query.number}.")
    return _span_detail(drawn, drawn.spans[query.number])


def _timeline(context: Context, run: Run, level: str) -> Timeline:
    known = context.traces.timelines(run)
    if not known:
        raise NotFound("This trace has no spans that a timeline could show.")
    if level and level not in known:
        raise NotFound(f"This trace has no timeline of {level}.", hint=f"It has: {', '.join(known)}.")
    return known[level or next(iter(known))]


def fluid(chart: Chart) -> Spec:
    """A chart that is as wide as the page."""
    return {**themed(chart), "width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}


def _span_detail(drawn: Timeline, span: TimelineSpan) -> SpanDetail:
    whole = drawn.seconds or 1.0
    return SpanDetail.of(
        span,
        words=figure(span.seconds, "s"),
        start="not measured: laid out behind the one before it" if span.laid_out else figure(span.start, "s"),
        share=share_words(span.seconds / whole),
        shapes=list(span.shapes[:20]),
        operators=list(span.nodes[:50]),
        from_share=max(span.start / whole, 0.0),
        to_share=min(span.end / whole, 1.0),
    )


ENDPOINTS: Final = (
    Endpoint("/traces/{run}/timeline", "One call of a trace, span by span", trace_timeline),
    Endpoint("/traces/{run}/span", "One span of that call", trace_span),
)
