"""Which place holds the bulk facts of a PostgreSQL store: recorded in the database, and marked in the place itself.

A forgotten or mistyped $ZOOLENS_BULK would write files where nobody reads them. The name of a place does not tell: one
share is mounted under several paths, one bucket is reached through several endpoints, and the default folder has the
same name on every machine. So the first writer puts a small file with a random name into the place and records that
name. A place with that file is the right one, whatever it is called, also after it was moved as a whole.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass
from typing import Final

from sqlalchemy import Connection, select, update

from zoolens.base.errors import StoreError
from zoolens.base.store import schema
from zoolens.base.store.bulk_place import MARKER, BulkPlace
from zoolens.base.store.database import Database
from zoolens.base.store.part_rows import any_name

_KEY: Final = "bulk place"  # in the table `about`


@dataclass(frozen=True)
class RecordedPlace:
    """`name`: as people are told of it, without credentials."""

    token: str
    name: str

    @property
    def marker(self) -> str:
        return f"{MARKER}{self.token}"


def recorded_place(connection: Connection) -> RecordedPlace | None:
    value = connection.execute(select(schema.about.c.value).where(schema.about.c.key == _KEY)).scalar()
    return None if value is None else RecordedPlace(**json.loads(value))


def required_place(database: Database, place: BulkPlace) -> RecordedPlace:
    """The record of this place, made by the first writer. StoreError: the bulk facts of the store lie elsewhere."""
    known = database.read(recorded_place)
    if known is None:
        # A store of before places were recorded: its files tell.
        written = database.read(any_name)
        if written is not None and not place.has(written):
            raise _unrecorded(database.name, place)
        return record_place(database, place)
    if not place.has(known.marker):
        raise elsewhere(database.name, place, known)
    return known


def record_place(database: Database, place: BulkPlace, *, instead: bool = False) -> RecordedPlace:
    """Marks a place and records it. `instead`: of the one that is recorded, whose files are there by now."""
    ours = RecordedPlace(secrets.token_hex(8), place.name)
    # Before its row: a crash in between leaves a file that nobody asks for, never a row that no place satisfies.
    place.put(ours.marker, b"A place of bulk facts of a zoolens store.\n")

    def record(connection: Connection) -> RecordedPlace:
        about = schema.about
        value = json.dumps(asdict(ours))
        if connection.dialect.name == "postgresql":
            # Two who are first at the same time: the second waits here, and finds the record of the first.
            connection.exec_driver_sql("LOCK TABLE about IN SHARE ROW EXCLUSIVE MODE")
        known = recorded_place(connection)
        if known is None:
            connection.execute(about.insert().values(key=_KEY, value=value))
        elif instead:
            connection.execute(update(about).where(about.c.key == _KEY).values(value=value))
        else:
            return known
        return ours

    known = database._write(record)
    if known == ours:
        return ours
    place.remove(ours.marker)
    if not place.has(known.marker):
        raise elsewhere(database.name, place, known)
    return known


def refuse_moved(connection: Connection, place: RecordedPlace, store: str) -> None:
    """Raise StoreError where another place was recorded since this one was found right."""
    now = recorded_place(connection)
    if now is not None and now.token != place.token:
        raise StoreError(
            f"The bulk facts of {store} were moved to {now.name} while it was open.",
            hint="Set ZOOLENS_BULK to where they are now, then run the same command again.",
        )


def elsewhere(store: str, place: BulkPlace, known: RecordedPlace) -> StoreError:
    here = place.name
    which = f"{here} of this machine does not hold them" if here == known.name else f"{here} is another place"
    return StoreError(
        f"The store {store} keeps its bulk facts in {known.name}, and {which}.",
        hint="Set ZOOLENS_BULK to where they are. If you moved them yourself, `zoolens store moved` records it.",
    )


def _unrecorded(store: str, place: BulkPlace) -> StoreError:
    return StoreError(
        f"The store {store} has bulk facts, and they are not in {place.name}.",
        hint="Set ZOOLENS_BULK to where they are.",
    )


def missing_files(database: Database, place: BulkPlace) -> list[str]:
    """Names of the registered files that are not in a place."""
    there = frozenset(place.names())
    query = select(schema.parts.c.name).order_by(schema.parts.c.name)
    names = database.read(lambda connection: connection.execute(query).scalars().all())
    return [str(name) for name in names if name not in there]
