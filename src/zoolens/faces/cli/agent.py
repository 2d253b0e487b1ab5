"""`zoolens agent`: offers this machine to whoever shares the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.base.store.store import Store

_MOST_PORTS: Final = 65_535


@click.command(name="agent")
@click.option("--name", default="", help="What the machine is called; default: its host name.")
@click.option("--env", default="", metavar="REQUIREMENTS", help="Offer it with this environment: 'onnxruntime==1.22'.")
@click.option("--ray", "address", metavar="ADDRESS", help="Ray cluster that this machine is in: auto, or host:port.")
@click.option("--node", default="", metavar="ID", help="The node's id in that cluster, where Ray is not to be asked.")
@click.option(
    "--lease",
    type=click.FloatRange(1),
    default=30.0,
    show_default=True,
    help="Seconds of silence until it is lost.",
)
@click.option(
    "--metrics",
    metavar="[HOST:]PORT",
    help="Offer figures of the fleet to Prometheus there; without a host, to this machine alone.",
)
@store_option("makes")
def command(
    name: str, env: str, address: str | None, node: str, lease: float, metrics: str | None, store: str | None
) -> None:
    """Say in the store what this machine is and has, until stopped.

    It runs nothing by itself: jobs come through Ray, or from commands on this machine. `zoolens agents` lists all
    agents, and `zoolens eval --on each-kind` evaluates once on every kind of machine.
    """
    from zoolens.base.engine.environments import parse_env
    from zoolens.base.store.store import open_store
    from zoolens.findings.tracing.roofline.peaks import stored_peaks
    from zoolens.inventory.fleet.agent import Agent
    from zoolens.inventory.fleet.agent_facts import describe_agent

    place = None if metrics is None else _metrics_place(metrics)
    if env:
        parse_env(env)  # what cannot be read is said before a store is made
    if address:
        from zoolens.base.engine.executors.ray import node_at

        node = node or node_at(address)
    with open_store(store) as opened:
        peaks = stored_peaks(opened)
        facts = describe_agent(env, node=node, peaks=peaks.flops if peaks else {})
        agent = Agent(opened, facts, name=name, lease=lease)
        try:
            with _metrics_offered(opened, place):
                agent.run(lambda words: click.echo(words, err=True))
        except KeyboardInterrupt:
            click.echo(f"{agent.name} is off the list.", err=True)


@contextmanager
def _metrics_offered(store: Store, place: tuple[str, int] | None) -> Iterator[None]:
    from zoolens.inventory.fleet.fleet_metrics import serve_metrics

    if place is None:
        yield
        return
    server = serve_metrics(store, *place)
    click.echo(f"Figures for Prometheus are at http://{place[0]}:{server.server_port}/metrics.", err=True)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def _metrics_place(text: str) -> tuple[str, int]:
    """The host and the port of "9400", "0.0.0.0:9400" or "[::1]:9400"."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) <= _MOST_PORTS:
        raise click.BadParameter(
            f"{text!r} names no port. Write it like 9400, or 0.0.0.0:9400 for all machines that reach this one.",
            param_hint="--metrics",
        )
    return host.strip("[]") or "127.0.0.1", int(port)
