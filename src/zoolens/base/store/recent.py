"""Which runs a user's own evaluations met last, newest first: what "last" and "last~1" mean.

An evaluation that finds everything measured meets its run all the same. What the doctor, a reproduction or a training
runs is not among them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, select, update

from zoolens.base.store.schema import about, runs

KEPT: Final = 200  # beyond these, runs follow in the order in which they were begun
_KEY: Final = "recent runs"


def remember_run(connection: Connection, run_id: str) -> None:
    """Put a run first. The row is held until the transaction ends, so that two processes forget nothing."""
    known = connection.execute(select(about.c.value).where(about.c.key == _KEY).with_for_update()).scalar()
    ids = [run_id, *(known_id for known_id in _ids(known) if known_id != run_id)][:KEPT]
    if known is None:
        connection.execute(about.insert().values(key=_KEY, value=json.dumps(ids)))
    else:
        connection.execute(update(about).where(about.c.key == _KEY).values(value=json.dumps(ids)))


def remember_older_runs(connection: Connection, older: Sequence[str]) -> None:
    """Put runs, newest first, behind those that were met here."""
    known = connection.execute(select(about.c.value).where(about.c.key == _KEY).with_for_update()).scalar()
    there = set(connection.execute(select(runs.c.id).where(runs.c.id.in_(older))).scalars())
    ids = list(dict.fromkeys([*_ids(known), *(run_id for run_id in older if run_id in there)]))[:KEPT]
    if known is not None:
        connection.execute(update(about).where(about.c.key == _KEY).values(value=json.dumps(ids)))
    elif ids:
        connection.execute(about.insert().values(key=_KEY, value=json.dumps(ids)))


def recent_runs(connection: Connection) -> list[str]:
    """Ids of the runs that are still there."""
    ids = _ids(connection.execute(select(about.c.value).where(about.c.key == _KEY)).scalar())
    there = set(connection.execute(select(runs.c.id).where(runs.c.id.in_(ids))).scalars())
    return [run_id for run_id in ids if run_id in there]


def _ids(value: str | None) -> list[str]:
    return list(json.loads(value)) if value else []
