"""Rows as a table of columns: a query reads a few columns of all rows, and a row is made when it is looked at."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, overload

import numpy as np
from numpy.typing import NDArray

from zoolens.findings.index.tables.array_file import Arrays
from zoolens.findings.index.tables.dictionary_column import (
    DictionaryColumn,
    dictionary_column,
    empty_column,
    stacked_columns,
)
from zoolens.findings.index.tables.figure_table import (
    FigureTable,
    RowFigures,
    figure_table_from,
    figure_table_of,
    stacked_figure_tables,
)
from zoolens.findings.index.tables.rows import Attribute, Figure, Row

_NAMING: Final = ("key", "model", "ref", "also")  # columns that every table has


@dataclass(frozen=True, eq=False)
class RowTable(Sequence[Row]):
    """`columns`: key, model, ref and also (as JSON), and whatever else is to be remembered of rows."""

    columns: Mapping[str, DictionaryColumn]
    attributes: Mapping[str, DictionaryColumn]
    figures: FigureTable
    signed: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.signed)

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Row]: ...
    def __getitem__(self, place: int | slice) -> Row | Sequence[Row]:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        # Counts from the end, and refuses what is beyond it.
        row = range(len(self))[place]
        key, model, ref, also = (self.columns[name][row] for name in _NAMING)
        known = {name: value for name, column in self.attributes.items() if (value := column[row]) is not None}
        return Row(
            str(key), str(model), str(ref), known, RowFigures(self.figures, row), bool(self.signed[row]),
            tuple(json.loads(str(also))) if also is not None else (),
        )  # fmt: skip

    def __iter__(self) -> Iterator[Row]:
        return (self[row] for row in range(len(self)))

    @cached_property
    def refs(self) -> tuple[str, ...]:
        """Every reference that a row has."""
        return tuple(str(ref) for ref in self.columns["ref"].values)

    def attribute(self, name: str) -> DictionaryColumn:
        return self.attributes.get(name) or empty_column(len(self))

    @cached_property
    def models(self) -> NDArray[np.int64]:
        """The first row of each row's model: its rows in several runtimes, in several formats, and under several names
        share it. Models of one name in different folders, or of different manifests, are different models."""
        place = self.columns["ref"].codes.astype(np.int64)
        for name in ("folder", "file", "training"):
            codes = self.attribute(name).codes
            place = np.unique(place * (int(codes.max(initial=0)) + 2) + codes + 1, return_inverse=True)[1]
        leads = np.arange(len(self))
        while True:
            before = leads
            for kind in (place, self.columns["model"].codes):
                least = np.full(int(kind.max(initial=-1)) + 1, len(self))
                np.minimum.at(least, kind, leads)
                leads = least[kind]
            if np.array_equal(before, leads):
                return leads

    def take(self, rows: NDArray[np.int64]) -> RowTable:
        if np.array_equal(rows, np.arange(len(self))):
            return self
        return RowTable(
            {name: column.take(rows) for name, column in self.columns.items()},
            {name: taken for name, column in self.attributes.items() if (taken := column.take(rows)).values},
            self.figures.take(rows),
            self.signed[rows],
        )

    def where(self, kept: NDArray[np.bool_]) -> RowTable:
        return self.take(np.flatnonzero(kept))

    def with_column(self, name: str, values: Iterable[Attribute | None]) -> RowTable:
        return replace(self, columns={**self.columns, name: dictionary_column(values, len(self))})

    def with_figures(self, added: Mapping[int, Mapping[str, Figure]]) -> RowTable:
        """Add figures to some rows, which are given by number. A figure of the same name is replaced."""
        if not added:
            return self
        kept = self.figures.without((row, name) for row, own in added.items() for name in own)
        more = figure_table_of([added.get(row, {}) for row in range(len(self))])
        both = stacked_figure_tables([kept, more])
        rows = np.where(both.rows >= len(self), both.rows - len(self), both.rows).astype(np.int32)
        order = np.lexsort((rows, both.name.codes))
        return replace(self, figures=both._chosen(len(self), order, rows))

    def arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {"signed": self.signed, **self.figures.arrays()}
        for kind, columns in (("column", self.columns), ("attribute", self.attributes)):
            for name, column in columns.items():
                arrays[f"{kind}_codes {name}"], arrays[f"{kind}_values {name}"] = column.codes, column.packed()
        return arrays


def table_from(arrays: Arrays) -> RowTable:
    """The table from the arrays that `RowTable.arrays` returned."""
    signed = arrays["signed"].astype(np.bool_)

    def columns(kind: str) -> dict[str, DictionaryColumn]:
        start = f"{kind}_codes "
        names = [name.removeprefix(start) for name in arrays if name.startswith(start)]
        return {
            name: DictionaryColumn(arrays[f"{kind}_values {name}"], arrays[f"{kind}_codes {name}"]) for name in names
        }

    return RowTable(columns("column"), columns("attribute"), figure_table_from(arrays, len(signed)), signed)


def table_of(rows: Sequence[Row]) -> RowTable:
    n = len(rows)
    names = dict.fromkeys(name for row in rows for name in row.attributes)
    naming: dict[str, Iterable[Attribute | None]] = {
        "key": (row.key for row in rows),
        "model": (row.model for row in rows),
        "ref": (row.ref for row in rows),
        "also": (json.dumps(row.also) if row.also else None for row in rows),
    }
    return RowTable(
        {name: dictionary_column(values, n) for name, values in naming.items()},
        {name: dictionary_column((row.attributes.get(name) for row in rows), n) for name in names},
        figure_table_of([row.figures for row in rows]),
        np.array([row.signature for row in rows], np.bool_),
    )


def stacked_tables(tables: Sequence[RowTable]) -> RowTable:
    """Stack tables: the rows of each follow those of the table before. A table without rows still adds its columns."""
    filled = [table for table in tables if len(table)] or list(tables[:1])

    def columns(kind: str) -> dict[str, DictionaryColumn]:
        names = dict.fromkeys(name for table in tables for name in getattr(table, kind))
        return {
            name: stacked_columns([getattr(table, kind).get(name) or empty_column(len(table)) for table in filled])
            for name in names
        }

    if len(filled) == 1:
        only = filled[0]
        further = {
            name: empty_column(len(only)) for table in tables for name in table.columns if name not in only.columns
        }
        return replace(only, columns={**only.columns, **further})
    return RowTable(
        columns("columns"),
        columns("attributes"),
        stacked_figure_tables([table.figures for table in filled]),
        np.concatenate([table.signed for table in filled]),
    )
