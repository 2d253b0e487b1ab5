"""Which runs a user's own evaluations met last, newest first: what "last" and "last~1" mean.

An evaluation that finds everything measured meets its run all the same. What the doctor, a reproduction or a training
runs is not among them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, select, text, update

from zoolens.base.store.schema import about, runs

KEPT: Final = 200  # beyond these, runs follow in the order in which they were begun
_KEY: Final = "recent runs"
_COUNTED: Final = "evaluations"
_ADOPTED: Final = "adopted evaluations"


def remember_run(connection: Connection, run_id: str) -> None:
    """Put a run first. The row is held until the transaction ends, so that two processes forget nothing."""
    known = _held(connection, _KEY, "[]")
    ids = [run_id, *(known_id for known_id in _ids(known) if known_id != run_id)][:KEPT]
    connection.execute(update(about).where(about.c.key == _KEY).values(value=json.dumps(ids)))


def _held(connection: Connection, key: str, initial: str) -> str:
    """The value of a key, which nobody else can change until the transaction ends. One that is not there is made: two
    who find none would otherwise both insert it."""
    insert = text("INSERT INTO about (key, value) VALUES (:key, :value) ON CONFLICT (key) DO NOTHING")
    connection.execute(insert, {"key": key, "value": initial})
    return str(connection.execute(select(about.c.value).where(about.c.key == key).with_for_update()).scalar_one())


def next_evaluation(connection: Connection) -> int:
    """Counts one more evaluation. The row is held until the transaction ends, so that two never get one number."""
    count = text(
        f"INSERT INTO about (key, value) VALUES ('{_COUNTED}', '1') ON CONFLICT (key) DO UPDATE "  # noqa: S608 - our constant
        "SET value = CAST(CAST(about.value AS BIGINT) + 1 AS TEXT) RETURNING value"
    )
    return int(connection.execute(count).scalar_one())


def counted_evaluations(connection: Connection) -> int:
    value = connection.execute(select(about.c.value).where(about.c.key == _COUNTED)).scalar()
    return int(value or 0)


def adopt_evaluations(connection: Connection, store_id: str, count: int) -> int:
    """Before runs of another store, which has counted `count` evaluations, are copied into this one: up to which
    number they keep their places among them. 0: they come before all that were met here, by their times.

    A store that was empty goes on counting where the other one stopped, so that whatever it meets later is newer, also
    if the copy is killed; and again, as long as it meets nothing itself."""
    counted = int(_held(connection, _COUNTED, "0"))
    whose, adopted = json.loads(_held(connection, _ADOPTED, '["", 0]'))
    is_empty = not counted and connection.execute(select(runs.c.id).limit(1)).first() is None
    if is_empty or (whose == store_id and adopted == counted):
        whose, adopted = store_id, max(adopted, count)
        connection.execute(update(about).where(about.c.key == _ADOPTED).values(value=json.dumps([whose, adopted])))
        connection.execute(update(about).where(about.c.key == _COUNTED).values(value=str(adopted)))
    return int(adopted) if whose == store_id else 0


def remember_older_runs(connection: Connection, older: Sequence[str]) -> None:
    """Put runs, newest first, behind those that were met here."""
    known = _held(connection, _KEY, "[]")
    there = set(connection.execute(select(runs.c.id).where(runs.c.id.in_(older))).scalars())
    ids = list(dict.fromkeys([*_ids(known), *(run_id for run_id in older if run_id in there)]))[:KEPT]
    connection.execute(update(about).where(about.c.key == _KEY).values(value=json.dumps(ids)))


def recent_runs(connection: Connection) -> list[str]:
    """Ids of the runs that are still there."""
    ids = _ids(connection.execute(select(about.c.value).where(about.c.key == _KEY)).scalar())
    there = set(connection.execute(select(runs.c.id).where(runs.c.id.in_(ids))).scalars())
    return [run_id for run_id in ids if run_id in there]


def _ids(value: str | None) -> list[str]:
    return list(json.loads(value)) if value else []
