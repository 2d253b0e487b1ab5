"""`zoolens serve MODEL…`: answer requests of the Open Inference Protocol V2 until it is told to stop."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoolens.base.errors import ZoolensError
from zoolens.base.present.terminal import echo_json
from zoolens.faces.cli.options import Bytes, json_option, trust_option
from zoolens.faces.cli.stores import check_store, store_option

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zoolens.faces.serving.options import ServerOptions
    from zoolens.faces.serving.plane.plane_settings import EndpointSettings, ModelSpec
    from zoolens.faces.serving.server import Server
    from zoolens.faces.serving.services.service_ladder import ServiceLadder

_HIGHEST_PORT = 65535
_FILE = click.Path(dir_okay=False, path_type=Path)


class Port(click.ParamType["int | None"]):
    """A port, 0 for a free one, or off."""

    name = "PORT|off"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value in (None, "off"):
            return None
        if not str(value).isdecimal() or int(value) > _HIGHEST_PORT:
            self.fail(f"{value!r} is no port; write a number up to {_HIGHEST_PORT}, 0, or off.", param, ctx)
        return int(value)


@click.command()
@click.argument("models", nargs=-1, required=True, metavar="MODEL…")
@click.option("--http", type=Port(), default=8000, show_default=True, help="Port of REST; 0 takes a free one.")
@click.option("--grpc", type=Port(), default=8001, show_default=True, help="Port of gRPC; 0 takes a free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on. Others need a token.")
@click.option("--token-file", type=_FILE, help="File with the token that clients send. Or set ZOOLENS_SERVE_TOKEN.")
@click.option("--insecure", is_flag=True, help="Listen on an address that others reach without asking for a token.")
@click.option("--tls-cert", type=_FILE, help="Certificate (PEM), with its chain.")
@click.option("--tls-key", type=_FILE, help="Key of the certificate (PEM).")
@click.option("--runtime", "-r", help="Runtime of the models; default: the first that can open each.")
@click.option("--env", "environment", default="", help="Packages of an isolated environment: mxnet==1.9.1,numpy<1.24.")
@click.option("--device", default="cpu", show_default=True, help="Device to run on.")
@click.option("--threads", type=click.IntRange(1), help="Threads inside the runtime.")
@click.option("--allow-code", is_flag=True, help="Run Python code that manifests carry (in a process of its own).")
@click.option(
    "--batch", "max_batch", type=click.IntRange(1), default=64, show_default=True, help="Most rows of a batch."
)
@click.option(
    "--batching",
    type=click.Choice(["auto", "off", "force"]),
    default="auto",
    show_default=True,
    help="Batch models that answer in a batch as they do alone (auto), none, or all.",
)
@click.option(
    "--batch-delay", type=click.FloatRange(0), default=0.0, show_default=True, help="Milliseconds to wait for a batch."
)
@click.option("--concurrency", type=click.IntRange(1), default=1, show_default=True, help="Processes of each model.")
@click.option("--queue", type=click.IntRange(1), default=1000, show_default=True, help="Most requests that wait.")
@click.option(
    "--call-limit",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds that a model may take for one batch before its process is started again.",
)
@click.option("--memory", type=Bytes(), help="Memory of all models; the least used are closed beyond it.")
@click.option("--max-request", type=Bytes(), default="64 MiB", show_default=True, help="Largest body of a request.")
@click.option(
    "--drain",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    help="Seconds that running requests may take when the server stops.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of the logs on stderr.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="What is logged; debug also logs every batch and every refusal.",
)
@click.option(
    "--on", type=click.Choice(["local", "ray"]), default="local", show_default=True,
    help="Answer here, or on the Ray cluster of RAY_ADDRESS (without it: one on this machine).",
)  # fmt: skip
@click.option(
    "--replicas", metavar="N|MIN:MAX", help="Replicas on the cluster; MIN:MAX follows the load.  [default: 2]"
)
@click.option("--check", is_flag=True, help="Explain which models a file of services would use, and serve nothing.")
@click.option("--freeze", type=_FILE, help="With --check: write the ladders to this file, for the key `ladder`.")
@click.option(
    "--fail-on", "fail_on", type=click.Choice(["unknown"]),
    help="With --check: exit with 4 if it is not known of any measured model whether it is equivalent.",
)  # fmt: skip
@store_option(None, described="Store that services ask and record in: SQLite file or postgresql:// URL.")
@json_option
@trust_option
def command(models: tuple[str, ...], check: bool, as_json: bool, **options: Any) -> None:
    """Serve models over REST and gRPC, to any client of the Open Inference Protocol V2 (KServe, Triton).

    MODEL is a model's name or file, NAME=MODEL to serve it under another name, or a file of services (YAML) that
    switch between equivalent models.

    \b
    zoolens serve demo:lenet-torch
    zoolens serve digits=demo:lenet-torch --http 9000 --grpc off
    zoolens serve service.yaml --check
    zoolens serve service.yaml --check --freeze ladders.json
    zoolens serve service.yaml --on ray --replicas 1:4
    """
    from zoolens.faces.serving.server import run

    plain, services = _sorted(models)
    if services:
        check_store(options["store"], "reads")
    if check:
        _check(plain, services, options, as_json)
        return
    if options["freeze"] or options["fail_on"]:
        raise click.UsageError("--freeze and --fail-on belong to --check.")
    if options["replicas"] and options["on"] == "local":
        raise click.UsageError("--replicas needs a cluster: add --on ray. Here --concurrency has more processes.")
    from zoolens.faces.serving.monitoring.logs import logging_to_stderr

    with logging_to_stderr(options["log_format"], options["log_level"]):
        asked = (_specs(plain, options), services, _server_options(options), _settings(options))
        live = options["log_format"] == "text" and options["log_level"] != "debug"
        if options["on"] == "ray":
            serving = _serve_on_ray(*asked, options["memory"], options["store"], options["replicas"], live=live)
        else:
            serving = _serve(*asked, options["memory"], options["store"], live=live)
        try:
            run(serving)
        except KeyboardInterrupt as interrupt:
            words = "The server ended at once; requests that it had not answered by then got an error."
            raise type(interrupt)(words) from None
    click.echo("Stopped.")


async def _serve(
    models: Sequence[ModelSpec],
    services: Sequence[Path],
    options: ServerOptions,
    settings: EndpointSettings,
    memory: int | None,
    store: str | None,
    *,
    live: bool,
) -> None:
    from zoolens.faces.serving.monitoring.live_line import live_line
    from zoolens.faces.serving.monitoring.metrics import PlaneMetrics
    from zoolens.faces.serving.serve import running

    metrics = PlaneMetrics()
    _note("Loading the models …")
    async with running(
        models, options, settings, services=services, memory_limit=memory, store=store, metrics=metrics
    ) as server:
        await _until_stopped(server, partial(live_line, metrics) if live else None)


async def _serve_on_ray(
    models: Sequence[ModelSpec],
    services: Sequence[Path],
    options: ServerOptions,
    settings: EndpointSettings,
    memory: int | None,
    store: str | None,
    replicas: str | None,
    *,
    live: bool,
) -> None:
    from zoolens.faces.serving.cluster.cluster_plan import ReplicaCount
    from zoolens.faces.serving.cluster.metrics import ClusterMetrics
    from zoolens.faces.serving.cluster.ray import RaySettings, running_on_ray

    cluster = RaySettings(replicas=ReplicaCount.parse(replicas) if replicas else ReplicaCount())
    metrics = ClusterMetrics()
    _note("Starting the replicas …")
    async with running_on_ray(
        models, options, settings, services=services, memory_limit=memory, store=store, cluster=cluster, metrics=metrics
    ) as server:
        await _until_stopped(server, metrics.line if live else None)


async def _until_stopped(server: Server, line: Callable[[], str] | None) -> None:
    """Say where the server listens, and keep its line up to date until a signal comes."""
    import asyncio
    import gc

    from zoolens.faces.serving.monitoring.live_line import show_live_line
    from zoolens.faces.serving.server import stop_signal

    stopped = asyncio.ensure_future(stop_signal())
    await asyncio.sleep(0)  # from here on a signal drains
    # Short commands hardly ever look for cycles (see `main`). A server lives for months: what it has loaded is left
    # out, and what requests leave behind is looked through often.
    gc.freeze()
    gc.set_threshold(10_000)
    _show(server)
    showing = asyncio.ensure_future(show_live_line(line)) if line is not None else None
    await stopped
    if showing is not None:
        showing.cancel()
        await asyncio.wait([showing])
    _note("Draining: requests that were accepted are answered.")


def _show(server: Server) -> None:
    for entry in server.plane.repository():
        click.echo(
            f"{entry.name}, version {entry.version}: {entry.state}{f' ({entry.reason})' if entry.reason else ''}"
        )
    names = {"http": "REST", "grpc": "gRPC"}
    for transport, url in server.urls.items():
        click.echo(f"{names[transport]}: {url}{'/v2' if transport == 'http' else ''}")
    _note("Stop with Ctrl-C.")


def _note(sentence: str) -> None:
    """A sentence for whoever started the server, on the error stream: a line of the log where that is JSON."""
    from zoolens.faces.serving.monitoring.logs import log, writes_json

    if writes_json():
        log.info(sentence)
    else:
        click.echo(sentence, err=True)


def _check(models: Sequence[str], services: Sequence[Path], options: dict[str, Any], as_json: bool) -> None:
    """Explain the ladder of every service. Models that were never timed here are timed for it, and that is stored. The
    exit code is that of the verdict: 1 where a service cannot keep what it promises, 4 where that is not known."""
    import sys

    from zoolens.base.present.bars import Bars
    from zoolens.base.verdicts import combined, refuse_unknown
    from zoolens.faces.cli.ladders import print_ladder
    from zoolens.faces.serving.services.hosting import build_ladders, read_service_files
    from zoolens.faces.serving.services.ladder_verdict import candidates_verdict, checked_data, ladder_verdict

    if models:
        raise click.UsageError(f"--check explains files of services; {models[0]} is a model.")
    defined = read_service_files(services)
    with Bars() as bars:
        built = build_ladders(defined, options["store"], bars)
    if options["freeze"] is not None:
        _freeze(built, options["freeze"])
    if as_json:
        echo_json({name: checked_data(ladder) for name, ladder in built.items()})
    else:
        for number, (name, ladder) in enumerate(built.items()):
            if number:
                click.echo()
            print_ladder(name, ladder)
    if options["fail_on"] == "unknown":
        for name, ladder in built.items():
            refuse_unknown(candidates_verdict(ladder), f"the models of the service {name}")
    outcome = combined(ladder_verdict(ladder).verdict for ladder in built.values()).outcome
    if outcome.exit_code:
        sys.exit(outcome.exit_code)


def _freeze(built: Mapping[str, ServiceLadder], path: Path) -> None:
    import json

    from zoolens.faces.serving.services.frozen_ladder import frozen_data

    try:
        path.write_text(json.dumps(frozen_data(built), indent=2) + "\n")
    except OSError as error:
        raise ZoolensError(f"The ladders cannot be written to {path}: {error.strerror or error}.") from error


def _sorted(arguments: tuple[str, ...]) -> tuple[list[str], list[Path]]:
    """Models, and files of services: YAML with the key `services`, which no manifest has."""
    for argument in arguments:
        if argument.endswith((".yaml", ".yml")) and "=" not in argument and not Path(argument).exists():
            raise ZoolensError(f"There is no file {argument}.", hint="Check the path.")
    services = [Path(argument) for argument in arguments if _is_service_file(argument)]
    return [argument for argument in arguments if not _is_service_file(argument)], services


def _is_service_file(argument: str) -> bool:
    from zoolens.base.safety.untrusted import is_file, read_text

    path = Path(argument)
    if path.suffix not in (".yaml", ".yml") or not is_file(path):
        return False
    try:
        lines = read_text(path, 1 << 20).splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    return any(line.startswith("services:") for line in lines)


def _specs(models: Sequence[str], options: dict[str, Any]) -> list[ModelSpec]:
    from zoolens.faces.serving.plane.plane_settings import ModelSpec
    from zoolens.inventory.runtimes.runtime import Options

    how = Options(threads=options["threads"], device=options["device"])
    return [
        ModelSpec(model, options["runtime"], how, options["environment"], options["allow_code"]) for model in models
    ]


def _settings(options: dict[str, Any]) -> EndpointSettings:
    from zoolens.faces.serving.plane.plane_settings import EndpointSettings

    return EndpointSettings(
        max_batch=options["max_batch"],
        max_delay=options["batch_delay"] / 1000,
        max_queue=options["queue"],
        concurrency=options["concurrency"],
        batching=options["batching"],
        call_limit=options["call_limit"],
    )


def _server_options(options: dict[str, Any]) -> ServerOptions:
    from zoolens.base.protocol.limits import Limits
    from zoolens.faces.serving.options import ServerOptions, Tls, read_token

    if (options["tls_cert"] is None) != (options["tls_key"] is None):
        raise click.UsageError("TLS needs both --tls-cert and --tls-key.")
    return ServerOptions(
        host=options["host"],
        http_port=options["http"],
        grpc_port=options["grpc"],
        token=read_token(options["token_file"]),
        insecure=options["insecure"],
        tls=Tls(options["tls_cert"], options["tls_key"]) if options["tls_cert"] else None,
        limits=Limits(body_bytes=options["max_request"], tensor_bytes=options["max_request"]),
        drain_seconds=options["drain"],
    )
