"""`zoolens agents`: which machines share a store, what each has and what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from zoolens.base.present.figures import figure
from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import echo_json, print_table
from zoolens.faces.cli.options import json_option, wide_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.inventory.fleet.placing import ListedAgent

_COLUMNS: Final = (
    Column("agent", "key"),
    Column("kind"),
    Column("does"),
    Column("seen", "number"),
    Column("machine"),
    Column("cores", "number"),
    Column("memory", "number"),
    Column("free disk", "number"),
    Column("runtimes"),
)


@click.command(name="agents")
@store_option("reads")
@json_option
@wide_option
def command(store: str | None, as_json: bool) -> None:
    """List the machines that agents offer, what each has, and what it is doing."""
    from zoolens.inventory.fleet.placing import agents

    listed = agents(store)
    if as_json:
        echo_json([_data(agent) for agent in listed])
    elif listed:
        print_table(list(_COLUMNS), [_row(agent) for agent in listed])
    else:
        click.echo("No agents: start `zoolens agent` on each machine.", err=True)


def _row(agent: ListedAgent) -> list[str]:
    record, facts = agent.record, agent.facts
    seen = f"{figure(max(record.silent, 0.0), 's')} ago"
    if facts is None:
        return [record.name, record.kind, _state(agent), seen, "what it published cannot be read", "", "", "", ""]
    machine = facts.machine
    return [
        record.name,
        record.kind,
        _state(agent),
        seen,
        ", ".join([f"{machine.architecture} {machine.cpu}", *facts.gpus]),
        str(machine.cores),
        figure(machine.memory_bytes, "B"),
        figure(facts.free_disk, "B"),
        ", ".join(f"{name} {version}" for name, version in sorted(facts.runtimes.items())),
    ]


def _state(agent: ListedAgent) -> str:
    if not agent.record.alive:
        return "lost"
    return "; ".join(agent.record.doing) or "nothing"


def _data(agent: ListedAgent) -> dict[str, Any]:
    record = agent.record
    return {
        "id": record.id,
        "name": record.name,
        "kind": record.kind,
        "alive": record.alive,
        "seconds_since_heartbeat": record.silent,
        "seconds_since_start": record.age,
        "lease_seconds": record.lease,
        "doing": list(record.doing),
        "facts": dict(record.facts),
    }
