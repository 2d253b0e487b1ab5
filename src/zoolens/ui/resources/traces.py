"""/traces: where the time of models goes; one trace with its timeline, layers and roofline, or beside another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from pydantic import Field

from zoolens.errors import ZoolensError
from zoolens.present.charts import Chart, themed
from zoolens.present.figures import figure
from zoolens.store.browsing import RunsWanted, TimeOrder, count_facets, page_of_runs
from zoolens.store.records import Observation, Run, RunKind
from zoolens.store.run_columns import RunState
from zoolens.tracing.chrome import chrome_text
from zoolens.tracing.comparison import TraceComparison, comparison_as_data, comparison_table
from zoolens.tracing.comparison import sentences as comparison_sentences
from zoolens.tracing.comparison_chart import aligned_chart, difference_of, differences_chart
from zoolens.tracing.layers import Layer, Timing
from zoolens.tracing.recorded import Recorded, is_recording, recording_as_data, steps_table
from zoolens.tracing.recorded import sentences as recording_sentences
from zoolens.tracing.report import counters_table, levels_table, merged_layers, share_words, trace_as_data
from zoolens.tracing.report import sentences as trace_sentences
from zoolens.tracing.roofline.attained import peak_threads
from zoolens.tracing.runner import BATCH, INPUTS, PREFIX
from zoolens.tracing.spans import Level
from zoolens.tracing.stored import SUMS_UP, Trace, find_trace, spans_of
from zoolens.tracing.timeline import Timeline, TimelineSpan, Window, timeline_chart
from zoolens.ui.context import Context
from zoolens.ui.endpoint import Answer, Endpoint, File, NotFound, Paged, Query, RequestError, Shown
from zoolens.ui.facets import Facet, facet_of
from zoolens.ui.figures import Figure, figure_of
from zoolens.ui.resources.runs import Fact, FailedStage, Pattern
from zoolens.ui.word_tables import WordTable, word_table

_LONGEST: Final = 200
_MOST_FAILURES: Final = 10


class TracesQuery(Paged):
    q: str = Field("", max_length=_LONGEST, description="Words: parts of names of models and runtimes, or an id.")
    model: list[Pattern] = Field([], description="Names of models, with * and ?.")
    runtime: list[Pattern] = Field([], description="Names of runtimes, with * and ?.")


class TraceItem(Answer):
    """One trace, or the recording of an application. `predict`: the time of one prediction, with nothing observed below
    it. `failed`: levels that could not be observed."""

    id: str
    created: datetime
    recording: bool
    state: RunState
    model: Shown
    runtime: Shown
    stack: Shown
    batch: int
    inputs: Shown
    attempt: int
    predict: Figure | None
    failed: list[FailedStage]


class TraceList(Answer):
    total: int
    offset: int
    rows: list[TraceItem]
    facets: list[Facet]


def traces(context: Context, query: TracesQuery) -> TraceList:
    wanted = RunsWanted(
        models=tuple(query.model),
        runtimes=tuple(f"{PREFIX}{name}" for name in query.runtime),
        kinds=(RunKind.TRACE,),
        text=query.q,
    )
    page = page_of_runs(context.runs, wanted, TimeOrder(), limit=query.limit, offset=query.offset)
    by_id = {run.id: run for run in context.store.runs_of(page.ids)}
    counts = count_facets(context.runs, wanted).runtimes
    runtimes = {name.removeprefix(PREFIX): count for name, count in counts.items() if name.startswith(PREFIX)}
    return TraceList(
        total=page.total,
        offset=query.offset,
        rows=[_item(context, by_id[run_id]) for run_id in page.ids if run_id in by_id],
        facets=[facet_of("runtime", runtimes, query.runtime)],
    )


def _item(context: Context, run: Run) -> TraceItem:
    failed = [
        FailedStage(stage=stage.partition(":")[2] or stage, error=words.removeprefix("failed: "))
        for stage, words in run.stages.items()
        if words != "done"
    ]
    recording = is_recording(run)
    call = None if recording else context.traces.call(run)
    about = Trace(run, int(run.resolved.get(BATCH, 1)), str(run.resolved.get(INPUTS, "")))
    return TraceItem(
        id=run.id,
        created=run.created,
        recording=recording,
        state=RunState.FAILED if failed else RunState.MEASURED if run.stages else RunState.BEGUN,
        model=run.ref,
        runtime=about.runtime,
        stack="" if recording else about.stack,
        batch=about.batch,
        inputs=about.inputs,
        attempt=run.key.attempt,
        predict=timing_figure(call, "predict") if call is not None else None,
        failed=failed[:_MOST_FAILURES],
    )


def timing_figure(timing: Timing, name: str) -> Figure:
    """A median of repetitions as a figure, marked where too few of them were undisturbed."""
    details = {"disturbed": True} if timing.disturbed else {}
    return figure_of(
        Observation(name, timing.median, unit="s", low=timing.low, high=timing.high, n=timing.n, details=details)
    )


# --- one trace


class TraceQuery(Query):
    run: str = Field(max_length=_LONGEST, description="The id of a trace, MODEL@RUNTIME for the newest one, or 'last'.")


class TraceTile(Answer):
    figure: Shown
    title: Shown


class TraceDetail(Answer):
    """`levels`: what each level took, or of a recording its steps. `timelines`: the levels of which there is one.
    `layers`: how many rows /layers has. `notes`: what the figures do not say."""

    trace: TraceItem
    title: Shown
    tiles: list[TraceTile]
    notes: list[Shown]
    levels: WordTable
    counters: WordTable | None
    timelines: list[str]
    layers: int
    facts: list[Fact]


def trace_detail(context: Context, query: TraceQuery) -> TraceDetail:
    run = find_trace(context.store, query.run)
    timelines = list(context.traces.timelines(run))
    if is_recording(run):
        return _recording_detail(context, context.traces.recording(run), timelines)
    trace = context.traces.trace(run)
    layers = merged_layers(trace)
    return TraceDetail(
        trace=_item(context, run),
        title=trace.title,
        tiles=list(_tiles(trace, layers)),
        notes=list(trace_sentences(trace)),
        levels=word_table(levels_table(trace)),
        counters=word_table(counters_table(trace)) if trace.counters else None,
        timelines=timelines,
        layers=sum(1 for _ in _flat(layers)),
        facts=_facts(trace),
    )


def _recording_detail(context: Context, recorded: Recorded, timelines: Sequence[str]) -> TraceDetail:
    return TraceDetail(
        trace=_item(context, recorded.run),
        title=recorded.title,
        tiles=[TraceTile(figure=figure(recorded.step.timing.median, "s"), title="from the beginning to the end")],
        notes=list(recording_sentences(recorded)),
        levels=word_table(steps_table(recorded)),
        counters=None,
        timelines=list(timelines),
        layers=0,
        facts=[],
    )


def _tiles(trace: Trace, layers: Sequence[Layer]) -> Iterator[TraceTile]:
    if trace.model is not None:
        yield TraceTile(figure=figure(trace.model.median, "s"), title=f"one prediction, batch {trace.batch}")
    if trace.request is not None:
        yield TraceTile(figure=figure(trace.request.median, "s"), title="one request, with what is around it")
    if trace.covered is not None:
        beyond = ", with the profiler's own time" if trace.covered > 1 + SUMS_UP else ""
        title = f"of it is what its {len(layers)} layers sum to{beyond}"
        yield TraceTile(figure=f"{100 * trace.covered:.0f} %", title=title)
    if layers:
        hottest = max(layers, key=lambda layer: layer.timing.median)
        share = hottest.timing.median / (sum(layer.timing.median for layer in layers) or 1)
        yield TraceTile(figure=f"{100 * share:.0f} %", title=f"of the layers' time in {hottest.name[-60:]}")


def _facts(trace: Trace) -> list[Fact]:
    machine = trace.run.stack.identity.get("machine", {})
    known = {
        "inputs": trace.inputs,
        "threads": trace.threads,
        "device": trace.device,
        "precision": trace.run.precision,
        "processor": machine.get("cpu"),
        "cores": machine.get("cores"),
    }
    return [Fact(name=name, value=str(value)) for name, value in known.items() if value not in (None, "")]


class TraceData(Answer):
    """What `zoolens trace show --json` prints of it."""

    data: dict[str, Any]


def trace_data(context: Context, query: TraceQuery) -> TraceData:
    run = find_trace(context.store, query.run)
    if is_recording(run):
        return TraceData(data=recording_as_data(context.traces.recording(run)))
    return TraceData(data=trace_as_data(context.traces.trace(run)))


# --- the timeline


class WindowQuery(Query):
    start: float = Field(0.0, ge=0, le=1, description="Where to begin, as a share of the call.")
    end: float = Field(1.0, ge=0, le=1, description="Where to end.")

    @property
    def window(self) -> Window:
        if self.end <= self.start:
            raise RequestError("end: it must be larger than start.")
        return Window(self.start, self.end)


class TimelineQuery(WindowQuery):
    run: str = Field(max_length=_LONGEST, description="The id of a trace, MODEL@RUNTIME for the newest one, or 'last'.")
    level: str = Field("", max_length=20, description="The level that was observed; empty: the first that there is.")
    span: int | None = Field(None, ge=0, description="The number of a span, to be told about.")


class SpanDetail(Answer):
    """One span. `start`: from the beginning of the call; it says so where it was not measured. `from_share` and
    `to_share`: where it lies in the call."""

    number: int
    name: Shown
    kind: Shown
    level: Shown
    seconds: float
    words: Shown
    start: Shown
    share: Shown
    kernel: Shown
    precision: Shown
    shapes: list[Shown]
    operators: list[Shown]
    from_share: float
    to_share: float


class TraceTimeline(Answer):
    """One call whose time is nearest to the median. Its data have the `number` of each span."""

    level: str
    seconds: float
    spans: int
    chart: dict[str, Any]
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
        chart=_fluid(timeline_chart(drawn, window=query.window)),
        span=None if query.span is None else _span_detail(drawn, drawn.spans[query.span]),
    )


def _timeline(context: Context, run: Run, level: str) -> Timeline:
    known = context.traces.timelines(run)
    if not known:
        raise NotFound("This trace has no spans that a timeline could show.")
    if level and level not in known:
        raise NotFound(f"This trace has no timeline of {level}.", hint=f"It has: {', '.join(known)}.")
    return known[level or next(iter(known))]


def _fluid(chart: Chart) -> dict[str, Any]:
    """A chart that is as wide as the page."""
    return {**themed(chart), "width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}


def _span_detail(drawn: Timeline, span: TimelineSpan) -> SpanDetail:
    whole = drawn.seconds or 1.0
    return SpanDetail(
        number=span.number,
        name=span.name,
        kind=span.kind,
        level=span.level,
        seconds=span.seconds,
        words=figure(span.seconds, "s"),
        start="not measured: laid out behind the one before it" if span.laid_out else figure(span.start, "s"),
        share=share_words(span.seconds / whole),
        kernel=span.kernel or "",
        precision=span.precision or "",
        shapes=list(span.shapes[:20]),
        operators=list(span.nodes[:50]),
        from_share=max(span.start / whole, 0.0),
        to_share=min(span.end / whole, 1.0),
    )


# --- its layers


class LayersQuery(Paged):
    run: str = Field(max_length=_LONGEST, description="The id of a trace, MODEL@RUNTIME for the newest one, or 'last'.")
    order: Literal["time", "call"] = Field("time", description="The hottest first, or in the order of computing.")


class LayerItem(Answer):
    """`depth`: below how many others it is. `share`: of the time of all outermost layers together."""

    number: int
    depth: int
    name: Shown
    kind: Shown
    time: Figure
    share: float
    share_words: Shown
    kernel: Shown
    precision: Shown
    output: Shown


class LayerPage(Answer):
    total: int
    offset: int
    rows: list[LayerItem]


def trace_layers(context: Context, query: LayersQuery) -> LayerPage:
    run = find_trace(context.store, query.run)
    if is_recording(run):
        raise NotFound("A recording has steps and no layers.")
    layers = merged_layers(context.traces.trace(run))
    total = sum(layer.timing.median for layer in layers) or 1.0
    rows = list(_flat(layers, hottest=query.order == "time"))
    return LayerPage(
        total=len(rows),
        offset=query.offset,
        rows=[
            _layer_item(query.offset + place, depth, layer, total)
            for place, (depth, layer) in enumerate(rows[query.offset : query.offset + query.limit])
        ],
    )


def _flat(layers: Sequence[Layer], depth: int = 0, *, hottest: bool = False) -> Iterator[tuple[int, Layer]]:
    ordered = sorted(layers, key=lambda layer: -layer.timing.median) if hottest else layers
    for layer in ordered:
        yield depth, layer
        yield from _flat(layer.children, depth + 1, hottest=hottest)


def _layer_item(number: int, depth: int, layer: Layer, total: float) -> LayerItem:
    share = layer.timing.median / total
    return LayerItem(
        number=number,
        depth=depth,
        name=layer.name,
        kind=layer.kind,
        time=timing_figure(layer.timing, "time"),
        share=share,
        share_words=share_words(share),
        kernel=layer.kernel or "",
        precision=layer.precision or "",
        output=", ".join("×".join(map(str, shape)) for shape in layer.shapes[:2]),
    )


# --- against the peaks of the machine


class TraceRoofline(Answer):
    """`reason`: why there is none; empty where there is one. `unmeasured`: only the peaks of this machine are missing,
    which a job of the kind "peaks" measures with `threads` and `device`. `data`: what the command prints as JSON."""

    reason: Shown
    unmeasured: bool
    threads: int | None
    device: Shown
    notes: list[Shown]
    chart: dict[str, Any] | None
    table: WordTable | None
    data: dict[str, Any] | None


def trace_roofline(context: Context, query: TraceQuery) -> TraceRoofline:
    run = find_trace(context.store, query.run)
    if is_recording(run):
        raise NotFound("A recording has no roofline: its models have traces of their own.")
    trace = context.traces.trace(run)
    about: dict[str, Any] = {"threads": peak_threads(trace), "device": trace.device}
    nothing: dict[str, Any] = {"notes": [], "chart": None, "table": None, "data": None}
    if trace.layer is None:
        reason = trace.missing.get(Level.LAYER) or "The layers of the model were not traced."
        return TraceRoofline(reason=reason, unmeasured=False, **about, **nothing)
    try:
        held = context.traces.roofline(run)
    except RequestError:
        raise
    except ZoolensError as error:
        return TraceRoofline(reason=str(error), unmeasured=False, **about, **nothing)
    if held is None:
        reason = "What this machine can do at its best was not measured yet."
        return TraceRoofline(reason=reason, unmeasured=True, **about, **nothing)
    return TraceRoofline(
        reason="",
        unmeasured=False,
        **about,
        notes=held["sentences"],
        chart=held["chart"],
        table=WordTable.model_validate(held["table"]),
        data=held["data"],
    )


# --- two traces


class ComparedQuery(WindowQuery):
    run: str = Field(max_length=_LONGEST, description="The first trace (A), as for /traces/{run}.")
    other: str = Field(max_length=_LONGEST, description="The second one (B).")
    picked: int | None = Field(None, ge=0, description="The place of a difference, whose layers stand out.")
    band: int = Field(0, ge=0, le=1, description="Of `span`: 0 is a span of A, 1 of B.")
    span: int | None = Field(None, ge=0, description="Pick the difference that this span of a timeline is part of.")


class TraceDifferences(Answer):
    """`table` has the differences, largest first; a row's place is what `picked` takes, and `picked` is the one that
    stands out in the chart of both calls. `data`: what `zoolens trace compare --json` prints."""

    a: TraceItem
    b: TraceItem
    notes: list[Shown]
    calls: dict[str, Any] | None
    differences: dict[str, Any]
    table: WordTable
    picked: int | None
    data: dict[str, Any]


def compared_traces(context: Context, query: ComparedQuery) -> TraceDifferences:
    a, b = (find_trace(context.store, name) for name in (query.run, query.other))
    if is_recording(a) or is_recording(b):
        raise RequestError("A recording cannot be compared by layers: compare traces of models.")
    comparison = context.traces.comparison(a, b)
    drawn = [context.traces.timelines(run).get(str(Level.LAYER)) for run in (a, b)]
    picked = _picked(query, comparison, drawn)
    calls = None
    if drawn[0] is not None and drawn[1] is not None:
        calls = _fluid(aligned_chart(comparison, drawn[0], drawn[1], picked, query.window))
    return TraceDifferences(
        a=_item(context, a),
        b=_item(context, b),
        notes=list(comparison_sentences(comparison)),
        calls=calls,
        differences=themed(differences_chart(comparison)),
        table=word_table(comparison_table(comparison, None)),
        picked=picked,
        data=comparison_as_data(comparison),
    )


def _picked(query: ComparedQuery, comparison: TraceComparison, drawn: Sequence[Timeline | None]) -> int | None:
    if query.picked is not None:
        if query.picked >= len(comparison.differences):
            raise NotFound(f"There is no difference {query.picked}.")
        return query.picked
    side = drawn[query.band]
    if query.span is None or side is None:
        return None
    return difference_of(comparison, "ab"[query.band], side, query.span)


# --- for other tools


class ChromeQuery(TraceQuery):
    other: str = Field("", max_length=_LONGEST, description="Another trace for the same file.")


def trace_chrome(context: Context, query: ChromeQuery) -> File:
    runs = [find_trace(context.store, name) for name in (query.run, query.other) if name]
    tables = [table for run in runs for table in _titled(context, run)]
    name = "-".join(run.id[:8] for run in runs)
    return File(chrome_text(tables).encode(), "application/json", f"trace-{name}.json")


def _titled(context: Context, run: Run) -> Iterator[tuple[str, Any]]:
    if is_recording(run):
        recorded = context.traces.recording(run)
        yield recorded.step.name, recorded.spans
        return
    title = context.traces.trace(run).title
    for table in spans_of(context.store, run).values():
        yield title, table


ENDPOINTS: Final = (
    Endpoint(
        "/traces", "Traces of models and recordings of applications, newest first", TracesQuery, TraceList, traces
    ),
    Endpoint("/traces/{run}", "One trace", TraceQuery, TraceDetail, trace_detail),
    Endpoint(
        "/traces/{run}/timeline", "One call of a trace on a scale of time", TimelineQuery, TraceTimeline, trace_timeline
    ),
    Endpoint("/traces/{run}/layers", "The layers of a trace", LayersQuery, LayerPage, trace_layers),
    Endpoint(
        "/traces/{run}/roofline",
        "The layers against the peaks of the machine",
        TraceQuery,
        TraceRoofline,
        trace_roofline,
    ),
    Endpoint("/traces/{run}/data", "A trace as the command prints it", TraceQuery, TraceData, trace_data),
    Endpoint("/traces/{run}/chrome", "The spans of one or two traces for Perfetto", ChromeQuery, File, trace_chrome),
    Endpoint(
        "/traces/{run}/compared/{other}",
        "Which layers make the difference between two traces",
        ComparedQuery,
        TraceDifferences,
        compared_traces,
    ),
)
