"""Rows of measured models, kept from one query to the next: a row is worked out again when one of its runs changed.

What a row is made of: the runs of one model in one environment, the names of the model, the structure that belongs to
it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zoolens.base.store.state import Newest
from zoolens.findings.index.sources.class_spaces import Space
from zoolens.findings.index.tables.array_file import read_arrays, write_arrays
from zoolens.findings.index.tables.row_table import RowTable, table_from, table_of
from zoolens.findings.index.tables.rows import Row

Group = tuple[str, str]  # fingerprints of a model and an environment


@dataclass(frozen=True)
class MadeRow:
    """A row, and what it depends on."""

    group: Group
    probe: str | None  # the run whose answers to the probes it has
    structure: str | None  # the run of its structure
    architectures: tuple[str, ...]  # whose structures it may have
    row: Row
    space: Space | None  # which classes it answers
    fleeting: bool = False  # it depends on a file besides the store, so it is not kept


def made_table(made: Sequence[MadeRow]) -> RowTable:
    """Rows with further columns for what they depend on."""
    return (
        table_of([built.row for built in made])
        .with_column("stack", (built.group[1] for built in made))
        .with_column("probe", (built.probe for built in made))
        .with_column("structure", (built.structure for built in made))
        .with_column("architectures", (json.dumps(built.architectures) for built in made))
        .with_column("space", (None if built.space is None else _space_text(built.space) for built in made))
        .with_column("fleeting", (True if built.fleeting else None for built in made))
    )


def _space_text(space: Space) -> str:
    return json.dumps([space.name, space.width, space.problem, space.translation is not None])


@dataclass(frozen=True)
class RecordedSpace:
    """What is remembered of a `Space`. `misjudged`: its answers have to be put in the dataset's order of classes."""

    name: str | None = None
    width: int | None = None
    problem: str = ""
    misjudged: bool = False


def recorded_spaces(table: RowTable) -> list[RecordedSpace]:
    """The recorded class space of each different value of the column `space`."""
    return [RecordedSpace(*json.loads(str(value))) for value in table.columns["space"].values]


@dataclass(frozen=True)
class KeptRows:
    """Rows of a cache file. `mark` is the last change of the store that they know, `newest` its last entries then."""

    mark: int
    newest: Newest
    table: RowTable


@dataclass(frozen=True)
class RowsFile:
    """A cache file of rows. `shared_names`: names that several datasets share, as they were before the names of
    datasets were read. Figures of such datasets have other names, so that the file fits no others."""

    path: Path
    shared_names: Sequence[str]

    def read(self) -> KeptRows | None:
        """The rows; None where the file does not fit."""
        kept = read_arrays(self.path, self._about)
        if kept is None:
            return None
        return KeptRows(int(kept.details["mark"]), Newest(*kept.details["newest"]), table_from(kept.arrays))

    def write(self, rows: KeptRows) -> None:
        lasting = rows.table.where(rows.table.columns["fleeting"].codes < 0)
        details = {"mark": rows.mark, "newest": rows.newest}
        write_arrays(self.path, self._about, details, lasting.arrays())

    @property
    def _about(self) -> dict[str, list[str]]:
        return {"shared_names": list(self.shared_names)}


def still_true(
    table: RowTable, models: Collection[str], structures: Collection[str], refs: Collection[str]
) -> NDArray[np.bool_]:
    """The rows that nothing new is known of: neither of their model, nor of a structure that may be theirs."""
    architectures = table.columns["architectures"]
    touched = [not set(json.loads(str(value))).isdisjoint(structures) for value in architectures.values]
    changed = table.columns["model"].rows_among(models) | table.columns["ref"].rows_among(refs)
    return ~(changed | architectures.rows_where(touched))
