"""Traces as one self-contained page: timelines, all layers, what observing cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from zoolens.base.present.pages import Page, Section, Tile, page_html
from zoolens.findings.tracing.comparison import TraceComparison, comparison_table
from zoolens.findings.tracing.comparison import sentences as comparison_sentences
from zoolens.findings.tracing.phases import Phase, kinds_table
from zoolens.findings.tracing.report import (
    counters_table,
    layers_table,
    levels_table,
    median_words,
    merged_layers,
    sentences,
    short_name,
)
from zoolens.findings.tracing.roofline.attained import Roofline
from zoolens.findings.tracing.roofline.attained import sentences as roof_sentences
from zoolens.findings.tracing.roofline.chart import roofline_chart, roofline_table
from zoolens.findings.tracing.spans import USER, Level
from zoolens.findings.tracing.stored import Trace
from zoolens.findings.tracing.stored_recording import StoredRecording, steps_table, typical_request
from zoolens.findings.tracing.stored_recording import sentences as step_sentences
from zoolens.findings.tracing.timeline import timeline, timeline_chart

if TYPE_CHECKING:
    import pyarrow as pa

_POINT: Final = "Point at a bar for its times."
_DASHED: Final = "Of dashed bars only the duration was measured, and not the start."
Spans = Mapping[Level, "pa.Table"]


def traces_page(
    traces: Sequence[tuple[Trace, Spans]], further: Sequence[Section] = (), roofs: Sequence[Roofline] = ()
) -> str:
    """The page of some traces as HTML. `further`: sections in front, such as a comparison."""
    return page_html(page_of_traces(traces, further, roofs))


def page_of_traces(
    traces: Sequence[tuple[Trace, Spans]], further: Sequence[Section] = (), roofs: Sequence[Roofline] = ()
) -> Page:
    models = ", ".join(dict.fromkeys(trace.run.ref for trace, _ in traces))
    sections = [section for trace, spans in traces for section in _sections(trace, spans)]
    return Page(
        f"Trace of {models}",
        "The times of each level come from calls in which nothing deeper was observed.",
        tiles=tuple(tile for trace, _ in traces for tile in _tiles(trace)),
        sections=(*further, *sections, *map(_roof_section, roofs)),
        facts={f"run {trace.run.id[:8]}": _facts(trace) for trace, _ in traces},
    )


def _roof_section(roof: Roofline) -> Section:
    return Section(
        f"Roofline of {roof.trace.runtime}",
        paragraphs=tuple(roof_sentences(roof)),
        charts=(roofline_chart(roof),),
        tables=(("", roofline_table(roof, None)),),
    )


def comparison_page(comparison: TraceComparison, traces: Sequence[tuple[Trace, Spans]]) -> str:
    """Makes a page of both traces, with what differs between them in front."""
    return traces_page(traces, [comparison_section(comparison)])


def comparison_section(comparison: TraceComparison) -> Section:
    first, *rest = comparison_sentences(comparison)
    return Section(
        "What makes the difference",
        paragraphs=(first, *rest),
        tables=(("", comparison_table(comparison, None)),),
    )


def recording_page(recorded: StoredRecording) -> str:
    """The steps of an application, and the timeline of one request."""
    drawn = timeline(typical_request(recorded), USER)
    return page_html(
        Page(
            f"Recording of {recorded.step.name}",
            "Each step with all its repetitions, and a timeline of the request whose time is the median one.",
            sections=(
                Section("Steps", paragraphs=tuple(step_sentences(recorded)), tables=(("", steps_table(recorded)),)),
                Section(
                    "Timeline of one request",
                    paragraphs=(_DASHED,),
                    pointing=_POINT,
                    charts=() if drawn is None else (timeline_chart(drawn, f"One request of {recorded.step.name}"),),
                ),
                *(section for phase in recorded.phases for section in _phase_sections(phase)),
            ),
            facts={f"run {recorded.run.id[:8]}": {"when": f"{recorded.run.created:%Y-%m-%d %H:%M} UTC"}},
        )
    )


def _phase_sections(phase: Phase) -> Iterator[Section]:
    first, *others = _sections(phase.trace, {Level.LAYER: phase.spans})
    yield replace(first, title=phase.title, tables=(*first.tables, ("Layers by kind", kinds_table(phase))))
    yield from (replace(section, title=f"{phase.name}: {section.title}") for section in others)


def _tiles(trace: Trace) -> Iterator[Tile]:
    if trace.model is not None:
        yield Tile(median_words(trace.model), f"one prediction in {trace.stack}, batch {trace.batch}")
    layers = merged_layers(trace)
    if layers:
        hottest = max(layers, key=lambda layer: layer.timing.median)
        share = hottest.timing.median / (sum(layer.timing.median for layer in layers) or 1)
        mark = " (disturbed)" if hottest.timing.disturbed else ""
        yield Tile(f"{100 * share:.0f} %{mark}", f"of the layers' time in {short_name(hottest.name)} ({trace.runtime})")


def _sections(trace: Trace, spans: Spans) -> Iterator[Section]:
    tables: list[Any] = [("", levels_table(trace))]
    if trace.counters:
        tables.append(("What the system did in one call", counters_table(trace)))
    yield Section(trace.title, paragraphs=tuple(sentences(trace)), tables=tuple(tables))
    for level in (Level.PIPELINE, Level.LAYER, Level.LIBRARY):
        drawn = timeline(spans[level], level) if level in spans else None
        if drawn is not None:
            yield Section(
                f"Timeline of {trace.runtime}: {level}",
                paragraphs=(_DASHED,),
                pointing=_POINT,
                charts=(timeline_chart(drawn, f"One call in {trace.runtime}, {level} observed"),),
            )
    if trace.layers:
        yield Section(f"Layers of {trace.runtime}", tables=(("", layers_table(trace, None)),))


def _facts(trace: Trace) -> dict[str, Any]:
    return {
        "model": trace.run.ref,
        "runtime": trace.stack,
        "inputs": trace.inputs,
        "batch": trace.batch,
        "machine": trace.run.stack.identity.get("machine", {}),
        "when": f"{trace.run.created:%Y-%m-%d %H:%M} UTC",
    }
