"""Agents: machines that offer to run work. Their rows are no facts: each heartbeat changes them, and they go away.

Clocks of machines differ, so that every time in these rows is told by the database. An agent whose last heartbeat is
older than its lease is lost, whatever its own clock says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, Dialect, delete, insert, literal_column, select, update
from sqlalchemy.sql.elements import ColumnElement

from zoolens.base.store.database import Database
from zoolens.base.store.schema import agents

FORGOTTEN: Final = 10.0  # leases after which the row of a lost agent is removed by the next one that is published
LONGEST_LEASE: Final = 86_400.0  # seconds
_SECONDS: Final = {  # since 1970, by the clock of the database
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS double precision)",
}


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
        now = _now(connection.dialect)
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
        now = _now(connection.dialect)
        values = {"beat": now, "doing": list(doing), "facts": dict(facts)}
        return connection.execute(update(agents).where(agents.c.id == agent_id).values(values)).rowcount

    return bool(database._write(renew))


def remove_agent(database: Database, agent_id: str) -> None:
    """Takes an agent off the list. One that is not on it is no error."""
    database._write(lambda connection: connection.execute(delete(agents).where(agents.c.id == agent_id)))


def load_agents(database: Database, *, lost: bool = False) -> list[AgentRecord]:
    """The agents in the order of their names; with `lost`, also those whose lease has run out."""

    def load(connection: Connection) -> list[AgentRecord]:
        now = _now(connection.dialect)
        age, silent = (now - agents.c.started).label("age"), (now - agents.c.beat).label("silent")
        rows = connection.execute(select(agents, age, silent).order_by(agents.c.name, agents.c.id)).mappings()
        return [
            AgentRecord(
                str(row["id"]),
                str(row["name"]),
                str(row["kind"]),
                row["facts"] if isinstance(row["facts"], dict) else {},
                float(row["lease"]),
                tuple(map(str, row["doing"])) if isinstance(row["doing"], list) else (),
                float(row["age"]),
                float(row["silent"]),
            )
            for row in rows
        ]

    return [agent for agent in database.read(load) if lost or agent.alive]


def _now(dialect: Dialect) -> ColumnElement[float]:
    return literal_column(_SECONDS[dialect.name])
