"""`zoolens trace`: where the time of a model goes, from a request down to the kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from zoolens.cli.options import OUT_FILE, json_option, trust_option, wide_option
from zoolens.cli.stores import store_option
from zoolens.errors import ZoolensError

if TYPE_CHECKING:
    import pyarrow as pa

    from zoolens.measure.plan import Outcome
    from zoolens.present.tables import Table
    from zoolens.store.store import Store
    from zoolens.tracing.comparison import TraceComparison
    from zoolens.tracing.recorded import Recorded
    from zoolens.tracing.roofline.attained import Roofline
    from zoolens.tracing.stored import Trace

_Function = TypeVar("_Function", bound=Callable[..., Any])
LEVELS = ("pipeline", "model", "layer", "library", "system")


def _names(_: click.Context, __: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())


def _exports(function: _Function) -> _Function:
    """Options of commands that can write what they show."""
    for option in (
        click.option("--header", "headers", multiple=True, metavar="NAME:VALUE", help="HTTP header for --otlp."),
        click.option("--otlp", metavar="URL", help="Send the spans to an OpenTelemetry collector (http://host:4318)."),
        click.option("--chrome", type=OUT_FILE, help="Write trace events for Perfetto or chrome://tracing (JSON)."),
        click.option("--html", type=OUT_FILE, help="Write a page with the timeline and all layers."),
    ):
        function = option(function)
    return function


def _outputs(function: _Function) -> _Function:
    """The same, and what more can be said of a model."""
    roofline = click.option(
        "--roofline", is_flag=True, help="Hold each layer against what this machine can do at its best."
    )
    return roofline(_exports(function))


class _TraceGroup(click.Group):
    """`zoolens trace MODEL` is short for `zoolens trace run MODEL`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(name="trace", cls=_TraceGroup)
def command() -> None:
    """Say where the time of a model goes, from a request down to the kernel.

    `zoolens trace MODEL` is short for `zoolens trace run MODEL`.
    """


@command.command()
@click.argument("model")
@click.option("--runtime", "-r", "runtimes", multiple=True, callback=_names, help="Runtimes; default: all that can.")
@click.option(
    "--level",
    "-l",
    type=click.Choice(LEVELS),
    default="layer",
    show_default=True,
    help="How deep to look; each level includes those before it.",
)
@click.option(
    "--data", "-d", default=None, help="Dataset of the inputs, as for `zoolens eval`; default: made-up inputs."
)
@click.option("--limit", type=click.IntRange(1), default=None, help="Use this many inputs of the data.")
@click.option("--seed", type=int, default=None, help="Sample the inputs at random instead of taking the first.")
@click.option("--batch", type=click.IntRange(1), default=1, show_default=True, help="Inputs of one request.")
@click.option("--repeats", type=click.IntRange(1), default=50, show_default=True, help="Repetitions of each level.")
@click.option(
    "--seconds", type=click.FloatRange(0.1), default=10.0, show_default=True, help="Time limit of each level."
)
@click.option("--env", "environments", multiple=True, help="Packages of an isolated environment.")
@click.option("--device", default="cpu", show_default=True, help="Device to run on.")
@click.option("--threads", type=click.IntRange(1), default=None, help="Threads inside the runtime.")
@click.option(
    "--precision", type=click.Choice(["default", "float32"]), default="default", help="Force float32 arithmetic."
)
@click.option("--mode", default="default", help="Runtime mode, such as eager or compiled (torch).")
@click.option("--isolate", is_flag=True, help="Run the model in a process of its own.")
@click.option("--allow-code", is_flag=True, help="Run Python code that the manifest carries.")
@click.option("--top", type=click.IntRange(1), default=15, show_default=True, help="Layers to print.")
@click.option("--resume/--fresh", default=True, help="Keep what was traced (default), or trace all again as a new run.")
@_outputs
@click.option("--traceparent", default=None, help="W3C trace to continue; default: $TRACEPARENT, else a new one.")
@store_option("makes", described="SQLite file or postgresql:// URL. Default: $ZOOLENS_STORE or your data folder.")
@json_option
@trust_option
@wide_option
def run(model: str, **chosen: Any) -> None:
    """Trace MODEL in every runtime asked for.

    The times of each level come from calls in which nothing deeper was observed, and what observing costs is printed.
    What was traced is kept: the same command again only does what is missing.
    """
    from zoolens.catalog.sessions import Wanted
    from zoolens.cli.bars import Bars
    from zoolens.runtimes.base import Options
    from zoolens.store.store import open_store
    from zoolens.tracing.measuring import TraceSettings
    from zoolens.tracing.plan import TracePlan
    from zoolens.tracing.recorder import current_context
    from zoolens.tracing.runner import carry_out
    from zoolens.tracing.spans import Level
    from zoolens.tracing.stored import load_trace

    plan = TracePlan(
        model,
        chosen["data"],
        chosen["limit"],
        chosen["seed"],
        Wanted(
            runtimes=chosen["runtimes"],
            environments=chosen["environments"],
            options=Options(chosen["threads"], chosen["device"], chosen["precision"], chosen["mode"]),
            isolate=chosen["isolate"],
            allow_code=chosen["allow_code"],
        ),
        Level(chosen["level"]),
        chosen["batch"],
        TraceSettings(chosen["repeats"], chosen["seconds"]),
        not chosen["resume"],
        current_context(chosen["traceparent"]),
    )
    with open_store(chosen["store"]) as store:
        with Bars() as bars:
            outcomes = list(carry_out(plan, store, bars))
        traces = [load_trace(outcome.run, store=store) for outcome in outcomes if outcome.run is not None]
        roofs = _roofs(store, traces) if chosen["roofline"] else []
        _show(traces, roofs, top=chosen["top"], as_json=chosen["as_json"])
        _write(store, traces, roofs, chosen)
    for note in (note for outcome in outcomes for note in _notes(outcome)):
        click.echo(f"note: {note}", err=True)
    _fail(outcomes)


def _notes(outcome: Outcome) -> Iterator[str]:
    yield from outcome.notes
    if outcome.skipped:
        yield f"{outcome.title}: skipped, {outcome.skipped}"
    if outcome.kept:
        yield (
            f"{outcome.title}: {', '.join(outcome.kept)} {'was' if len(outcome.kept) == 1 else 'were'} traced by an "
            "earlier command; --fresh traces all again."
        )


def _fail(outcomes: Sequence[Outcome]) -> None:
    """One sentence and an exit code where something that was asked for could not be had."""
    failed = [outcome for outcome in outcomes if outcome.errors]
    for outcome in failed:
        if outcome.run is None:
            click.echo(f"{outcome.title}: {' '.join(outcome.errors)}", err=True)
    if failed:
        raise ZoolensError(f"{len(failed)} of {len(outcomes)} traces lack a level that was asked for; see above.")


@command.command()
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@click.option(
    "--runtime", "-r", "runtimes", multiple=True, callback=_names, help="One runtime for all models, or one for each."
)
@click.option("--data", "-d", default=None, help="Dataset of the inputs of the first model; default: made-up inputs.")
@click.option("--limit", type=click.IntRange(1), default=None, help="Use this many inputs of the data.")
@click.option("--seed", type=int, default=None, help="Sample the inputs at random instead of taking the first.")
@click.option("--batch", type=click.IntRange(1), default=1, show_default=True, help="Inputs of one request.")
@click.option("--repeats", type=click.IntRange(1), default=50, show_default=True, help="Requests.")
@click.option("--seconds", type=click.FloatRange(0.1), default=10.0, show_default=True, help="Time limit.")
@click.option("--device", default="cpu", show_default=True, help="Device to run on.")
@click.option("--threads", type=click.IntRange(1), default=None, help="Threads inside each runtime.")
@click.option("--allow-code", is_flag=True, help="Run Python code that manifests carry.")
@_exports
@click.option("--traceparent", default=None, help="W3C trace to continue; default: $TRACEPARENT, else a new one.")
@store_option("makes", described="SQLite file or postgresql:// URL. Default: $ZOOLENS_STORE or your data folder.")
@json_option
@trust_option
@wide_option
def chain(models: Sequence[str], **chosen: Any) -> None:
    """Trace several models in a row, as one pipeline.

    The answers of each model are the inputs of the next: the output of the same name, or the first that fits. The
    requests are kept as a recording, which `zoolens trace show` shows.
    """
    from zoolens.runtimes.base import Options
    from zoolens.store.store import open_store
    from zoolens.tracing.chain import ChainPlan, trace_chain
    from zoolens.tracing.measuring import TraceSettings

    plan = ChainPlan(
        models,
        chosen["data"],
        chosen["limit"],
        chosen["seed"],
        chosen["runtimes"],
        Options(chosen["threads"], chosen["device"]),
        chosen["allow_code"],
        chosen["batch"],
        TraceSettings(chosen["repeats"], chosen["seconds"]),
        chosen["traceparent"],
    )
    with open_store(chosen["store"]) as store:
        _show_recording(trace_chain(plan, store=store), chosen, as_json=chosen["as_json"])


@command.command()
@click.argument("name", metavar="RUN")
@click.option("--top", type=click.IntRange(1), default=15, show_default=True, help="Layers to print.")
@_outputs
@store_option("reads")
@json_option
@wide_option
def show(name: str, top: int, store: str | None, as_json: bool, **chosen: Any) -> None:
    """Show a trace that is stored, or the recording of an application.

    RUN is the id of its run, MODEL@RUNTIME for the newest one of these, or "last" for the one that was begun last.
    """
    from zoolens.store.store import open_store
    from zoolens.tracing.recorded import is_recording, load_recording
    from zoolens.tracing.stored import find_trace, load_trace

    with open_store(store, must_exist=True) as opened:
        named = find_trace(opened, name)
        if is_recording(named):
            _show_recording(load_recording(named, store=opened), chosen, as_json=as_json)
            return
        traces = [load_trace(named, store=opened)]
        roofs = _roofs(opened, traces) if chosen["roofline"] else []
        _show(traces, roofs, top=top, as_json=as_json)
        _write(opened, traces, roofs, chosen)


def _show_recording(recorded: Recorded, chosen: dict[str, Any], *, as_json: bool) -> None:
    from zoolens.present.terminal import echo_json, echo_prose, make_console, plain
    from zoolens.tracing.recorded import recording_as_data, sentences, steps_table

    if as_json:
        echo_json(recording_as_data(recorded))
    else:
        when = f"run {recorded.run.id[:8]} of {recorded.run.created:%Y-%m-%d %H:%M} UTC"
        make_console().print(f"[bold]{plain(recorded.title)}[/] ({when})")
        _print_table(steps_table(recorded))
        for sentence in sentences(recorded):
            echo_prose(sentence)
    if chosen["html"]:
        from zoolens.tracing.page import recording_page

        chosen["html"].write_text(recording_page(recorded), encoding="utf-8", errors="replace")
        click.echo(f"Wrote {chosen['html']}.", err=True)
    _export([(recorded.step.name, recorded.spans)], chosen)


@command.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--top", type=click.IntRange(1), default=10, show_default=True, help="Differences to print.")
@click.option("--html", type=OUT_FILE, help="Write a page with both traces and all differences.")
@store_option("reads")
@json_option
@wide_option
def compare(a: str, b: str, top: int, html: Path | None, store: str | None, as_json: bool) -> None:
    """Say which layers make the difference between two traces.

    A and B are runs as for `zoolens trace show`: ids, or MODEL@RUNTIME for the newest trace of these. Layers are
    matched by the operators of the file, through what each runtime fuses, or through the graphs where files differ.
    """
    from zoolens.present.terminal import echo_json
    from zoolens.store.store import open_store
    from zoolens.tracing.comparison import compare_traces, comparison_as_data

    with open_store(store, must_exist=True) as opened:
        comparison = compare_traces(a, b, store=opened)
        if html is not None:
            from zoolens.tracing.page import comparison_page
            from zoolens.tracing.stored import spans_of

            sides = (comparison.a, comparison.b)
            spans = [(trace, spans_of(opened, trace.run)) for trace in sides]
            html.write_text(comparison_page(comparison, spans), encoding="utf-8", errors="replace")
            click.echo(f"Wrote {html}.", err=True)
    if as_json:
        echo_json(comparison_as_data(comparison))
    else:
        _print_comparison(comparison, top)


def _print_comparison(comparison: TraceComparison, top: int) -> None:
    from zoolens.present.terminal import echo_prose
    from zoolens.tracing.comparison import comparison_table, sentences

    first, *rest = sentences(comparison)
    echo_prose(first)
    click.echo()
    _print_table(comparison_table(comparison, top))
    click.echo()
    for sentence in rest:
        echo_prose(sentence)


def _roofs(store: Store, traces: Sequence[Trace]) -> list[Roofline]:
    from zoolens.tracing.roofline.attained import roofline

    roofs = []
    for trace in traces:
        try:
            roofs.append(roofline(trace, store=store))
        except ZoolensError as error:
            click.echo(f"No roofline of {trace.title}: {error}", err=True)
    return roofs


def _write(store: Store, traces: Sequence[Trace], roofs: Sequence[Roofline], chosen: dict[str, Any]) -> None:
    """Write what the options ask for; what was written is said on the error stream, since JSON may be on the other."""
    from zoolens.tracing.stored import spans_of

    if not any(chosen[name] for name in ("html", "chrome", "otlp")):
        return
    spans = [(trace, spans_of(store, trace.run)) for trace in traces]
    tables = [(trace.title, table) for trace, by_level in spans for table in by_level.values()]
    if chosen["html"]:
        from zoolens.tracing.page import traces_page

        chosen["html"].write_text(traces_page(spans, roofs=roofs), encoding="utf-8", errors="replace")
        click.echo(f"Wrote {chosen['html']}.", err=True)
    _export(tables, chosen)


def _export(tables: Sequence[tuple[str, pa.Table]], chosen: dict[str, Any]) -> None:
    if chosen["chrome"]:
        from zoolens.tracing.chrome import write_chrome

        write_chrome(chosen["chrome"], tables)
        click.echo(f"Wrote {chosen['chrome']}: open it at https://ui.perfetto.dev.", err=True)
    if chosen["otlp"]:
        from zoolens.tracing.otlp import send_otlp

        sent = send_otlp(chosen["otlp"], tables, _headers(chosen["headers"]))
        click.echo(f"Sent {sent:,} spans to {chosen['otlp']}.", err=True)


def _headers(given: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition(":") for text in given]
    wrong = next((text for text, (name, colon, _) in zip(given, pairs, strict=True) if not name or not colon), None)
    if wrong is not None:
        raise click.BadParameter(f"{wrong!r} is not written as NAME:VALUE.", param_hint="--header")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _show(traces: Sequence[Trace], roofs: Sequence[Roofline], *, top: int, as_json: bool) -> None:
    from zoolens.present.terminal import echo_json
    from zoolens.tracing.report import trace_as_data
    from zoolens.tracing.roofline.chart import roofline_as_data

    if as_json:
        found = {roof.trace.run.id: {"roofline": roofline_as_data(roof)} for roof in roofs}
        echo_json([{**trace_as_data(trace), **found.get(trace.run.id, {})} for trace in traces])
        return
    for place, trace in enumerate(traces):
        if place:
            click.echo()
        _print(trace, top)
    for roof in roofs:
        _print_roof(roof, top)
    _say_why(traces)


def _print_roof(roof: Roofline, top: int) -> None:
    from zoolens.present.terminal import echo_prose
    from zoolens.tracing.roofline.attained import sentences
    from zoolens.tracing.roofline.chart import roofline_table

    click.echo(f"\nRoofline of {roof.trace.title}, batch {roof.trace.batch}")
    _print_table(roofline_table(roof, top))
    for sentence in sentences(roof):
        echo_prose(sentence)


def _say_why(traces: Sequence[Trace]) -> None:
    """Of several traces of one model that have layers: why the slowest takes longer than the quickest."""
    from zoolens.tracing.comparison import compare_traces

    comparable = [trace for trace in traces if trace.layers and trace.unlayered is not None]
    if len(comparable) < 2 or len({trace.run.ref for trace in comparable}) > 1:
        return
    ordered = sorted(comparable, key=lambda trace: trace.unlayered.median if trace.unlayered else 0.0)
    click.echo()
    _print_comparison(compare_traces(ordered[0], ordered[-1]), 10)


def _print(trace: Trace, top: int) -> None:
    from zoolens.present.terminal import echo_prose, make_console, plain
    from zoolens.tracing.report import counters_table, layers_table, levels_table, sentences

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


def _print_table(table: Table) -> None:
    from zoolens.present.tables import cell_words
    from zoolens.present.terminal import print_table

    rows = [[cell_words(column, cell) for column, cell in zip(table.columns, row, strict=True)] for row in table.rows]
    print_table(table.columns, rows)
