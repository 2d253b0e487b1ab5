"""What `zoolens trace` prints and writes: tables, sentences, pages, and spans for other tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from zoolens.base.errors import ZoolensError

if TYPE_CHECKING:
    import pyarrow as pa

    from zoolens.base.present.tables import Table
    from zoolens.base.store.store import Store
    from zoolens.findings.tracing.comparison import TraceComparison
    from zoolens.findings.tracing.phases import Phase
    from zoolens.findings.tracing.roofline.attained import Roofline
    from zoolens.findings.tracing.stored import Trace
    from zoolens.findings.tracing.stored_recording import StoredRecording


def rooflines(store: Store, traces: Sequence[Trace]) -> list[Roofline]:
    from zoolens.findings.tracing.roofline.attained import roofline

    roofs = []
    for trace in traces:
        try:
            roofs.append(roofline(trace, store=store))
        except ZoolensError as error:
            click.echo(f"No roofline of {trace.title}: {error}", err=True)
    return roofs


def show_traces(traces: Sequence[Trace], roofs: Sequence[Roofline], *, top: int, as_json: bool) -> None:
    from zoolens.base.present.terminal import echo_json
    from zoolens.findings.tracing.report import trace_as_data
    from zoolens.findings.tracing.roofline.chart import roofline_as_data

    if as_json:
        roofline_data = {roof.trace.run.id: {"roofline": roofline_as_data(roof)} for roof in roofs}
        echo_json([{**trace_as_data(trace), **roofline_data.get(trace.run.id, {})} for trace in traces])
        return
    for place, trace in enumerate(traces):
        if place:
            click.echo()
        _print_trace(trace, top)
    for roof in roofs:
        _print_roof(roof, top)
    _say_why(traces)


def _print_trace(trace: Trace, top: int) -> None:
    from zoolens.base.present.terminal import echo_prose, make_console, plain
    from zoolens.findings.tracing.report import counters_table, layers_table, levels_table, sentences

    console = make_console()
    when = f"run {trace.run.id[:8]} of {trace.run.created:%Y-%m-%d %H:%M} UTC"
    console.print(f"[bold]{plain(trace.title)}[/], batch {trace.batch}, {plain(trace.inputs)} ({when})")
    if (levels := levels_table(trace)).rows:
        _print_table(levels)
    if trace.layers:
        click.echo()
        _print_table(layers_table(trace, top))
    if trace.counters:
        click.echo()
        _print_table(counters_table(trace))
    for sentence in sentences(trace):
        echo_prose(sentence)


def _print_roof(roof: Roofline, top: int) -> None:
    from zoolens.base.present.terminal import echo_prose
    from zoolens.findings.tracing.roofline.attained import sentences
    from zoolens.findings.tracing.roofline.chart import roofline_table

    click.echo(f"\nRoofline of {roof.trace.title}, batch {roof.trace.batch}")
    _print_table(roofline_table(roof, top))
    for sentence in sentences(roof):
        echo_prose(sentence)


def _say_why(traces: Sequence[Trace]) -> None:
    """Says why the slowest of several traces of one model takes longer than the quickest, where they have layers."""
    from zoolens.findings.tracing.comparison import compare_traces

    comparable = [trace for trace in traces if trace.layers and trace.unlayered is not None]
    if len(comparable) < 2 or len({trace.run.ref for trace in comparable}) > 1:
        return
    ordered = sorted(comparable, key=lambda trace: trace.unlayered.median if trace.unlayered else 0.0)
    click.echo()
    print_comparison(compare_traces(ordered[0], ordered[-1]), 10)


def print_comparison(comparison: TraceComparison, top: int) -> None:
    from zoolens.base.present.terminal import echo_prose
    from zoolens.findings.tracing.comparison import comparison_table, sentences

    first, *rest = sentences(comparison)
    echo_prose(first)
    click.echo()
    _print_table(comparison_table(comparison, top))
    click.echo()
    for sentence in rest:
        echo_prose(sentence)


def _print_table(table: Table) -> None:
    from zoolens.base.present.terminal import print_table

    print_table(table.columns, table.words())


def show_recording(recorded: StoredRecording, chosen: dict[str, Any], *, as_json: bool) -> None:
    from zoolens.base.present.terminal import echo_json, echo_prose, make_console, plain
    from zoolens.findings.tracing.stored_recording import recording_as_data, sentences, steps_table

    if as_json:
        echo_json(recording_as_data(recorded))
    else:
        when = f"run {recorded.run.id[:8]} of {recorded.run.created:%Y-%m-%d %H:%M} UTC"
        make_console().print(f"[bold]{plain(recorded.title)}[/] ({when})")
        _print_table(steps_table(recorded))
        for sentence in sentences(recorded):
            echo_prose(sentence)
        for phase in recorded.phases:
            _print_phase(phase, chosen["top"])
    if chosen["html"]:
        from zoolens.findings.tracing.trace_page import recording_page

        chosen["html"].write_text(recording_page(recorded), encoding="utf-8", errors="replace")
        click.echo(f"Wrote {chosen['html']}.", err=True)
    phases = [(f"{recorded.step.name}: {phase.name}", phase.spans) for phase in recorded.phases]
    _export([(recorded.step.name, recorded.spans), *phases], chosen)


def _print_phase(phase: Phase, top: int) -> None:
    from zoolens.base.present.terminal import echo_prose, make_console, plain
    from zoolens.findings.tracing.phases import kinds_table
    from zoolens.findings.tracing.report import layers_table, levels_table, sentences

    click.echo()
    make_console().print(f"[bold]{plain(phase.title)}[/]")
    _print_table(levels_table(phase.trace))
    if phase.trace.layers:
        click.echo()
        _print_table(kinds_table(phase))
        click.echo()
        _print_table(layers_table(phase.trace, top))
    for sentence in sentences(phase.trace):
        echo_prose(sentence)


def write_traces(store: Store, traces: Sequence[Trace], roofs: Sequence[Roofline], chosen: dict[str, Any]) -> None:
    """Write what the options ask for; what was written is said on the error stream, since JSON may be on the other."""
    from zoolens.findings.tracing.stored import spans_of

    if not any(chosen[name] for name in ("html", "chrome", "otlp")):
        return
    spans = [(trace, spans_of(store, trace.run)) for trace in traces]
    tables = [(trace.title, table) for trace, by_level in spans for table in by_level.values()]
    if chosen["html"]:
        from zoolens.findings.tracing.trace_page import traces_page

        chosen["html"].write_text(traces_page(spans, roofs=roofs), encoding="utf-8", errors="replace")
        click.echo(f"Wrote {chosen['html']}.", err=True)
    _export(tables, chosen)


def _export(tables: Sequence[tuple[str, pa.Table]], chosen: dict[str, Any]) -> None:
    if chosen["chrome"]:
        from zoolens.findings.tracing.chrome import write_chrome

        write_chrome(chosen["chrome"], tables)
        click.echo(f"Wrote {chosen['chrome']}: open it at https://ui.perfetto.dev.", err=True)
    if chosen["otlp"]:
        from zoolens.findings.tracing.otlp import send_otlp

        sent = send_otlp(chosen["otlp"], tables, _headers(chosen["headers"]))
        click.echo(f"Sent {sent:,} spans to {chosen['otlp']}.", err=True)


def _headers(given: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition(":") for text in given]
    wrong = next((text for text, (name, colon, _) in zip(given, pairs, strict=True) if not name or not colon), None)
    if wrong is not None:
        raise click.BadParameter(f"{wrong!r} is not written as NAME:VALUE.", param_hint="--header")
    return {name.strip(): value.strip() for name, _, value in pairs}
