"""Passes of recurring plans: what came of each, kept while it goes on, so that one that was stopped is resumed.

Records of operation as in `jobs.py`, with the times of the database. One process at a time carries out a pass: it holds
it by a lease, and whoever comes meanwhile is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import Connection, Select, delete, insert, select, update

from zoolens.base.engine.machine import this_host
from zoolens.base.errors import ZoolensError
from zoolens.base.store.database import Database
from zoolens.base.store.database_clock import now_there
from zoolens.base.store.schema import passes
from zoolens.base.store.values import to_json

LEASE: Final = 60.0  # seconds of silence after which a pass is nobody's
_HOLDER: Final = "holder"  # in the content of a pass that somebody carries out


@dataclass(frozen=True)
class Holder:
    """The process that carries out a pass. `host` is that of `this_host`."""

    id: str
    name: str
    host: str
    process: int

    @classmethod
    def this_process(cls, name: str) -> Holder:
        return cls(uuid4().hex, name, this_host(), os.getpid())


@dataclass(frozen=True)
class PassRecord:
    """One pass. `ended` is None while it goes on, and where it was stopped."""

    id: str
    plan: str
    started: float
    ended: float | None
    content: Mapping[str, Any]
    now: float


def begin_pass(database: Database, plan: str, holder: Holder) -> PassRecord:
    """The pass of this plan that was not finished, or a new one. ZoolensError: somebody else carries it out."""

    def begin(connection: Connection) -> PassRecord:
        _one_at_a_time(connection, plan)
        now = now_there(connection)
        last = next(iter(_load(connection, _of(plan).limit(1), now)), None)
        if last is None or last.ended is not None:
            row: dict[str, Any] = {"id": uuid4().hex, "plan": plan, "started": now, "ended": None, "content": {}}
            connection.execute(insert(passes).values(**{**row, "content": _held({}, holder, now)}))
            return PassRecord(**row, now=now)
        _refuse_held(last, holder)
        values = {"content": _held(last.content, holder, now)}
        connection.execute(update(passes).where(passes.c.id == last.id).values(**values))
        return last

    return database._write(begin)


def keep_pass(database: Database, pass_id: str, holder: Holder, content: Mapping[str, Any]) -> None:
    """Replaces what is known of a pass, and renews the lease. ZoolensError: somebody else carries it out by now."""

    def keep(connection: Connection) -> int:
        return _replace(connection, pass_id, holder, {"content": _held(content, holder, now_there(connection))})

    _refuse_lost(database._write(keep))


def release_pass(
    database: Database, pass_id: str, holder: Holder, content: Mapping[str, Any], *, ended: bool = False
) -> None:
    """Replaces what is known of a pass, which is nobody's from now on. `ended`: it is finished."""

    def release(connection: Connection) -> int:
        values = {"content": _storable(content), "ended": now_there(connection) if ended else None}
        return _replace(connection, pass_id, holder, values)

    _refuse_lost(database._write(release))


def load_passes(
    database: Database, plan: str, *, limit: int | None = None, ended: bool | None = None
) -> list[PassRecord]:
    """The passes of a plan, the newest first. `ended`: only those that are finished, or that are not."""
    query = _of(plan)
    if ended is not None:
        query = query.where(passes.c.ended.is_not(None) if ended else passes.c.ended.is_(None))
    return database.read(lambda connection: _load(connection, query.limit(limit), now_there(connection)))


def forget_passes(database: Database, older_than: float) -> int:
    """Removes passes that ended so many seconds ago, but for the last one of each plan, with which the next one is
    compared. How many those were."""

    def forget(connection: Connection) -> int:
        old = passes.c.ended < now_there(connection) - older_than
        newer = passes.alias()
        is_not_last = (
            select(newer.c.id)
            .where(newer.c.plan == passes.c.plan, newer.c.ended.is_not(None), newer.c.started > passes.c.started)
            .exists()
        )
        chosen = list(connection.scalars(select(passes.c.id).where(old, is_not_last)))
        connection.execute(delete(passes).where(passes.c.id.in_(chosen)))
        return len(chosen)

    return int(database._write(forget))


def _of(plan: str) -> Select[Any]:
    return select(passes).where(passes.c.plan == plan).order_by(passes.c.started.desc(), passes.c.id)


def _load(connection: Connection, query: Select[Any], now: float) -> list[PassRecord]:
    return [PassRecord(**row, now=now) for row in connection.execute(query).mappings()]


def _replace(connection: Connection, pass_id: str, holder: Holder, values: Mapping[str, Any]) -> int:
    mine = passes.c.content[_HOLDER]["id"].as_string() == holder.id
    return connection.execute(update(passes).where(passes.c.id == pass_id, mine).values(**values)).rowcount


def _held(content: Mapping[str, Any], holder: Holder, now: float) -> dict[str, Any]:
    return _storable({**content, _HOLDER: {**vars(holder), "beat": now}})


def _storable(content: Mapping[str, Any]) -> dict[str, Any]:
    """JSON that both databases can also look into: PostgreSQL cannot, where a text holds NUL or half a character."""
    plain: dict[str, Any] = json.loads(to_json(content))
    return plain


def _refuse_held(record: PassRecord, holder: Holder) -> None:
    known = record.content.get(_HOLDER)
    if not isinstance(known, Mapping) or known.get("id") == holder.id:
        return
    silent = record.now - float(known.get("beat", 0.0))
    if not -LEASE <= silent <= LEASE or _is_gone(known, holder):
        return
    raise ZoolensError(
        f"The plan {record.plan} is being carried out by {known.get('name')}, which gave a sign of life "
        f"{max(0.0, silent):.0f} s ago.",
        hint=f"Wait until it ends. If it was killed, the same command goes on with its pass {LEASE:.0f} s later.",
    )


def _is_gone(known: Mapping[str, Any], here: Holder) -> bool:
    """Whether a process of this machine that held the pass does not run any more."""
    if known.get("host") != here.host:
        return False
    try:
        os.kill(int(known.get("process", 0)), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except (OSError, ValueError, TypeError):
        return False
    return False


def _refuse_lost(changed: int) -> None:
    if not changed:
        raise ZoolensError(
            "Another call took over this pass, since the store heard nothing of this one for too long.",
            hint="What was measured is in the store. Let the other call finish.",
        )


def _one_at_a_time(connection: Connection, plan: str) -> None:
    """Two calls that begin at the same moment must not make two passes. In SQLite, who writes is alone anyway."""
    if connection.dialect.name == "postgresql":
        key = int.from_bytes(sha256(f"zoolens pass {plan}".encode(errors="surrogatepass")).digest()[:8], signed=True)
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({key})")
