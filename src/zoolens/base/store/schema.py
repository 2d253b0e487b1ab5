"""The store's tables, for SQLite and PostgreSQL alike. `migrations/` makes them; a test holds the two equal.

Models, datasets and stacks are content-addressed: the first record of a fingerprint is kept. What may differ under
one fingerprint is kept apart: further names in `aliases`, and the full lock of each run in `locks`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    FetchedValue,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.engine import Dialect

from zoolens.base.store.records import DONE, FAILED, RunKind
from zoolens.base.store.values import storable_text


class SafeText(TypeDecorator[str]):
    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable_text(str(value))


class UtcTime(TypeDecorator[datetime]):
    """Aware in, aware out; SQLite, which has no time zones, keeps UTC."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


metadata = MetaData()


def _sequence() -> Column[int]:
    """Order of arrival: unlike a time it has no ties and no clock that is set back."""
    return Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True)


def _checksum() -> Column[int]:
    """See `checksums.py`. A row without one is as damaged as a row with a wrong one."""
    return Column("checksum", BigInteger)


def _required(name: str, kind: Any, *args: Any, **options: Any) -> Column[Any]:
    return Column(name, kind, *args, nullable=False, **options)


about = Table(
    "about",
    metadata,
    Column("key", Text, primary_key=True),
    _required("value", Text),
)

models = Table(
    "models",
    metadata,
    Column("fingerprint", SafeText, primary_key=True),
    _required("ref", SafeText),
    _required("format", SafeText),
    _required("manifest", JSON),
    _required("created", UtcTime),
    _checksum(),
)

datasets = Table(
    "datasets",
    metadata,
    Column("fingerprint", SafeText, primary_key=True),
    _required("name", SafeText),
    _required("size", BigInteger),
    _required("details", JSON),
    _required("created", UtcTime),
    _checksum(),
)

stacks = Table(
    "stacks",
    metadata,
    Column("fingerprint", SafeText, primary_key=True),
    _required("runtime", SafeText),
    _required("identity", JSON),
    _required("created", UtcTime),
    _checksum(),
)

locks = Table(
    "locks",
    metadata,
    Column("fingerprint", SafeText, primary_key=True),
    _required("content", JSON),
    _required("created", UtcTime),
    _checksum(),
)

aliases = Table(
    "aliases",
    metadata,
    Column("kind", SafeText, primary_key=True),  # "model" or "dataset"
    Column("name", SafeText, primary_key=True),
    Column("fingerprint", SafeText, primary_key=True),
    _checksum(),
)

runs = Table(
    "runs",
    metadata,
    _sequence(),
    _required("id", SafeText, unique=True),
    _required("model", SafeText, ForeignKey("models.fingerprint")),
    _required("dataset", SafeText, ForeignKey("datasets.fingerprint")),
    _required("stack", SafeText, ForeignKey("stacks.fingerprint")),
    _required("attempt", Integer),
    _required("lock", SafeText, ForeignKey("locks.fingerprint")),
    _required("resolved", JSON),
    _required("created", UtcTime),
    _checksum(),
    _required("kind", SafeText, server_default=RunKind.EVALUATION.value),
    UniqueConstraint("model", "dataset", "stack", "attempt", name="one_run_per_key"),
    Index("runs_by_dataset", "dataset"),
    Index("runs_by_stack", "stack"),
    Index("runs_by_kind", "kind"),
)

stages = Table(
    "stages",
    metadata,
    Column("run_id", SafeText, ForeignKey("runs.id"), primary_key=True),
    Column("stage", SafeText, primary_key=True),
    _required("state", SafeText),
    Column("error", SafeText),
    _required("details", JSON),
    _required("updated", UtcTime),
    Column("facts", BigInteger),  # how many observations the stage has
    _checksum(),
    CheckConstraint(f"state IN ('{DONE}', '{FAILED}')", name="known_state"),
)

observations = Table(
    "observations",
    metadata,
    _sequence(),
    _required("run_id", SafeText, ForeignKey("runs.id")),
    _required("stage", SafeText),
    _required("metric", SafeText),
    _required("scope", SafeText),
    Column("value", Double),
    Column("low", Double),
    Column("high", Double),
    _required("unit", SafeText),
    Column("n", BigInteger),
    _required("provenance", SafeText),
    _required("details", JSON),
    _required("created", UtcTime),
    _checksum(),
    UniqueConstraint("run_id", "metric", "scope", name="one_observation_per_scope"),
    Index("observations_by_metric", "metric", "scope"),
)

# The numbers of all observations of a run in one text: see `figures.py`.
figures = Table(
    "figures",
    metadata,
    Column("run_id", SafeText, ForeignKey("runs.id"), primary_key=True),
    _required("text", SafeText),
    _checksum(),
)

# Which run got something new, in the order in which it happened: what is derived from the store reads on from there.
changes = Table("changes", metadata, _sequence(), _required("run_id", SafeText))

parts = Table(
    "parts",
    metadata,
    Column("run_id", SafeText, ForeignKey("runs.id"), primary_key=True),
    Column("kind", SafeText, primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    _required("name", SafeText, unique=True),  # file name below the bulk directory
    _required("sha256", SafeText),
    _required("rows", BigInteger),
    _required("bytes", BigInteger),
    _required("created", UtcTime),
    _checksum(),
)

# What is said of a study or of a trial is never changed: of several rows about the same one the last counts.
studies = Table(
    "studies",
    metadata,
    _sequence(),
    _required("name", SafeText),
    _required("frameworks", JSON),
    _required("details", JSON),
    _required("removed", Boolean),  # taken off the list
    _required("created", UtcTime),
    _checksum(),
    Index("studies_by_name", "name"),
)

trials = Table(
    "trials",
    metadata,
    _sequence(),
    _required("study", SafeText),
    _required("name", SafeText),  # unique within the study
    _required("hyperparameters", JSON),
    _required("notes", JSON),
    _required("details", JSON),
    _required("sides", Integer),  # how many rows of `trial_sides` it has
    _required("created", UtcTime),
    _checksum(),
    Index("trials_by_study", "study", "name"),
)

trial_sides = Table(
    "trial_sides",
    metadata,
    Column("trial", BigInteger().with_variant(Integer, "sqlite"), ForeignKey("trials.seq"), primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),  # in the order of the sides
    _required("framework", SafeText),
    _required("run_id", SafeText, ForeignKey("runs.id")),
    Column("error", SafeText),  # why this side failed
    _checksum(),
    Index("trial_sides_by_run", "run_id"),
)

# Pages that somebody composed of figures, charts and notes: of several rows about the same one the last counts, too.
reports = Table(
    "reports",
    metadata,
    _sequence(),
    _required("name", SafeText),  # its id
    _required("title", SafeText),
    _required("content", JSON),
    _required("removed", Boolean),  # taken off the list
    _required("created", UtcTime),
    _checksum(),
    Index("reports_by_name", "name"),
)

# Machines that offer to run work. These rows are no facts: every heartbeat changes them. Times are seconds since 1970
# by the clock of the database.
agents = Table(
    "agents",
    metadata,
    Column("id", SafeText, primary_key=True),
    _required("name", SafeText),
    _required("kind", SafeText),
    _required("facts", JSON),
    _required("doing", JSON),  # what it runs at the moment, in words
    _required("lease", Double),
    _required("started", Double),
    _required("beat", Double),  # the last sign of life
    _required("owner", SafeText, server_default=FetchedValue()),  # PostgreSQL: the role that may change the row
)

# What commands gave to other machines, and who gave it out. Records of operation, not facts about models: they change,
# `zoolens store clean` removes old ones, and times are as in `agents`.
drivers = Table(
    "drivers",
    metadata,
    Column("id", SafeText, primary_key=True),
    _required("name", SafeText),  # user@host:process
    _required("command", SafeText),
    _required("lease", Double),
    _required("started", Double),
    _required("beat", Double),
    Column("ended", Double),
    Column("cancelled_by", SafeText),  # who asked that all its jobs be cancelled
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", SafeText, primary_key=True),
    _required("driver", SafeText),
    _required("title", SafeText),
    _required("model", SafeText),
    _required("dataset", SafeText),
    _required("runtimes", JSON),
    _required("kind", SafeText),  # of machine; empty: any
    _required("agent", SafeText),
    _required("node", SafeText),
    _required("state", SafeText),
    _required("attempts", JSON),
    _required("given", Double),
    Column("started", Double),
    Column("ended", Double),
    _required("runs", JSON),  # ids of what came of it
    _required("error", SafeText),
    _required("log", JSON),
    Column("cancelled_by", SafeText),
    Index("jobs_by_driver", "driver"),
    Index("jobs_by_time", "given"),
    Index("jobs_by_model", "model"),
)

# Passes of a recurring plan (`zoolens fleet run`): which run came of each of its cells.
passes = Table(
    "passes",
    metadata,
    Column("id", SafeText, primary_key=True),
    _required("plan", SafeText),
    _required("started", Double),
    Column("ended", Double),
    _required("content", JSON),
    Index("passes_by_plan", "plan", "started"),
)
