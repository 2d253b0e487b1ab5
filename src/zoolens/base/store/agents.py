"""Agents: machines that offer to run work. Their rows are no facts: each heartbeat changes them, and they go away.

Clocks of machines differ, so that every time in these rows is told by the database. An agent whose last heartbeat is
older than its lease is lost, whatever its own clock says.

Whoever has an agent's rights writes such rows, and everybody reads them: one that is too large or no JSON has no facts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, Text, case, cast, delete, func, insert, select, update

from zoolens.base.store.database import Database
from zoolens.base.store.database_clock import now_column
from zoolens.base.store.schema import agents

T = TypeVar("T")

FORGOTTEN: Final = 10.0  # leases after which the row of a lost agent is removed by the next one that is published
LONGEST_LEASE: Final = 86_400.0  # seconds
LARGEST: Final = 1 << 20  # characters of facts that are read; those of a machine with a thousand packages have 40,000
_LONGEST_NAME: Final = 200  # characters


@dataclass(frozen=True)
class AgentRecord:
    """One start of `zoolens agent`. `kind` is the same for machines between which results should not differ."""

    id: str
    name: str
    kind: str
    facts: Mapping[str, Any]
    lease: float  # seconds
    doing: tuple[str, ...] = ()
    age: float = 0.0  # seconds since it was published
    silent: float = field(default=0.0, compare=False)  # seconds since its last heartbeat

    @property
    def alive(self) -> bool:
        """Whether it gave a sign of life within its lease. One of the future is none of this clock."""
        lease = min(self.lease, LONGEST_LEASE)
        return -lease <= self.silent <= lease


def publish_agent(database: Database, agent: AgentRecord) -> None:
    """Adds an agent, and removes the rows of agents that were lost long ago."""

    def publish(connection: Connection) -> None:
        now = now_column(connection.dialect)
        connection.execute(delete(agents).where(now - agents.c.beat > agents.c.lease * FORGOTTEN))
        row: dict[str, Any] = {"id": agent.id, "name": agent.name, "kind": agent.kind, "facts": dict(agent.facts)}
        row |= {"doing": list(agent.doing), "lease": agent.lease}
        # The connection may have broken after this was done once, unseen by us.
        connection.execute(delete(agents).where(agents.c.id == agent.id))
        connection.execute(insert(agents).values(**row, started=now, beat=now))

    database._write(publish)


def renew_agent(database: Database, agent_id: str, doing: Sequence[str], facts: Mapping[str, Any]) -> bool:
    """One heartbeat: the lease begins anew. False: the row is gone, so that the agent must be published again."""

    def renew(connection: Connection) -> int:
        now = now_column(connection.dialect)
        values = {"beat": now, "doing": list(doing), "facts": dict(facts)}
        return connection.execute(update(agents).where(agents.c.id == agent_id).values(values)).rowcount

    return bool(database._write(renew))


def remove_agent(database: Database, agent_id: str) -> None:
    """Takes an agent off the list. One that is not on it is no error."""
    database._write(lambda connection: connection.execute(delete(agents).where(agents.c.id == agent_id)))


def load_agents(database: Database, *, lost: bool = False) -> list[AgentRecord]:
    """The agents in the order of their names; with `lost`, also those whose lease has run out."""

    def load(connection: Connection) -> list[AgentRecord]:
        now = now_column(connection.dialect)
        age, silent = (now - agents.c.started).label("age"), (now - agents.c.beat).label("silent")
        texts = [func.substr(agents.c[name], 1, _LONGEST_NAME).label(name) for name in ("id", "name", "kind")]
        columns = [*texts, _text(agents.c.facts), _text(agents.c.doing), agents.c.lease, age, silent]
        rows = connection.execute(select(*columns).order_by(agents.c.name, agents.c.id)).mappings()
        return [
            AgentRecord(
                str(row["id"]),
                str(row["name"]),
                str(row["kind"]),
                _parsed(row["facts"], {}),
                float(row["lease"]),
                tuple(map(str, _parsed(row["doing"], []))),
                float(row["age"]),
                float(row["silent"]),
            )
            for row in rows
        ]

    return [agent for agent in database.read(load) if lost or agent.alive]


def _text(column: Column[Any]) -> ColumnElement[str | None]:
    """A column of JSON as it is written, or NULL where it is too long to be read."""
    text = cast(column, Text)
    return case((func.length(text) <= LARGEST, text)).label(column.name)


def _parsed(text: str | None, empty: T) -> T:
    """The value of a JSON text; `empty` where it is no JSON, or of another type."""
    try:
        value = empty if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return empty
    return value if isinstance(value, type(empty)) else empty
