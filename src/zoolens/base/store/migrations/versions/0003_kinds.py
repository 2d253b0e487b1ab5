"""The kind of a run is a column; studies and their trials have tables of their own.

What was filed before stays where it is, since facts are never changed: the kind is told by the runtime's name, in which
older versions kept it, and the tables are filled from the observations "study" and "trial".

Checksums of rows count the kind only where it is not the default, so that evaluations, which are most of a large store,
are not written anew.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

# The way checksums are made may never change, so that this migration may rely on it.
from zoolens.base.store.checksums import checksum

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# In the order in which they are tried: how a runtime's name begins, and the kind of its runs.
KINDS = (
    ("claim:", "claim"),
    ("graph:", "structure"),
    ("operator:", "operator"),
    ("crosstrain:study", "study"),
    ("crosstrain:labels", "labels"),
    ("crosstrain:", "training"),
    ("", "other"),
)
APPEND_ONLY = {
    "studies": "seq = NEW.seq",
    "trials": "seq = NEW.seq",
    "trial_sides": "trial = NEW.trial AND place = NEW.place",
}
TIME = sa.DateTime(timezone=True)
SEQUENCE = sa.BigInteger().with_variant(sa.Integer, "sqlite")
BATCH = 1_000

logger = logging.getLogger("zoolens.store")


def upgrade() -> None:
    create_tables()
    op.add_column("runs", sa.Column("kind", sa.Text, nullable=False, server_default="evaluation"))
    for name, kind in kinds_of_stacks():
        set_kind(runs_of_stack(name), kind)
    set_kind(trials_of_the_doctor(), "trial")
    op.create_index("runs_by_kind", "runs", ["kind"])
    copy_studies()
    copy_trials()
    refuse_changes()


def create_tables() -> None:
    op.create_table(
        "studies",
        sa.Column("seq", SEQUENCE, primary_key=True, autoincrement=True),
        required("name", sa.Text),
        required("frameworks", sa.JSON),
        required("details", sa.JSON),
        required("removed", sa.Boolean),
        required("created", TIME),
        sa.Column("checksum", sa.BigInteger),
    )
    op.create_index("studies_by_name", "studies", ["name"])
    op.create_table(
        "trials",
        sa.Column("seq", SEQUENCE, primary_key=True, autoincrement=True),
        required("study", sa.Text),
        required("name", sa.Text),
        required("hyperparameters", sa.JSON),
        required("notes", sa.JSON),
        required("details", sa.JSON),
        required("sides", sa.Integer),
        required("created", TIME),
        sa.Column("checksum", sa.BigInteger),
    )
    op.create_index("trials_by_study", "trials", ["study", "name"])
    op.create_table(
        "trial_sides",
        sa.Column("trial", SEQUENCE, sa.ForeignKey("trials.seq"), primary_key=True, autoincrement=False),
        sa.Column("place", sa.Integer, primary_key=True, autoincrement=False),
        required("framework", sa.Text),
        required("run_id", sa.Text, sa.ForeignKey("runs.id")),
        sa.Column("error", sa.Text),
        sa.Column("checksum", sa.BigInteger),
    )
    op.create_index("trial_sides_by_run", "trial_sides", ["run_id"])


def required(name: str, kind: Any, *args: Any, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, *args, nullable=False, **options)


# --- kinds of runs

RUN_COLUMNS = ("id", "model", "dataset", "stack", "attempt", "lock", "resolved", "created", "checksum")


def kinds_of_stacks() -> list[tuple[str, str]]:
    """Fingerprints of the stacks whose runs are no evaluations, with the kind of their runs."""
    stacks = sa.table("stacks", sa.column("fingerprint"), sa.column("runtime"))
    rows = op.get_bind().execute(sa.select(stacks).where(stacks.c.runtime.contains(":"))).all()
    return [(row.fingerprint, next(kind for start, kind in KINDS if row.runtime.startswith(start))) for row in rows]


def runs() -> Any:
    return sa.table("runs", *(sa.column(name, TIME if name == "created" else None) for name in RUN_COLUMNS))


def chosen(table: Any) -> Any:
    return sa.select(
        *(sa.cast(one, sa.Text).label(one.name) if one.name == "resolved" else one for one in table.columns)
    )


def runs_of_stack(stack: str) -> Any:
    table = runs()
    return chosen(table).where(table.c.stack == stack)


def trials_of_the_doctor() -> Any:
    table = runs()
    if op.get_bind().dialect.name == "sqlite":  # a damaged text fails its checksum later on, not SQLite's parser now
        valid, purpose = "json_valid(resolved) = 1", "json_extract(resolved, '$.origin.purpose')"
        found = f"CASE WHEN {valid} THEN {purpose} END = 'trial'"
    else:
        found = "resolved #>> '{origin,purpose}' = 'trial'"
    return chosen(table).where(sa.text(found))


def set_kind(query: Any, kind: str) -> None:
    """A row that does not bear its checksum keeps it, so that its damage is still noticed."""
    table = sa.table("runs", sa.column("id"), sa.column("kind"), sa.column("checksum"))
    change = sa.update(table).where(table.c.id == sa.bindparam("key"))
    change = change.values(kind=kind, checksum=sa.bindparam("made"))
    bind = op.get_bind()
    rows = [aware(dict(row._mapping)) for row in bind.execute(query)]
    changes = [{"key": row["id"], "made": checksum_with(row, kind)} for row in rows]
    for start in range(0, len(changes), BATCH):
        bind.execute(change, changes[start : start + BATCH])


def checksum_with(row: dict[str, Any], kind: str) -> int | None:
    known: int | None = row["checksum"]
    return checksum("runs", {**row, "kind": kind}) if known == checksum("runs", row) else known


def aware(row: dict[str, Any]) -> dict[str, Any]:
    """SQLite has no time zones: what it keeps is UTC."""
    created = row["created"]
    return {**row, "created": created.replace(tzinfo=UTC) if created.tzinfo is None else created}


# --- studies and trials

FACTS = (
    "run_id", "stage", "metric", "scope", "value", "low", "high", "unit", "n", "provenance", "details", "created",
    "checksum",
)  # fmt: skip


def observed(metric: str) -> Iterator[dict[str, Any]]:
    """Sound observations of a metric that was written by crosstrain, oldest first; their details are parsed."""
    table = sa.table("observations", sa.column("seq"), *(sa.column(one, fact_type(one)) for one in FACTS))
    columns = [sa.cast(table.c[one], sa.Text).label(one) if one == "details" else table.c[one] for one in FACTS]
    query = sa.select(*columns).where(table.c.metric == metric).order_by(table.c.seq)
    for row in op.get_bind().execute(query).mappings():
        fact = aware(dict(row))
        if fact["checksum"] != checksum("observations", fact):
            logger.warning("A damaged observation %r of run %s was not copied to its table.", metric, fact["run_id"])
            continue
        yield {**fact, "details": json.loads(fact["details"])}


def fact_type(name: str) -> Any:
    return TIME if name == "created" else sa.Double() if name in ("value", "low", "high") else None


def copy_studies() -> None:
    names = sa.text(
        "SELECT runs.id AS id, models.manifest AS manifest FROM runs JOIN models ON models.fingerprint = runs.model "
        "WHERE runs.kind = 'study'"
    ).columns(id=sa.Text, manifest=sa.JSON)
    name_of = {row.id: row.manifest.get("name") for row in op.get_bind().execute(names)}
    said = [one for one in observed("study") if one["run_id"] in name_of]
    for one in sorted(said, key=lambda one: (one["run_id"], int(one["scope"]))):
        details = one["details"]
        row = {
            "name": str(name_of[one["run_id"]]),
            "frameworks": list(details["frameworks"]),
            "details": dict(details["details"]),
            "removed": bool(details.get("removed")),
            "created": one["created"],
        }
        add("studies", row)


def copy_trials() -> None:
    """Each side of a trial bears the same words: they are copied once."""
    trainings = set(op.get_bind().execute(sa.text("SELECT id FROM runs WHERE kind = 'training'")).scalars())
    words = [one["details"] for one in observed("trial") if one["run_id"] in trainings]
    last: dict[tuple[str, str], dict[str, Any]] = {}
    for word in sorted(words, key=lambda word: str(word["filed"])):
        key, content = (word["study"], word["trial"]), {name: one for name, one in word.items() if name != "filed"}
        if last.get(key) != content:
            last[key] = content
            copy_trial(word)


def copy_trial(word: dict[str, Any]) -> None:
    row = {
        "study": word["study"],
        "name": word["trial"],
        "hyperparameters": word["hyperparameters"],
        "notes": word["notes"],
        "details": word["details"],
        "sides": len(word["sides"]),
        "created": datetime.fromisoformat(word["filed"]),
    }
    number = add("trials", row)
    for place, (framework, run_id) in enumerate(word["sides"]):
        side = {"trial": number, "place": place, "framework": framework, "run_id": run_id}
        add("trial_sides", {**side, "error": word["failed"].get(framework)})


JSON_COLUMNS = ("frameworks", "details", "hyperparameters", "notes")


def add(name: str, row: dict[str, Any]) -> int:
    """Insert a row with its checksum, and return its number in the order of arrival."""
    types: dict[str, Any] = dict.fromkeys(JSON_COLUMNS, sa.JSON())
    types |= {"created": TIME, "removed": sa.Boolean(), "sides": sa.Integer(), "place": sa.Integer()}
    table = sa.Table(
        name,
        sa.MetaData(),
        sa.Column("trial" if name == "trial_sides" else "seq", SEQUENCE, primary_key=True, autoincrement=True),
        *(sa.Column(column, types.get(column, sa.Text)) for column in row if column != "trial"),
        sa.Column("checksum", sa.BigInteger),
    )
    values = {**row, "checksum": checksum(name, row)}
    if "created" in values:
        values["created"] = values["created"].astimezone(UTC)
    found = op.get_bind().execute(sa.insert(table).values(**values))
    return int(found.inserted_primary_key[0])  # type: ignore[index]


def refuse_changes() -> None:
    for table, same_key in APPEND_ONLY.items():
        if op.get_bind().dialect.name != "sqlite":
            op.execute(
                f"CREATE TRIGGER {table}_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
                "FOR EACH STATEMENT EXECUTE FUNCTION zoolens_refuse_change()"
            )
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
