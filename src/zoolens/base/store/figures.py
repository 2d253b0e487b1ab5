"""The numbers of very many observations at once, without their details: what the index is made of.

A hundred thousand runs have two million observations, which take a minute to read. So the numbers of each run are also
kept in one text, a row of the table `figures`, which takes a twentieth of that. The text is written in the transaction
that adds observations to its run, and observations never change: only an edit by hand can make it stale. It bears a
checksum like every row, and `zoolens store check` makes every text anew and compares.

The text is two lines of JSON: first what each figure is (stage, metric, scope, unit; also provenance and disturbed,
unless it was measured undisturbed), which many runs have in common, so that it is parsed once; then the three numbers
of each (value, low, high).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Select, Text, bindparam, cast, delete, func, insert, select

from zoolens.base.store.checksums import (
    COLUMN,
    FIGURE,
    FIGURE_SHIFT,
    DamagedRow,
    checked_rows,
    checksum,
    figure_checksum,
)
from zoolens.base.store.queries import in_chunks
from zoolens.base.store.records import DISTURBED, Provenance
from zoolens.base.store.schema import figures, observations
from zoolens.base.store.scopes import RAW, Dimension
from zoolens.base.store.statements import everything

_AT_ONCE: Final = 5_000  # runs a statement
_TIMINGS: Final = ("latency_", "throughput")
_PLAIN: Final[list[Any]] = [Provenance.MEASURED.value, False]  # provenance and disturbed of most figures
_KINDS_KEPT: Final = 4_096  # first lines of texts
# The text of a run that had a damaged observation when the text was made: who reads its figures is told.
_DAMAGED: Final = "damaged"


class FigureKind(NamedTuple):
    """What a figure is, apart from its numbers. `disturbed`: see `records.is_disturbed`."""

    stage: str
    metric: str
    scope: str
    unit: str
    provenance: Provenance
    disturbed: bool


@dataclass(frozen=True, eq=False)
class FigureKinds:
    """What each figure of a run is. It is compared as an object: runs with the same figures share one, and to compare
    dozens of texts for each of very many runs would take longer than what is kept under it saves."""

    each: tuple[FigureKind, ...]

    def __iter__(self) -> Iterator[FigureKind]:
        return iter(self.each)


class RunFigures(NamedTuple):
    """The figures of a run in the order in which they were stored: what each is, and its value, low and high, one after
    the other. Runs with the same figures have the same object in `kinds`."""

    run: str
    kinds: FigureKinds
    numbers: list[float | None]


def load_figures(connection: Connection, runs: Collection[str]) -> Iterator[RunFigures]:
    """The figures of those runs that have any. Figures of single classes and raw timings are left out."""
    # It reads numbers three times as quickly as `json` and to the same last bit. Imported here: other uses of a store
    # should not wait for it.
    from pydantic_core import from_json

    for some in in_chunks(runs, _AT_ONCE):
        found = set()
        result = connection.execute(_of_runs(), {"runs": some})
        for run, text, _ in checked_rows(figures.name, result):
            found.add(run)
            if text == _DAMAGED:
                raise DamagedRow(f"an observation of run {run} does not match its checksum")
            kinds, _, numbers = text.partition("\n")
            yield RunFigures(run, _kinds(kinds), from_json(numbers))
        # Damage may also make rows vanish. Few runs have none, so that looking for their observations costs little.
        for run in _texts(connection, [run for run in some if run not in found]):
            raise DamagedRow(f"the figures of run {run} are missing")


@cache
def _of_runs() -> Select[Any]:
    """One statement for all chunks, with the ids as one parameter: SQLAlchemy would look at each of them otherwise."""
    return everything(figures).where(figures.c.run_id.in_(bindparam("runs", type_=Text(), expanding=True)))


@lru_cache(_KINDS_KEPT)
def _kinds(text: str) -> FigureKinds:
    kinds = []
    for stage, metric, scope, unit, *rest in json.loads(text):
        provenance, disturbed = rest or _PLAIN
        kinds.append(FigureKind(stage, metric, scope, unit, Provenance(provenance), disturbed))
    return FigureKinds(tuple(kinds))


def keep_figures(connection: Connection, runs: Collection[str]) -> None:
    """Write the figures of some runs anew, after observations were added to them. The caller holds the runs."""
    for some in in_chunks(runs, _AT_ONCE):
        connection.execute(delete(figures).where(figures.c.run_id.in_(some)))
        made = [{"run_id": run, "text": text} for run, text in _texts(connection, some).items()]
        if made:
            connection.execute(insert(figures), [{**row, COLUMN: checksum(figures.name, row)} for row in made])


def stale_figures(connection: Connection, runs: Collection[str]) -> list[str]:
    """Those of the runs whose text is not what their observations give. Runs with damaged observations are left out."""
    kept = connection.execute(select(figures.c.run_id, figures.c.text).where(figures.c.run_id.in_(runs)))
    texts = {row.run_id: row.text for row in kept}
    made = _texts(connection, runs)
    return [run for run in runs if made.get(run) != _DAMAGED and made.get(run) != texts.get(run)]


def _texts(connection: Connection, runs: Collection[str]) -> dict[str, str]:
    """The texts of those runs that have figures, from their observations."""
    column = observations.c
    # There may be thousands of figures of single classes. Not LIKE, which ignores case in SQLite.
    single_class = func.substr(column.scope, 1, len(Dimension.CLASS.prefix)) == Dimension.CLASS.prefix
    details = cast(column.details, Text).label("details")
    query = select(*(column[name] for name in FIGURE), column.checksum, details)
    query = query.where(column.run_id.in_(runs), column.value.is_not(None), ~single_class).order_by(column.seq)
    kinds: dict[str, list[list[Any]]] = {}
    numbers: dict[str, list[float | None]] = {}
    broken: set[str] = set()
    for row in connection.execute(query):
        run, stage, metric, scope, *values, unit, provenance, written, details_text = row
        if written is None or written >> FIGURE_SHIFT != figure_checksum(row[: len(FIGURE)]):
            broken.add(run)
        if scope.endswith(RAW):
            continue
        # As `records.is_disturbed` says it, without parsing details: older runs say "fewer than 20 undisturbed …".
        rest = [provenance, DISTURBED in details_text and metric.startswith(_TIMINGS)]
        kinds.setdefault(run, []).append([stage, metric, scope, unit, *(rest if rest != _PLAIN else ())])
        # SQLite keeps no sign of zero.
        numbers.setdefault(run, []).extend(None if value is None else value + 0.0 for value in values)
    return {
        run: _DAMAGED if run in broken else f"{_json(kinds[run])}\n{_json(numbers[run])}"
        for run in kinds.keys() | broken
    }


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
