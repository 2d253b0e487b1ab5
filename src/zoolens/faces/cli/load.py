"""`zoolens load URL`: measure latency, throughput and goodput of a server under load."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from zoolens.faces.cli.options import OUT_FOLDER, json_option, wide_option
from zoolens.faces.cli.stores import HELP, store_option

if TYPE_CHECKING:
    from zoolens.base.protocol.messages import Parameter
    from zoolens.faces.load.arrivals import Arrivals
    from zoolens.faces.load.driver import DriverSettings
    from zoolens.faces.load.run_load import Clients, Inputs, LoadRun


class Duration(click.ParamType[float]):
    """A time: 50ms, 1.5s, or a number of seconds."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from zoolens.base.errors import ZoolensError
        from zoolens.findings.queries.language.quantities import quantity

        try:
            amount = quantity(float(value) if _is_number(value) else str(value), "latency")
        except ZoolensError as error:
            self.fail(error.message, param, ctx)
        if amount.relative or not 0 < amount.value < float("inf"):
            self.fail(f"{value!r} is not a time; write 50ms or 1.5s.", param, ctx)
        return float(amount.value)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


class Assignment(click.ParamType["tuple[str, str]"]):
    """NAME=VALUE, or NAME:VALUE."""

    def __init__(self, sign: str, name: str) -> None:
        self._sign, self.name = sign, name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, sign, given = str(value).partition(self._sign)
        if not name or not sign or not given:
            self.fail(f"{value!r} is not written as {self.name}.", param, ctx)
        return name, given


@dataclass(frozen=True)
class LoadOptions:
    """The command's options, each under its own name. Times are in seconds."""

    url: str
    model: str
    arrivals: Literal["poisson", "constant", "burst", "trace"]
    rate: float
    duration: float | None
    burst_factor: float
    burst_start: float | None
    burst_length: float | None
    trace: str | None
    trace_unit: str
    speed: float
    clients: int | None
    scenario: str | None
    deadline: float | None
    keep_deadline: bool
    data: str | None
    like: str | None
    limit: int | None
    rows: int
    shapes: tuple[tuple[str, str], ...]
    parameters: tuple[tuple[str, str], ...]
    seed: int
    connections: int
    timeout: float
    warmup: int
    report: Path | None
    store: str | None
    as_json: bool

    @property
    def seconds(self) -> float:
        """How long requests are sent, where no trace says so."""
        return self.duration or 10.0

    def driver(self) -> DriverSettings:
        from zoolens.faces.load.driver import DriverSettings

        return DriverSettings(connections=self.connections, timeout=self.timeout, warmup=self.warmup, seed=self.seed)

    def pattern(self) -> Arrivals | Clients:
        """Return when requests are sent: at times that are known before, or by clients that wait for answers."""
        from zoolens.faces.load import arrivals
        from zoolens.faces.load.run_load import Clients

        if self.clients:
            return Clients(self.clients, self.seconds)
        if self.trace or self.arrivals == "trace":
            return self._replay()
        if self.arrivals == "constant":
            return arrivals.constant(self.rate, self.seconds)
        if self.arrivals == "poisson":
            return arrivals.poisson(self.rate, self.seconds, self.seed)
        return arrivals.burst(
            self.rate,
            self.seconds,
            factor=self.burst_factor,
            start=self.burst_start,
            length=self.burst_length,
            seed=self.seed,
        )

    def _replay(self) -> Arrivals:
        from zoolens.faces.load.arrivals import replay

        if not self.trace:
            raise click.UsageError("Say which trace: --trace FILE.csv, or --trace RUN:SERIES.")
        times = _trace(self.trace, self.trace_unit, self.store)
        return replay(times, speed=self.speed, duration=self.duration, pattern=f"trace {Path(self.trace).name}")

    def inputs(self) -> Inputs:
        from zoolens.faces.load.run_load import Inputs

        shapes = {name: _extents(name, text) for name, text in self.shapes}
        return Inputs(self.data, self.like, self.limit, self.rows, shapes)


@click.command()
@click.argument("url")
@click.option("--model", "-m", default="", help="Model of the server; default: the one in the URL, or the only one.")
@click.option(
    "--arrivals",
    type=click.Choice(["poisson", "constant", "burst", "trace"]),
    default="poisson",
    show_default=True,
    help="When requests are sent, whether or not earlier ones were answered (open loop).",
)
@click.option("--rate", type=float, default=10.0, show_default=True, help="Requests per second.")
@click.option("--duration", "-t", type=Duration(), help="How long requests are sent; default: 10s, or the whole trace.")
@click.option("--burst-factor", type=float, default=3.0, show_default=True, help="How many times the rate a burst has.")
@click.option("--burst-start", type=Duration(), help="When the burst begins; default: after a third of the time.")
@click.option("--burst-length", type=Duration(), help="How long the burst lasts; default: a third of the time.")
@click.option("--trace", help="Times to replay: a CSV file, or RUN:SERIES of the store. Implies --arrivals trace.")
@click.option("--trace-unit", default="s", show_default=True, help="Unit of numbers in a CSV trace: s, ms, us, ns.")
@click.option("--speed", type=float, default=1.0, show_default=True, help="How many times as fast a trace is replayed.")
@click.option(
    "--clients",
    type=click.IntRange(1),
    help="Closed loop instead: this many clients, each of which waits for its answer.",
)
@click.option("--scenario", help="An MLPerf scenario instead: SingleStream, MultiStream, Offline or Server.")
@click.option(
    "--deadline", type=Duration(), help="Answers that come later count for nothing; it is sent to the server."
)
@click.option("--keep-deadline", is_flag=True, help="Do not send the deadline to the server.")
@click.option("--data", "-d", help="Dataset whose samples are sent; default: made-up tensors.")
@click.option("--like", metavar="MODEL", help="Model of the catalog that says how samples are prepared and judged.")
@click.option("--limit", type=click.IntRange(1), help="Number of different inputs; default: 500 of the dataset.")
@click.option("--rows", type=click.IntRange(1), default=1, show_default=True, help="Rows of a made-up request.")
@click.option(
    "--shape",
    "shapes",
    type=Assignment(":", "NAME:3,224,224"),
    multiple=True,
    help="Shape of a made-up input, by its name.",
)
@click.option(
    "--parameter",
    "parameters",
    type=Assignment("=", "NAME=VALUE"),
    multiple=True,
    help="Parameter that is sent with every request.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the arrivals and inputs.")
@click.option(
    "--connections", type=click.IntRange(1, 900), default=256, show_default=True, help="Most requests at a time."
)
@click.option("--timeout", type=Duration(), default="30s", show_default=True, help="How long an answer is waited for.")
@click.option(
    "--warmup",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="Requests that are sent before and not counted.",
)
@click.option("--report", type=OUT_FOLDER, help="Write a page with a chart, the results and every request here.")
@store_option(None, described=f"Keep figures and requests in this store: {HELP}")
@json_option
@wide_option
def command(**options: Any) -> None:
    """Measure latency, throughput and goodput of a model under load, on any server of the Open Inference Protocol V2.

    URL is http://host:port or grpc://host:port, with /v2/models/NAME where the server has several models. Latencies
    count from the time at which a request was meant to be sent. If the driver itself is late, the run is marked as
    invalid and the command ends with 1.

    \b
    zoolens load http://127.0.0.1:8000 --rate 50 --duration 30s --deadline 50ms
    zoolens load grpc://127.0.0.1:8001 --arrivals burst --rate 50 --burst-factor 3 --report out
    """
    chosen = LoadOptions(**options)
    try:
        valid = _run_scenario(chosen, chosen.scenario) if chosen.scenario else _run_load(chosen)
    except KeyboardInterrupt as interrupt:
        raise type(interrupt)("Figures of a part of the load would mislead, so nothing of it was kept.") from None
    if not valid:
        click.get_current_context().exit(1)


def _run_load(chosen: LoadOptions) -> bool:
    """Put load on the server, show what came back, and return whether the run is valid."""
    from zoolens.faces.cli.stores import check_store
    from zoolens.faces.load.run_load import run_load

    settings = chosen.driver()
    if chosen.store is not None:
        check_store(chosen.store, "makes")
    run = run_load(
        chosen.url,
        chosen.pattern(),
        model=chosen.model,
        inputs=chosen.inputs(),
        deadline=chosen.deadline,
        send_deadline=not chosen.keep_deadline,
        parameters={name: _value(text) for name, text in chosen.parameters},
        settings=settings,
        watch=None if chosen.as_json else _watch,
    )
    _show(run, as_json=chosen.as_json)
    if chosen.report is not None:
        from zoolens.faces.load.report import write_report

        written = write_report(run, chosen.report)
        click.echo(f"Written: {', '.join(map(str, written))}", err=True)
    if chosen.store is not None:
        _keep(run, chosen.store)
    return run.results.valid


def _trace(named: str, unit: str, store: str | None) -> Any:
    from zoolens.base.store.store import borrowed_store
    from zoolens.faces.load.arrivals import read_stored_trace, read_trace

    run, colon, series = named.partition(":")
    if Path(named).exists() or not colon:
        return read_trace(Path(named), unit=unit)
    with borrowed_store(store, must_exist=True) as opened:
        return read_stored_trace(opened, run, series)


def _extents(name: str, text: str) -> tuple[int, ...]:
    extents = text.split(",")
    if not all(extent.strip().isdecimal() for extent in extents):
        raise click.UsageError(f"{text!r} is not a shape; write --shape {name}:3,224,224.")
    return tuple(int(extent) for extent in extents)


def _value(text: str) -> Parameter:
    """A parameter as the protocol has it: true, false, a number, or text."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _watch(done: int, seconds: float) -> None:
    import sys

    if sys.stderr.isatty():
        click.echo(f"\r{seconds:6.0f} s  {done:,} answers", err=True, nl=False)


def _show(run: LoadRun, *, as_json: bool) -> None:
    from zoolens.base.present.terminal import echo_json, make_console, plain, print_table
    from zoolens.faces.load.report import models_table, outcomes_table, percentiles_table, run_as_data, sentences

    if as_json:
        echo_json(run_as_data(run))
        return
    console, results, target = make_console(), run.results, run.target
    console.print(
        f"[bold]{plain(target.model.name)}[/] at {plain(target.address)} "
        f"({plain(target.server.name)} {plain(target.server.version)})"
    )
    for sentence in sentences(run):
        console.print(plain(sentence))
    tables = [percentiles_table(results)]
    if results.models:
        tables.append(models_table(results))
    if len(results.outcomes) > 1 or not results.models:
        tables.append(outcomes_table(results))
    for table in tables:
        console.print()
        print_table(table.columns, table.words())
    for note in results.notes:
        console.print(f"[dim]note: {plain(note)}[/]")
    for reason in results.invalid:
        console.print(f"[red]This run is not valid:[/] {plain(reason)}")


def _keep(run: LoadRun, store: str) -> None:
    from zoolens.base.store.store import open_store
    from zoolens.faces.load.stored import store_run

    with open_store(store) as opened:
        click.echo(f"Stored as run {store_run(opened, run).id[:8]}.", err=True)


def _run_scenario(chosen: LoadOptions, name: str) -> bool:
    """Let MLPerf's load generator run a scenario, show its summary, and return whether the run is valid."""
    from zoolens.base.present.terminal import echo_json, make_console, plain
    from zoolens.faces.load.mlperf import Scenario, run_scenario

    # Its limits hold for every run, although the generator has a driver of its own.
    chosen.driver()
    scenario = Scenario(name, chosen.seconds, chosen.rate, chosen.deadline, chosen.seed)
    result = run_scenario(chosen.url, scenario, model=chosen.model, inputs=chosen.inputs(), folder=chosen.report)
    if chosen.as_json:
        echo_json(asdict(result))
        return result.valid
    console = make_console()
    console.print(f"[bold]MLPerf {plain(result.scenario)}[/]: {'VALID' if result.valid else 'INVALID'}")
    for label, value in result.summary.items():
        console.print(f"  {plain(label)}: {plain(value)}")
    for note in result.notes:
        console.print(f"[dim]note: {plain(note)}[/]")
    return result.valid
