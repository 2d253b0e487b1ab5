"""`zoolens serve MODEL…`: answer requests of the Open Inference Protocol V2 until it is told to stop."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from zoolens.base.errors import ZoolensError
from zoolens.faces.cli.completed_names import complete_models
from zoolens.faces.cli.options import Bytes, json_option, trust_option
from zoolens.faces.cli.stores import check_store, store_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from zoolens.faces.serving.cluster.ray import RaySettings
    from zoolens.faces.serving.options import ServerOptions
    from zoolens.faces.serving.plane.plane_settings import Batching, EndpointSettings, ModelSpec
    from zoolens.faces.serving.serve_request import ServeRequest
    from zoolens.faces.serving.server import Server

_HIGHEST_PORT = 65535
_FILE = click.Path(dir_okay=False, path_type=Path)


class Port(click.ParamType["int | None"]):
    """A port, 0 for a free one, or off."""

    name = "PORT|off"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value in (None, "off"):
            return None
        if not str(value).isdecimal() or int(value) > _HIGHEST_PORT:
            self.fail(f"{value!r} is not a port; write a number up to {_HIGHEST_PORT}, 0, or off.", param, ctx)
        return int(value)


@dataclass(frozen=True)
class ServeOptions:
    """The command's options, each under its own name."""

    models: tuple[str, ...]
    http: int | None
    grpc: int | None
    host: str
    token_file: Path | None
    insecure: bool
    tls_cert: Path | None
    tls_key: Path | None
    runtime: str | None
    environment: str
    device: str
    threads: int | None
    allow_code: bool
    max_batch: int
    batching: Batching
    batch_delay: float  # milliseconds
    concurrency: int
    queue: int
    call_limit: float
    memory: int | None
    max_request: int
    drain: float
    log_format: Literal["text", "json"]
    log_level: str
    on: Literal["local", "ray"]
    replicas: str | None
    check: bool
    freeze: Path | None
    fail_on: Literal["unknown"] | None
    store: str | None
    as_json: bool

    @property
    def has_live_line(self) -> bool:
        """Whether the terminal's last line is free: with `debug` each batch would push it away."""
        return self.log_format == "text" and self.log_level != "debug"

    def request(self) -> ServeRequest:
        """Return what is to be served, in the server's own types."""
        from zoolens.faces.serving.serve_request import ServeRequest

        models, services = split_arguments(self.models)
        return ServeRequest(
            models=[self._spec(model) for model in models],
            options=self._server_options(),
            settings=self._endpoint_settings(),
            services=services,
            memory_limit=self.memory,
            store=self.store,
        )

    def cluster(self) -> RaySettings:
        from zoolens.faces.serving.cluster.cluster_plan import ReplicaCount
        from zoolens.faces.serving.cluster.ray import RaySettings

        replicas = ReplicaCount.parse(self.replicas) if self.replicas else ReplicaCount()
        return RaySettings(replicas=replicas)

    def _spec(self, model: str) -> ModelSpec:
        from zoolens.faces.serving.plane.plane_settings import ModelSpec
        from zoolens.inventory.runtimes.runtime import Options

        how = Options(threads=self.threads, device=self.device)
        return ModelSpec(model, self.runtime, how, self.environment, self.allow_code)

    def _endpoint_settings(self) -> EndpointSettings:
        from zoolens.faces.serving.plane.plane_settings import EndpointSettings

        return EndpointSettings(
            max_batch=self.max_batch,
            max_delay=self.batch_delay / 1000,
            max_queue=self.queue,
            concurrency=self.concurrency,
            batching=self.batching,
            call_limit=self.call_limit,
        )

    def _server_options(self) -> ServerOptions:
        from zoolens.base.protocol.limits import Limits
        from zoolens.faces.serving.options import ServerOptions, Tls, read_token

        if (self.tls_cert is None) != (self.tls_key is None):
            raise click.UsageError("TLS needs both --tls-cert and --tls-key.")
        tls = None
        if self.tls_cert is not None and self.tls_key is not None:
            tls = Tls(self.tls_cert, self.tls_key)
        return ServerOptions(
            host=self.host,
            http_port=self.http,
            grpc_port=self.grpc,
            token=read_token(self.token_file),
            insecure=self.insecure,
            tls=tls,
            limits=Limits(body_bytes=self.max_request, tensor_bytes=self.max_request),
            drain_seconds=self.drain,
        )


@click.command()
@click.argument("models", nargs=-1, required=True, metavar="MODEL…", shell_complete=complete_models)
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
def command(**options: Any) -> None:
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
    chosen = ServeOptions(**options)
    models, services = split_arguments(chosen.models)
    if services:
        check_store(chosen.store, "reads")
    if chosen.check:
        from zoolens.faces.cli.serve_check import check_services

        if models:
            raise click.UsageError(f"--check explains files of services; {models[0]} is a model.")
        check_services(
            services,
            chosen.store,
            freeze=chosen.freeze,
            refuse_unknowns=chosen.fail_on == "unknown",
            as_json=chosen.as_json,
        )
        return
    if chosen.freeze or chosen.fail_on:
        raise click.UsageError("--freeze and --fail-on belong to --check.")
    if chosen.replicas and chosen.on == "local":
        raise click.UsageError("--replicas needs a cluster: add --on ray. Here --concurrency has more processes.")
    _serve_until_stopped(chosen)
    click.echo("Stopped.")


def _serve_until_stopped(chosen: ServeOptions) -> None:
    from zoolens.faces.serving.monitoring.logs import logging_to_stderr
    from zoolens.faces.serving.server import run

    with logging_to_stderr(chosen.log_format, chosen.log_level):
        request = chosen.request()
        serving = _serve_on_ray(request, chosen) if chosen.on == "ray" else _serve(request, chosen)
        try:
            run(serving)
        except KeyboardInterrupt as interrupt:
            words = "The server ended at once; requests that it had not answered by then got an error."
            raise type(interrupt)(words) from None


async def _serve(request: ServeRequest, chosen: ServeOptions) -> None:
    from zoolens.faces.serving.monitoring.live_line import live_line
    from zoolens.faces.serving.monitoring.metrics import PlaneMetrics
    from zoolens.faces.serving.serve import running

    metrics = PlaneMetrics()
    _note("Loading the models …")
    async with running(request, metrics) as server:
        await _until_stopped(server, partial(live_line, metrics) if chosen.has_live_line else None)


async def _serve_on_ray(request: ServeRequest, chosen: ServeOptions) -> None:
    from zoolens.faces.serving.cluster.metrics import ClusterMetrics
    from zoolens.faces.serving.cluster.ray import running_on_ray

    metrics = ClusterMetrics()
    _note("Starting the replicas …")
    async with running_on_ray(request, chosen.cluster(), metrics) as server:
        await _until_stopped(server, metrics.line if chosen.has_live_line else None)


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
        reason = f" ({entry.reason})" if entry.reason else ""
        click.echo(f"{entry.name}, version {entry.version}: {entry.state}{reason}")
    names = {"http": "REST", "grpc": "gRPC"}
    for transport, url in server.urls.items():
        path = "/v2" if transport == "http" else ""
        click.echo(f"{names[transport]}: {url}{path}")
        if transport == "http" and server.writers:
            click.echo(f"OpenAI: {url}/v1")
    _note("Stop with Ctrl-C.")


def _note(sentence: str) -> None:
    """A sentence for whoever started the server, on the error stream: a line of the log where that is JSON."""
    from zoolens.faces.serving.monitoring.logs import log, writes_json

    if writes_json():
        log.info(sentence)
    else:
        click.echo(sentence, err=True)


def split_arguments(arguments: tuple[str, ...]) -> tuple[list[str], list[Path]]:
    """Return the models, and the files of services: YAML with the key `services`, which no manifest has."""
    for argument in arguments:
        if argument.endswith((".yaml", ".yml")) and "=" not in argument and not Path(argument).exists():
            raise ZoolensError(f"There is no file {argument}.", hint="Check the path.")
    models: list[str] = []
    services: list[Path] = []
    for argument in arguments:
        if _is_service_file(argument):
            services.append(Path(argument))
        else:
            models.append(argument)
    return models, services


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
