"""How a user names a run: by its id, by the beginning of its id, or as the last one that an evaluation met."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from sqlalchemy import Connection, func, select

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.store import queries, schema
from zoolens.base.store.recent import recent_runs
from zoolens.base.store.records import MEASURED_KINDS, Run, RunKind

_LAST: Final = re.compile(r"last(?:~(\d{1,9}))?")
_FULL_ID: Final = re.compile(r"[0-9a-f]{16}")  # found by its index; a prefix takes a scan
_PREFIX: Final = re.compile(r"[0-9a-f]{1,64}")
_MOST_NAMED: Final = 5  # runs that an error lists
_CONTENTS: Final = {
    RunKind.CLAIM: "claimed figures of {}",
    RunKind.STRUCTURE: "the structure of {}",
    RunKind.TRAINING: "a training of {}",
    RunKind.OPERATOR: "the time of a single layer, {}",
    RunKind.TRACE: "a trace of {}",
    RunKind.LOAD: "a load test of {}",
    RunKind.SERVING: "the serving log of {}",
    RunKind.VERIFICATION: "a verification of {}",
}


def named_run(connection: Connection, name: str, store: str) -> Run:
    """Returns the only run of this name; ZoolensError if there is none or several. `store` is for the message."""
    matching = _matching(connection, name)
    if not matching:
        hint = _hint_for_missing(connection, store, relative=_LAST.fullmatch(name) is not None)
        raise UnknownName("run", name, _newest_ids(connection), hint=hint)
    if len(matching) > 1:
        raise ZoolensError(
            f"{name!r} could be any of the runs {', '.join(run.id for run in matching[:_MOST_NAMED])}"
            f"{', …' if len(matching) > _MOST_NAMED else ''}.",
            hint="Give more of its id.",
        )
    return matching[0]


def require_run(connection: Connection, run_id: str) -> None:
    """Raises a ZoolensError if there is no run of this id."""
    if connection.execute(select(schema.runs.c.id).where(schema.runs.c.id == run_id)).first() is None:
        raise UnknownName("run", run_id, _newest_ids(connection))


def require_kind(run: Run, kinds: Collection[RunKind]) -> None:
    """Raises a ZoolensError if a run is of none of these kinds."""
    if run.kind not in kinds:
        contents = _CONTENTS.get(run.kind, "facts about {}").format(run.ref)
        raise ZoolensError(
            f"Run {run.id[:8]} holds {contents}, not predictions on a dataset.",
            hint="Name an evaluation; `zoolens runs` lists them.",
        )


def _matching(connection: Connection, name: str) -> list[Run]:
    if last := _LAST.fullmatch(name):
        return _last(connection, int(last[1] or 0))
    if _FULL_ID.fullmatch(name):
        run = queries.load_run(connection, name)
        return [] if run is None else [run]
    if _PREFIX.fullmatch(name):
        return queries.load_runs(connection, schema.runs.c.id.startswith(name), limit=_MOST_NAMED + 1)
    return []


def _last(connection: Connection, place: int) -> list[Run]:
    """Returns the runs that evaluations met, then all others, newest first."""
    met = recent_runs(connection)
    if place < len(met):
        return queries.load_runs(connection, queries.has_id(met[place]))
    evaluations = queries.of_kinds(RunKind.EVALUATION)
    if not met:
        return queries.load_runs(connection, evaluations, limit=1, offset=place)
    newest = queries.load_runs(connection, evaluations, limit=place + 1)
    others = [run for run in newest if run.id not in met]
    return others[place - len(met) :][:1]


def _newest_ids(connection: Connection) -> list[str]:
    """Returns ids among which a mistyped one may be found."""
    query = select(schema.runs.c.id).order_by(schema.runs.c.seq.desc()).limit(1000)
    return [str(row.id) for row in connection.execute(query)]


def _hint_for_missing(connection: Connection, store: str, *, relative: bool) -> str | None:
    query = select(func.count()).select_from(schema.runs).where(queries.of_kinds(*MEASURED_KINDS))
    count = connection.execute(query).scalar()
    if count == 0:
        return f"The store {store} has no runs yet."
    return f"The store {store} has {count} runs." if relative else None
