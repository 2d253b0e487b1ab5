"""Checksums of rows, the number of facts of each stage, and a journal of which runs changed.

The journal makes what is derived from the store quick to bring up to date: who remembers the last number it saw reads
only the runs that are named after it.
"""

from __future__ import annotations

import logging
from typing import Any

import sqlalchemy as sa
from alembic import op

# The way checksums are made may never change, so that this migration may rely on it.
from zoolens.base.store.checksums import CHECKED, FIGURE, checksum

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TABLES = ("models", "datasets", "stacks", "locks", "aliases", "runs", "stages", "observations", "parts")
KEYS = {
    "aliases": ("kind", "name", "fingerprint"),
    "runs": ("seq",),
    "stages": ("run_id", "stage"),
    "observations": ("seq",),
    "parts": ("run_id", "kind", "part"),
}
TEXT_OF = {"manifest", "details", "identity", "content", "resolved"}  # JSON columns, which are read as text
TIMES = {"created", "updated"}
APPEND_ONLY = {
    "observations": "(run_id = NEW.run_id AND metric = NEW.metric AND scope = NEW.scope) OR seq = NEW.seq",
    "parts": "run_id = NEW.run_id AND kind = NEW.kind AND part = NEW.part",
}
BATCH = 10_000

logger = logging.getLogger("zoolens.store")


def upgrade() -> None:
    for table in TABLES:
        op.add_column(table, sa.Column("checksum", sa.BigInteger))
    op.add_column("stages", sa.Column("facts", sa.BigInteger))
    sequence = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "changes",
        sa.Column("seq", sequence, primary_key=True, autoincrement=True),
        sa.Column("run_id", sa.Text, nullable=False),
    )
    op.execute("INSERT INTO changes (run_id) SELECT id FROM runs ORDER BY seq")
    op.execute(
        "UPDATE stages SET facts = (SELECT count(*) FROM observations "
        "WHERE observations.run_id = stages.run_id AND observations.stage = stages.stage)"
    )
    allow_changes()
    for table in TABLES:
        write_checksums(table)
    refuse_changes()


def write_checksums(name: str) -> None:
    bind = op.get_bind()
    columns = dict.fromkeys((*CHECKED[name], *(FIGURE if name == "observations" else ()), *keys(name)))
    times = sa.DateTime(timezone=True)
    table = sa.table(name, *(sa.column(one, times if one in TIMES else None) for one in columns), sa.column("checksum"))
    chosen = [sa.cast(table.c[one], sa.Text).label(one) if one in TEXT_OF else table.c[one] for one in columns]
    change = sa.update(table).where(*(table.c[key] == sa.bindparam(f"key_{key}") for key in keys(name)))
    change = change.values(checksum=sa.bindparam("made"))
    order = [table.c[key] for key in keys(name)]
    query, last, done = sa.select(*chosen).order_by(*order).limit(BATCH), None, 0
    while rows := bind.execute(query if last is None else query.where(sa.tuple_(*order) > last)).mappings().all():
        bind.execute(change, [made_for(name, row) for row in rows])
        last = sa.tuple_(*(sa.literal(rows[-1][key]) for key in keys(name)))
        done += len(rows)
        if done % (10 * BATCH) == 0:
            logger.warning("The store is brought to a new version: checksums of %s rows of %s.", f"{done:,}", name)


def made_for(name: str, row: Any) -> dict[str, Any]:
    return {"made": checksum(name, aware(row)), **{f"key_{key}": row[key] for key in keys(name)}}


def aware(row: Any) -> dict[str, Any]:
    """SQLite has no time zones: what it keeps is UTC."""
    from datetime import UTC

    times = {name: row[name].replace(tzinfo=UTC) for name in TIMES & set(row) if row[name].tzinfo is None}
    return {**row, **times}


def keys(name: str) -> tuple[str, ...]:
    return KEYS.get(name, ("fingerprint",))


def allow_changes() -> None:
    """Take the triggers of append-only tables away for as long as this transaction lasts."""
    for table in APPEND_ONLY:
        if op.get_bind().dialect.name == "sqlite":
            for change in ("update", "delete", "replace"):
                op.execute(f"DROP TRIGGER IF EXISTS {table}_refuse_{change}")
        else:
            op.execute(f"ALTER TABLE {table} DISABLE TRIGGER {table}_refuse_change")


def refuse_changes() -> None:
    for table, same_key in APPEND_ONLY.items():
        if op.get_bind().dialect.name != "sqlite":
            op.execute(f"ALTER TABLE {table} ENABLE TRIGGER {table}_refuse_change")
            continue
        for change in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_refuse_{change.lower()} BEFORE {change} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} are append-only'); END"
            )
        exists = f"EXISTS (SELECT 1 FROM {table} WHERE {same_key})"  # noqa: S608
        op.execute(
            f"CREATE TRIGGER {table}_refuse_replace BEFORE INSERT ON {table} WHEN {exists} "
            "BEGIN SELECT RAISE(IGNORE); END"
        )
