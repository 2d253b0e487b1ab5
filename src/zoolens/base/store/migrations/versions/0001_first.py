"""The first schema: models, datasets, stacks, runs, stages, observations and parts; the last two append-only.

Written out, not derived from `schema.py`: a migration must keep doing what it did when it was new.
"""

from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

APPEND_ONLY = {
    "observations": "(run_id = NEW.run_id AND metric = NEW.metric AND scope = NEW.scope) OR seq = NEW.seq",
    "parts": "run_id = NEW.run_id AND kind = NEW.kind AND part = NEW.part",
}


def upgrade() -> None:
    create_subjects()
    create_runs()
    create_facts()
    refuse_changes()
    about = op.create_table("about", sa.Column("key", sa.Text, primary_key=True), required("value", sa.Text))
    op.bulk_insert(about, [{"key": "store_id", "value": uuid4().hex}])


def required(name: str, kind: Any, *args: Any, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, *args, nullable=False, **options)


def time(name: str) -> sa.Column[Any]:
    return required(name, sa.DateTime(timezone=True))


def sequence() -> sa.Column[Any]:
    kind = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    return sa.Column("seq", kind, primary_key=True, autoincrement=True)


def fingerprint() -> sa.Column[Any]:
    return sa.Column("fingerprint", sa.Text, primary_key=True)


def create_subjects() -> None:
    op.create_table(
        "models",
        fingerprint(),
        required("ref", sa.Text),
        required("format", sa.Text),
        required("manifest", sa.JSON),
        time("created"),
    )
    op.create_table(
        "datasets",
        fingerprint(),
        required("name", sa.Text),
        required("size", sa.BigInteger),
        required("details", sa.JSON),
        time("created"),
    )
    op.create_table(
        "stacks", fingerprint(), required("runtime", sa.Text), required("identity", sa.JSON), time("created")
    )
    op.create_table("locks", fingerprint(), required("content", sa.JSON), time("created"))
    op.create_table(
        "aliases",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        fingerprint(),
    )


def create_runs() -> None:
    op.create_table(
        "runs",
        sequence(),
        required("id", sa.Text, unique=True),
        required("model", sa.Text, sa.ForeignKey("models.fingerprint")),
        required("dataset", sa.Text, sa.ForeignKey("datasets.fingerprint")),
        required("stack", sa.Text, sa.ForeignKey("stacks.fingerprint")),
        required("attempt", sa.Integer),
        required("lock", sa.Text, sa.ForeignKey("locks.fingerprint")),
        required("resolved", sa.JSON),
        time("created"),
        sa.UniqueConstraint("model", "dataset", "stack", "attempt", name="one_run_per_key"),
    )
    op.create_index("runs_by_dataset", "runs", ["dataset"])
    op.create_index("runs_by_stack", "runs", ["stack"])
    op.create_table(
        "stages",
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("stage", sa.Text, primary_key=True),
        required("state", sa.Text),
        sa.Column("error", sa.Text),
        required("details", sa.JSON),
        time("updated"),
        sa.CheckConstraint("state IN ('done', 'failed')", name="known_state"),
    )


def create_facts() -> None:
    op.create_table(
        "observations",
        sequence(),
        required("run_id", sa.Text, sa.ForeignKey("runs.id")),
        required("stage", sa.Text),
        required("metric", sa.Text),
        required("scope", sa.Text),
        sa.Column("value", sa.Double),
        sa.Column("low", sa.Double),
        sa.Column("high", sa.Double),
        required("unit", sa.Text),
        sa.Column("n", sa.BigInteger),
        required("provenance", sa.Text),
        required("details", sa.JSON),
        time("created"),
        sa.UniqueConstraint("run_id", "metric", "scope", name="one_observation_per_scope"),
    )
    op.create_index("observations_by_metric", "observations", ["metric", "scope"])
    op.create_table(
        "parts",
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("part", sa.Integer, primary_key=True, autoincrement=False),
        required("name", sa.Text, unique=True),
        required("sha256", sa.Text),
        required("rows", sa.BigInteger),
        required("bytes", sa.BigInteger),
        time("created"),
    )


def refuse_changes() -> None:
    """Triggers, so that no other program that opens the database can rewrite what was measured either."""
    if op.get_bind().dialect.name == "sqlite":
        for table, same_key in APPEND_ONLY.items():
            refuse_on_sqlite(table, same_key)
    else:
        refuse_on_postgresql()


def refuse_on_sqlite(table: str, same_key: str) -> None:
    for change in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER {table}_refuse_{change.lower()} BEFORE {change} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{table} are append-only'); END"
        )
    # INSERT OR REPLACE deletes without firing the trigger above; skipping the row keeps ON CONFLICT DO NOTHING working
    exists = f"EXISTS (SELECT 1 FROM {table} WHERE {same_key})"  # noqa: S608
    op.execute(
        f"CREATE TRIGGER {table}_refuse_replace BEFORE INSERT ON {table} WHEN {exists} BEGIN SELECT RAISE(IGNORE); END"
    )


def refuse_on_postgresql() -> None:
    op.execute(
        "CREATE FUNCTION zoolens_refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '% are append-only', TG_TABLE_NAME; END $$"
    )
    for table in APPEND_ONLY:
        op.execute(
            f"CREATE TRIGGER {table}_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION zoolens_refuse_change()"
        )
