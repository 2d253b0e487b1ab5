"""/traces: where the time of models goes: the list of traces, one of them, and its spans for other tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pydantic import Field

from zoolens.base.store.browsing import RunsWanted, TimeOrder, count_facets, page_of_runs
from zoolens.base.store.records import Run, RunKind
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, File, Paged, RowPage, Shown
from zoolens.faces.ui.facets import Facet, facet_of
from zoolens.faces.ui.page_figures import TileItem
from zoolens.faces.ui.resources.runs import Fact, Pattern
from zoolens.faces.ui.resources.trace_layers import flat_layers
from zoolens.faces.ui.trace_items import LONGEST, TraceItem, TraceQuery, trace_item
from zoolens.faces.ui.word_tables import WordTable, word_table
from zoolens.findings.tracing.chrome import chrome_text
from zoolens.findings.tracing.phases import Phase, kinds_table
from zoolens.findings.tracing.report import (
    counters_table,
    levels_table,
    median_words,
    merged_layers,
    share_words,
    timing_words,
    trace_as_data,
)
from zoolens.findings.tracing.report import sentences as trace_sentences
from zoolens.findings.tracing.runner import PREFIX
from zoolens.findings.tracing.stored import SUMS_UP, Trace, find_trace, spans_of
from zoolens.findings.tracing.stored_recording import (
    StoredRecording,
    is_recording,
    phase_shares,
    recording_as_data,
    steps_table,
)
from zoolens.findings.tracing.stored_recording import sentences as recording_sentences
from zoolens.findings.tracing.trace_layers import TracedLayer

_MOST_KINDS: Final = 8  # of layers


class TracesQuery(Paged):
    q: str = Field("", max_length=LONGEST, description="Words: parts of names of models and runtimes, or an id.")
    model: list[Pattern] = Field([], description="Names of models, with * and ?.")
    runtime: list[Pattern] = Field([], description="Names of runtimes, with * and ?.")


class TraceList(RowPage[TraceItem]):
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
        rows=[trace_item(context, by_id[run_id]) for run_id in page.ids if run_id in by_id],
        facets=[facet_of("runtime", runtimes, query.runtime)],
    )


# --- one trace


class PhaseItem(Answer):
    """What a language model does while it writes: it reads its prompt, or one further token."""

    title: Shown
    time: Shown
    """One call, with nothing observed below it."""
    share: Shown
    """Of all recorded requests."""
    levels: WordTable
    kinds: WordTable | None
    """Its layers by their kind, of which the longest have rows of their own; null where the runtime does not tell
    them."""
    notes: list[Shown]


class TraceDetail(Answer):
    """One trace, or the recording of an application."""

    trace: TraceItem
    title: Shown
    tiles: list[TileItem]
    notes: list[Shown]
    """What the figures do not say."""
    levels: WordTable
    """What each level took, or of a recording its steps."""
    counters: WordTable | None
    timelines: list[str]
    """The levels of which there is one."""
    layers: int
    """How many rows /layers has."""
    phases: list[PhaseItem]
    """The prompt and the next token of a language model that was traced while it writes; else empty."""
    facts: list[Fact]


def trace_detail(context: Context, query: TraceQuery) -> TraceDetail:
    run = find_trace(context.store, query.run)
    timelines = list(context.traces.timelines(run))
    if is_recording(run):
        return _recording_detail(context, context.traces.recording(run), timelines)
    trace = context.traces.trace(run)
    layers = merged_layers(trace)
    return TraceDetail(
        trace=trace_item(context, run),
        title=trace.title,
        tiles=list(_tiles(trace, layers)),
        notes=list(trace_sentences(trace)),
        levels=word_table(levels_table(trace)),
        counters=word_table(counters_table(trace)) if trace.counters else None,
        timelines=timelines,
        layers=sum(1 for _ in flat_layers(layers)),
        phases=[],
        facts=_facts(trace),
    )


def _recording_detail(context: Context, recorded: StoredRecording, timelines: Sequence[str]) -> TraceDetail:
    shares = phase_shares(recorded)
    return TraceDetail(
        trace=trace_item(context, recorded.run),
        title=recorded.title,
        tiles=list(_recording_tiles(recorded)),
        notes=list(recording_sentences(recorded)),
        levels=word_table(steps_table(recorded)),
        counters=None,
        timelines=list(timelines),
        layers=0,
        phases=[_phase(phase, shares.get(phase.name)) for phase in recorded.phases],
        facts=[],
    )


def _recording_tiles(recorded: StoredRecording) -> Iterator[TileItem]:
    for phase in recorded.phases:
        yield TileItem(figure=median_words(phase.trace.model), title=phase.title)
    if not recorded.phases:
        yield TileItem(figure=median_words(recorded.step.timing), title="from the beginning to the end")


def _phase(phase: Phase, share: float | None) -> PhaseItem:
    kinds = kinds_table(phase, _MOST_KINDS)
    return PhaseItem(
        title=phase.title,
        time=timing_words(phase.trace.model),
        share=share_words(share),
        levels=word_table(levels_table(phase.trace)),
        kinds=word_table(kinds) if kinds.rows else None,
        notes=list(trace_sentences(phase.trace)),
    )


def _tiles(trace: Trace, layers: Sequence[TracedLayer]) -> Iterator[TileItem]:
    if trace.model is not None:
        yield TileItem(figure=median_words(trace.model), title=f"one prediction, batch {trace.batch}")
    if trace.request is not None:
        yield TileItem(figure=median_words(trace.request), title="one request, with what is around it")
    if trace.covered is not None:
        beyond = ", some of them at the same time" if trace.covered > 1 + SUMS_UP else ""
        title = f"of the profiled call is what its {len(layers)} layers sum to{beyond}"
        yield TileItem(figure=f"{100 * trace.covered:.0f} %", title=title)
    if layers:
        hottest = max(layers, key=lambda layer: layer.timing.median)
        share = hottest.timing.median / (sum(layer.timing.median for layer in layers) or 1)
        mark = " (disturbed)" if hottest.timing.disturbed else ""
        yield TileItem(figure=f"{100 * share:.0f} %{mark}", title=f"of the layers' time in {hottest.name[-60:]}")


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


# --- for other tools


class ChromeQuery(TraceQuery):
    other: str = Field("", max_length=LONGEST, description="Another trace for the same file.")


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
    Endpoint("/traces", "Traces of models and recordings of applications, newest first", traces),
    Endpoint("/traces/{run}", "One trace", trace_detail),
    Endpoint("/traces/{run}/data", "A trace as the command prints it", trace_data),
    Endpoint("/traces/{run}/chrome", "The spans of one or two traces for Perfetto", trace_chrome),
)
