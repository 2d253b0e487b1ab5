"""`zoolens trace`: where the time of a model goes, from a request down to the kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from zoolens.base.errors import ZoolensError
from zoolens.faces.cli.completed_names import complete_models, complete_runs
from zoolens.faces.cli.options import (
    OUT_FILE,
    json_option,
    listed_names,
    on_option,
    shape_option,
    trust_option,
    wide_option,
)
from zoolens.faces.cli.stores import store_option
from zoolens.faces.cli.trace_output import (
    print_comparison,
    rooflines,
    show_recording,
    show_traces,
    write_traces,
)

if TYPE_CHECKING:
    from zoolens.findings.measure.plan import Outcome

_Function = TypeVar("_Function", bound=Callable[..., Any])
LEVELS = ("pipeline", "model", "layer", "library", "system")


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
    """Add the options that say where the spans go, and `--roofline`."""
    roofline = click.option(
        "--roofline", is_flag=True, help="Compare each layer with this machine's peak performance (roofline)."
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
@click.argument("model", shell_complete=complete_models)
@click.option(
    "--runtime",
    "-r",
    "runtimes",
    multiple=True,
    callback=listed_names,
    help="Runtimes; default: all that can run the model.",
)
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
@click.option("--limit", type=click.IntRange(1), default=None, help="Use this many inputs of the dataset.")
@click.option("--seed", type=int, default=None, help="Sample the inputs at random instead of taking the first.")
@click.option("--batch", type=click.IntRange(1), default=1, show_default=True, help="Number of inputs of one request.")
@shape_option
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
@click.option("--top", type=click.IntRange(1), default=15, show_default=True, help="Number of layers to print.")
@click.option("--resume/--fresh", default=True, help="Keep what was traced (default), or trace all again as a new run.")
@_outputs
@click.option("--traceparent", default=None, help="W3C trace to continue; default: $TRACEPARENT, else a new one.")
@store_option("makes", described="SQLite file or postgresql:// URL. Default: $ZOOLENS_STORE or your data folder.")
@json_option
@on_option
@trust_option
@wide_option
def run(model: str, **chosen: Any) -> None:
    """Trace MODEL in every runtime asked for.

    The times of each level come from calls in which nothing deeper was observed, and what observing costs is printed.
    What was traced is kept: the same command again only does what is missing.
    """
    from zoolens.base.present.bars import Bars
    from zoolens.base.store.store import open_store
    from zoolens.findings.tracing.measuring import TraceSettings
    from zoolens.findings.tracing.recorder import current_context
    from zoolens.findings.tracing.spans import Level
    from zoolens.findings.tracing.stored import load_trace
    from zoolens.findings.tracing.trace_jobs import carry_out
    from zoolens.findings.tracing.trace_plan import TracePlan
    from zoolens.inventory.catalog.sessions import RunOptions
    from zoolens.inventory.runtimes.runtime import Options

    plan = TracePlan(
        model,
        chosen["data"],
        chosen["limit"],
        chosen["seed"],
        RunOptions(
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
        chosen["extents"],
    )
    with open_store(chosen["store"]) as store:
        with Bars() as bars:
            outcomes = list(carry_out(plan, store, bars))
        traces = [load_trace(outcome.run, store=store) for outcome in outcomes if outcome.run is not None]
        roofs = rooflines(store, traces) if chosen["roofline"] else []
        show_traces(traces, roofs, top=chosen["top"], as_json=chosen["as_json"])
        write_traces(store, traces, roofs, chosen)
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
@click.argument("models", metavar="MODEL...", nargs=-1, required=True, shell_complete=complete_models)
@click.option(
    "--runtime",
    "-r",
    "runtimes",
    multiple=True,
    callback=listed_names,
    help="One runtime for all models, or one for each.",
)
@click.option("--data", "-d", default=None, help="Dataset of the inputs of the first model; default: made-up inputs.")
@click.option("--limit", type=click.IntRange(1), default=None, help="Use this many inputs of the dataset.")
@click.option("--seed", type=int, default=None, help="Sample the inputs at random instead of taking the first.")
@click.option("--batch", type=click.IntRange(1), default=1, show_default=True, help="Number of inputs of one request.")
@click.option("--repeats", type=click.IntRange(1), default=50, show_default=True, help="Number of requests.")
@click.option("--seconds", type=click.FloatRange(0.1), default=10.0, show_default=True, help="Time limit in seconds.")
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
    from zoolens.base.present.bars import Bars
    from zoolens.base.store.store import open_store
    from zoolens.findings.tracing.chain import ChainPlan, trace_chain
    from zoolens.findings.tracing.measuring import TraceSettings
    from zoolens.inventory.runtimes.runtime import Options

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
        with Bars() as bars:
            recorded = trace_chain(plan, store=store, progress=bars)
        show_recording(recorded, chosen, as_json=chosen["as_json"])


@command.command()
@click.argument("model", shell_complete=complete_models)
@click.option("--runtime", "-r", default=None, help="Runtime; default: one in which the model writes.")
@click.option(
    "--level",
    "-l",
    type=click.Choice(LEVELS[1:4]),
    default="layer",
    show_default=True,
    help="How deep to look into each phase; each level includes those before it.",
)
@click.option("--data", "-d", default=None, help="Dataset whose first text is the prompt; default: random tokens.")
@click.option(
    "--prompt", type=click.IntRange(1), default=128, show_default=True, help="Tokens of the prompt, or at most so many."
)
@click.option("--tokens", type=click.IntRange(1), default=16, show_default=True, help="Tokens behind the prompt.")
@click.option("--repeats", type=click.IntRange(1), default=20, show_default=True, help="Repetitions of each phase.")
@click.option(
    "--seconds", type=click.FloatRange(0.1), default=10.0, show_default=True, help="Time limit of each phase."
)
@click.option("--device", default="cpu", show_default=True, help="Device to run on.")
@click.option("--threads", type=click.IntRange(1), default=None, help="Threads inside the runtime.")
@click.option("--mode", default="default", help="Runtime mode, such as eager (torch).")
@click.option("--allow-code", is_flag=True, help="Run Python code that the manifest carries.")
@click.option("--top", type=click.IntRange(1), default=15, show_default=True, help="Number of layers to print.")
@_exports
@click.option("--traceparent", default=None, help="W3C trace to continue; default: $TRACEPARENT, else a new one.")
@store_option("makes", described="SQLite file or postgresql:// URL. Default: $ZOOLENS_STORE or your data folder.")
@json_option
@trust_option
@wide_option
def write(model: str, **chosen: Any) -> None:
    """Trace a language model while it writes: its prompt and its further tokens apart.

    Whole requests are recorded token by token. Then each phase is repeated alone, with its layers where the runtime
    can be profiled. It is kept as a recording, which `zoolens trace show` shows.
    """
    from zoolens.base.present.bars import Bars
    from zoolens.base.store.store import open_store
    from zoolens.findings.tracing.measuring import TraceSettings
    from zoolens.findings.tracing.spans import Level
    from zoolens.findings.tracing.writing import WritingPlan, trace_writing
    from zoolens.inventory.runtimes.runtime import Options

    plan = WritingPlan(
        model,
        chosen["data"],
        chosen["prompt"],
        chosen["tokens"],
        Level(chosen["level"]),
        chosen["runtime"],
        Options(chosen["threads"], chosen["device"], mode=chosen["mode"]),
        chosen["allow_code"],
        TraceSettings(chosen["repeats"], chosen["seconds"]),
        chosen["traceparent"],
    )
    with open_store(chosen["store"]) as store:
        with Bars() as bars:
            recorded = trace_writing(plan, store=store, progress=bars)
        show_recording(recorded, chosen, as_json=chosen["as_json"])


@command.command()
@click.argument("name", metavar="RUN", shell_complete=complete_runs)
@click.option("--top", type=click.IntRange(1), default=15, show_default=True, help="Number of layers to print.")
@_outputs
@store_option("reads")
@json_option
@wide_option
def show(name: str, top: int, store: str | None, as_json: bool, **chosen: Any) -> None:
    """Show a trace that is stored, or the recording of an application.

    RUN is the id of its run, MODEL@RUNTIME for the newest one of these, or "last" for the one that was begun last.
    """
    from zoolens.base.store.store import open_store
    from zoolens.findings.tracing.stored import find_trace, load_trace
    from zoolens.findings.tracing.stored_recording import is_recording, load_recording

    with open_store(store, must_exist=True) as opened:
        named = find_trace(opened, name)
        if is_recording(named):
            show_recording(load_recording(named, store=opened), {**chosen, "top": top}, as_json=as_json)
            return
        traces = [load_trace(named, store=opened)]
        roofs = rooflines(opened, traces) if chosen["roofline"] else []
        show_traces(traces, roofs, top=top, as_json=as_json)
        write_traces(opened, traces, roofs, chosen)


@command.command()
@click.argument("a", metavar="A", shell_complete=complete_runs)
@click.argument("b", metavar="B", shell_complete=complete_runs)
@click.option("--top", type=click.IntRange(1), default=10, show_default=True, help="Number of differences to print.")
@click.option("--html", type=OUT_FILE, help="Write a page with both traces and all differences.")
@store_option("reads")
@json_option
@wide_option
def compare(a: str, b: str, top: int, html: Path | None, store: str | None, as_json: bool) -> None:
    """Say which layers make the difference between two traces.

    A and B are runs as for `zoolens trace show`: ids, or MODEL@RUNTIME for the newest trace of these. Layers are
    matched by the operators of the file, through what each runtime fuses, or through the graphs where files differ.
    """
    from zoolens.base.present.bars import spinner
    from zoolens.base.present.terminal import echo_json
    from zoolens.base.store.store import open_store
    from zoolens.findings.tracing.comparison import compare_traces, comparison_as_data

    with open_store(store, must_exist=True) as opened:
        with spinner(f"{a} and {b}", "match layers"):
            comparison = compare_traces(a, b, store=opened)
        if html is not None:
            from zoolens.findings.tracing.stored import spans_of
            from zoolens.findings.tracing.trace_page import comparison_page

            sides = (comparison.a, comparison.b)
            spans = [(trace, spans_of(opened, trace.run)) for trace in sides]
            html.write_text(comparison_page(comparison, spans), encoding="utf-8", errors="replace")
            click.echo(f"Wrote {html}.", err=True)
    if as_json:
        echo_json(comparison_as_data(comparison))
    else:
        print_comparison(comparison, top)
