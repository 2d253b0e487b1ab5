"""Figures of many rows as columns: a query compares the numbers of all rows, and shows the figures of a few.

Rows have dozens of figures, but not the same ones (those about data bear its name), so that only those that are there
are kept: sorted by name, then by row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.store.records import Provenance
from zoolens.findings.index.tables.array_file import Arrays
from zoolens.findings.index.tables.chosen_figures import Choice, ChosenFigures
from zoolens.findings.index.tables.dictionary_column import DictionaryColumn, code_type, stacked_columns
from zoolens.findings.index.tables.rows import Figure

_PROVENANCES: Final = tuple(Provenance)
_PLACE: Final = {provenance: place for place, provenance in enumerate(_PROVENANCES)}
_MEASURED: Final = _PLACE[Provenance.MEASURED]
_DISTURBED: Final = 0x80  # a bit beside the place of the provenance
_PLAIN: Final = 0x7F  # the other bits
_NUMBERS: Final = ("value", "low", "high", "error")
# Of an entry that is being made: name, row, unit, source, provenance, and the numbers.
_TYPES: Final = (*4 * (np.int32,), np.uint8, *len(_NUMBERS) * (np.float64,))


@dataclass(frozen=True, eq=False)
class FigureTable:
    """The figures of `n` rows. There is one entry for each figure: whose it is, its name, its unit and where it is from
    by number, its provenance (with whether it was disturbed), and up to four numbers (value, low, high, error), NaN
    where it has none."""

    n: int
    rows: NDArray[np.int32]
    name: DictionaryColumn
    unit: DictionaryColumn
    source: DictionaryColumn
    provenance: NDArray[np.uint8]
    numbers: Mapping[str, NDArray[np.float64]]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(str(name) for name in self.name.values)

    @cached_property
    def _spans(self) -> dict[str, slice]:
        """For each name, the slice of its entries."""
        ends = np.cumsum(np.bincount(self.name.codes, minlength=len(self.names))).tolist()
        return {name: slice(start, end) for name, start, end in zip(self.names, [0, *ends], ends, strict=False)}

    @cached_property
    def units(self) -> dict[str, str]:
        """The unit of each name, as the first row with that figure has it."""
        return {name: str(self.unit[span.start]) for name, span in self._spans.items()}

    def values(self, name: str) -> NDArray[np.float64]:
        """The figure of every row as a number; NaN where a row has none."""
        values = np.full(self.n, np.nan)
        span = self._spans.get(name, slice(0))
        values[self.rows[span]] = self.numbers["value"][span]
        return values

    def interval(self, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The lower and the upper end of every row's interval; NaN where a row has none."""
        span = self._spans.get(name, slice(0))
        ends = (np.full(self.n, np.nan), np.full(self.n, np.nan))
        for end, kind in zip(ends, ("low", "high"), strict=True):
            if kind in self.numbers:
                end[self.rows[span]] = self.numbers[kind][span]
        return ends

    def measured(self, name: str) -> NDArray[np.bool_]:
        """The rows whose figure was measured, neither claimed nor estimated."""
        measured = np.zeros(self.n, np.bool_)
        span = self._spans.get(name, slice(0))
        measured[self.rows[span]] = self.provenance[span] & _PLAIN == _MEASURED
        return measured

    def disturbed(self, name: str) -> NDArray[np.bool_]:
        """The rows whose figure is a timing with too few clean samples."""
        disturbed = np.zeros(self.n, np.bool_)
        span = self._spans.get(name, slice(0))
        disturbed[self.rows[span]] = self.provenance[span] & _DISTURBED != 0
        return disturbed

    def known(self, name: str) -> NDArray[np.bool_]:
        mask = np.zeros(self.n, np.bool_)
        mask[self.rows[self._spans.get(name, slice(0))]] = True
        return mask

    def place(self, row: int, name: str) -> int | None:
        """Where the entry of a row stands; None where it has no such figure."""
        span = self._spans.get(name)
        if span is None:
            return None
        place = int(span.start + np.searchsorted(self.rows[span], row))
        return place if place < span.stop and self.rows[place] == row else None

    def figure(self, row: int, name: str) -> Figure | None:
        place = self.place(row, name)
        if place is None:
            return None
        value = self.numbers["value"].item(place)
        low, high, error = (self._number(name, place) for name in ("low", "high", "error"))
        flags = self.provenance.item(place)
        provenance, source = _PROVENANCES[flags & _PLAIN], str(self.source[place])
        return Figure(value, str(self.unit[place]), provenance, low, high, error, source, bool(flags & _DISTURBED))

    def _number(self, kind: str, place: int) -> float | None:
        number = self.numbers[kind].item(place) if kind in self.numbers else math.nan
        return None if math.isnan(number) else number

    def take(self, rows: NDArray[np.int64]) -> FigureTable:
        """The figures of these rows, numbered by their place in `rows`."""
        number = np.full(self.n, -1, np.int32)
        number[rows] = np.arange(len(rows), dtype=np.int32)
        renumbered = number[self.rows]
        kept = np.flatnonzero(renumbered >= 0)
        if not np.all(np.diff(rows) > 0):
            kept = kept[np.lexsort((renumbered[kept], self.name.codes[kept]))]
        return self._chosen(len(rows), kept, renumbered)

    def _chosen(self, n: int, kept: NDArray[np.int64], rows: NDArray[np.int32]) -> FigureTable:
        """The entries `kept`, put in order, with the row numbers that `rows` gives."""
        if len(kept) == len(rows) and np.array_equal(kept, np.arange(len(kept))):
            return replace(self, n=n, rows=rows)
        return FigureTable(
            n, rows[kept], self.name.take(kept), self.unit.take(kept), self.source.take(kept), self.provenance[kept],
            {name: numbers[kept] for name, numbers in self.numbers.items()},
        )  # fmt: skip

    def without(self, entries: Iterable[tuple[int, str]]) -> FigureTable:
        """The table without the figures of the given rows and names."""
        gone = {self.place(row, name) for row, name in entries} - {None}
        if not gone:
            return self
        kept = np.delete(np.arange(len(self.rows)), sorted(place for place in gone if place is not None))
        return self._chosen(self.n, kept, self.rows)

    def arrays(self) -> dict[str, NDArray[Any]]:
        texts = {"name": self.name, "unit": self.unit, "source": self.source}
        return {
            "figure_rows": self.rows,
            "figure_provenance": self.provenance,
            **{f"figure_{name}": numbers for name, numbers in self.numbers.items()},
            **{f"figure_{name}_codes": column.codes for name, column in texts.items()},
            **{f"figure_{name}_values": column.packed() for name, column in texts.items()},
        }


def figure_table_from(arrays: Arrays, n: int) -> FigureTable:
    """The table from the arrays that `FigureTable.arrays` returned."""
    name, unit, source = (
        DictionaryColumn(arrays[f"figure_{text}_values"], arrays[f"figure_{text}_codes"])
        for text in ("name", "unit", "source")
    )
    numbers = {kind: arrays[f"figure_{kind}"] for kind in _NUMBERS if f"figure_{kind}" in arrays}
    return FigureTable(n, arrays["figure_rows"], name, unit, source, arrays["figure_provenance"], numbers)


def figure_table_of(figures: Sequence[Mapping[str, Figure]]) -> FigureTable:
    """A table with one row for each mapping."""
    entries = _Entries()
    for row, own in enumerate(figures):
        if isinstance(own, ChosenFigures):
            entries.choose(row, own)
            own = own.further
        for name, figure in own.items():
            entries.add(row, name, figure)
    return entries.table(len(figures))


class _Entries:
    """Entries of a table that is being made. Names, units and sources are numbered in the order in which they come."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._units: dict[str, int] = {}
        self._sources: dict[str, int] = {}
        self._single: list[tuple[Any, ...]] = []
        self._chosen: dict[Choice, _ChosenRows] = {}
        self._numbers: list[float | None] = []

    def add(self, row: int, name: str, figure: Figure) -> None:
        names, units, sources = self._names, self._units, self._sources
        self._single.append(
            (names.setdefault(name, len(names)), row, units.setdefault(figure.unit, len(units)),
             sources.setdefault(figure.source, len(sources)), _flags(figure.provenance, disturbed=figure.disturbed),
             figure.value, figure.low, figure.high, figure.error)
        )  # fmt: skip

    def choose(self, row: int, figures: ChosenFigures) -> None:
        choice, sources, numbers = figures.choice, self._sources, self._numbers
        rows = self._chosen.get(choice)
        if rows is None:
            rows = self._chosen[choice] = self._rows_of(choice)
        source, start = [0] * len(figures.sources), [0] * len(figures.sources)
        for run in choice.used:
            source[run] = sources.setdefault(figures.sources[run], len(sources))
            start[run] = len(numbers)
            numbers += figures.numbers[run]
        rows.rows.append(row)
        rows.sources.append(source)
        rows.starts.append(start)

    def _rows_of(self, choice: Choice) -> _ChosenRows:
        names, units = self._names, self._units
        flags = map(_flags, choice.provenances, choice.disturbed)
        return _ChosenRows(
            choice,
            np.array([names.setdefault(name, len(names)) for name in choice.names], np.int32),
            np.array([units.setdefault(unit, len(units)) for unit in choice.units], np.int32),
            np.array(list(flags), np.uint8),
        )

    def table(self, n: int) -> FigureTable:
        numbers = np.array(self._numbers, np.float64)  # None becomes NaN
        single = list(zip(*self._single, strict=True)) or [()] * len(_TYPES)
        parts = [[np.array(column, kind) for column, kind in zip(single, _TYPES, strict=True)]]
        parts += [chosen.columns(numbers) for chosen in self._chosen.values()]
        name, row, unit, source, flags, *values = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.lexsort((row, name))
        return FigureTable(
            n, row[order], _coded(self._names, name[order]), _coded(self._units, unit[order]),
            _coded(self._sources, source[order]), flags[order],
            {
                kind: column[order]
                for kind, column in zip(_NUMBERS, values, strict=True)
                if kind == "value" or not np.isnan(column).all()
            },
        )  # fmt: skip


@dataclass
class _ChosenRows:
    """Rows of one choice. Of each row: the sources of its runs by number, and where the numbers of each run start."""

    choice: Choice
    names: NDArray[np.int32]
    units: NDArray[np.int32]
    flags: NDArray[np.uint8]
    rows: list[int] = field(default_factory=list)
    sources: list[list[int]] = field(default_factory=list)
    starts: list[list[int]] = field(default_factory=list)

    def columns(self, numbers: NDArray[np.float64]) -> list[NDArray[Any]]:
        """The entries of all rows, in the order in which `_Entries.table` takes them."""
        count, runs = len(self.rows), self.choice.run_array
        places = (np.array(self.starts, np.intp)[:, runs] + self.choice.place_array).ravel()
        return [
            np.tile(self.names, count), np.repeat(np.array(self.rows, np.int32), len(runs)), np.tile(self.units, count),
            np.array(self.sources, np.int32)[:, runs].ravel(), np.tile(self.flags, count),
            numbers[places], numbers[places + 1], numbers[places + 2], np.full(len(places), np.nan),
        ]  # fmt: skip


def _coded(values: Mapping[str, int], codes: NDArray[np.int32]) -> DictionaryColumn:
    return DictionaryColumn(tuple(values), codes.astype(code_type(len(values))))


def _flags(provenance: Provenance, disturbed: bool) -> int:
    return _PLACE[provenance] | (_DISTURBED if disturbed else 0)


def stacked_figure_tables(parts: Sequence[FigureTable]) -> FigureTable:
    """Stack tables: the rows of each table follow those of the table before."""
    starts = np.cumsum([0, *(part.n for part in parts)], dtype=np.int32)
    name = stacked_columns([part.name for part in parts])
    # Rows are in order already.
    order = np.argsort(name.codes, kind="stable")
    rows = np.concatenate([part.rows + start for part, start in zip(parts, starts, strict=False)])
    # One column after the other, since each is there twice while it is put in order.
    return FigureTable(
        int(starts[-1]), rows[order], name.take(order), stacked_columns([part.unit for part in parts]).take(order),
        stacked_columns([part.source for part in parts]).take(order),
        np.concatenate([part.provenance for part in parts])[order],
        {kind: _joined(parts, kind)[order] for kind in _NUMBERS if any(kind in part.numbers for part in parts)},
    )  # fmt: skip


def _joined(parts: Sequence[FigureTable], kind: str) -> NDArray[np.float64]:
    missing = np.full(max(len(part.rows) for part in parts), np.nan)
    return np.concatenate([part.numbers.get(kind, missing[: len(part.rows)]) for part in parts])


class RowFigures(Mapping[str, Figure]):
    """The figures of one row, each made when it is looked at."""

    __slots__ = ("_columns", "_row")

    def __init__(self, columns: FigureTable, row: int) -> None:
        self._columns, self._row = columns, row

    def __getitem__(self, name: str) -> Figure:
        figure = self._columns.figure(self._row, name)
        if figure is None:
            raise KeyError(name)
        return figure

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._columns.names if self._columns.place(self._row, name) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))
