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
from zoolens.findings.tracing.timeline import Timeline, TimelineSpan, TimelineWindow, timeline_chart


class WindowQuery(Query):
    start: float = Field(0.0, ge=0, le=1, description="Where to begin, as a share of the call.")
    end: float = Field(1.0, ge=0, le=1, description="Where to end.")

    @property
    def window(self) -> TimelineWindow:
        if self.end <= self.start:
            raise RequestError("end: it must be larger than start.")
        return TimelineWindow(self.start, self.end)


class TimelineQuery(WindowQuery):
    run: str = Field(max_length=LONGEST, description=NAMED)
    level: str = Field("", max_length=20, description="The level that was observed; empty: the first that there is.")
    span: int | None = Field(None, ge=0, description="The number of a span, to be told about.")


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


class TraceTimeline(Answer):
    """One call whose time is nearest to the median. Its data have the `number` of each span."""

    level: str
    seconds: float
    spans: int
    chart: Spec
    span: SpanDetail | None


def trace_timeline(context: Context, query: TimelineQuery) -> TraceTimeline:
    run = find_trace(context.store, query.run)
    drawn = _timeline(context, run, query.level)
    if query.span is not None and query.span >= len(drawn.spans):
        raise NotFound(f"This call has no span {query.span}.")
    return TraceTimeline(
        level=drawn.observed,
        seconds=drawn.seconds,
        spans=len(drawn.spans),
        chart=fluid(timeline_chart(drawn, window=query.window)),
        span=None if query.span is None else _span_detail(drawn, drawn.spans[query.span]),
    )


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


ENDPOINTS: Final = (Endpoint("/traces/{run}/timeline", "One call of a trace on a scale of time", trace_timeline),)
