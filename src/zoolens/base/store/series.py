"""Series: what happened during a run, in the order of time. Events, spans and samples are rows of Parquet files.

A series has a name within its run, such as "spans". It is appended to in pieces, each a table with the same columns;
a piece becomes visible as a whole. Every row has a column "time": nanoseconds since the Unix epoch. Further columns
are the writer's own; a span adds "duration", also in nanoseconds.

    append_series(store, run.id, "spans", pa.table({"time": [...], "duration": [...], "name": [...]}))
    read_series(store, run.id, "spans", start=..., end=...)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.store.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

TIME: Final = "time"
_PREFIX: Final = "series-"  # before the name of a series, in the kind of its parts
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]*")


def append_series(store: Store, run_id: str, name: str, piece: pa.Table) -> int:
    """Store a piece behind the ones that are there, and return its number. Several processes may append at once; the
    pieces are then in the order in which they arrived, and readers sort the rows by time."""
    _check(name, piece)
    last = store.last_part(run_id, _kind(name))
    number = 0 if last is None else last + 1
    while not store.add_part(run_id, _kind(name), number, piece):  # another process took this number
        number += 1
    return number


def write_series(store: Store, run_id: str, name: str, whole: pa.Table) -> bool:
    """Store a series that is never appended to. False: it is there already, perhaps from another process, and stays."""
    _check(name, whole)
    return store.add_part(run_id, _kind(name), 0, whole)


def read_series(store: Store, run_id: str, name: str, *, start: int | None = None, end: int | None = None) -> pa.Table:
    """All rows of a series by time, or those with start ≤ time < end."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if name not in series_names(store, run_id):
        raise UnknownName("series", name, series_names(store, run_id))
    pieces = []
    for piece in store.iter_tables(run_id, _kind(name)):
        wanted = pc.and_(
            pc.greater_equal(piece[TIME], _LEAST if start is None else start),
            pc.less(piece[TIME], _MOST if end is None else end),
        )
        pieces.append(piece.filter(wanted))
    return pa.concat_tables(pieces, promote_options="permissive").sort_by(TIME)


def series_names(store: Store, run_id: str) -> list[str]:
    """Which series a run has."""
    return [kind.removeprefix(_PREFIX) for kind in store.kinds(run_id) if kind.startswith(_PREFIX)]


_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1


def _kind(name: str) -> str:
    return f"{_PREFIX}{name}"


def _check(name: str, piece: pa.Table) -> None:
    import pyarrow as pa

    if not _NAME.fullmatch(name):
        raise ZoolensError(
            f"A series cannot be named {name!r}.", hint="Use small letters, digits, hyphens and underscores."
        )
    if TIME not in piece.column_names or piece.schema.field(TIME).type != pa.int64():
        raise ZoolensError(
            f"The series {name!r} has no column {TIME!r} of 64-bit integers.",
            hint="Give each row its time in nanoseconds since the Unix epoch.",
        )
