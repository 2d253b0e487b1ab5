"""Figures of many kept rows: the numbers of all as one matrix, everything else as text that is parsed when looked at.

A query compares the numbers of all rows and shows the figures of a few.
"""

from __future__ import annotations

import base64
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.index.rows import Figure
from zoolens.store.records import Provenance

_PROVENANCE: Final = {str(one): one for one in Provenance}


@dataclass(frozen=True, eq=False)
class FigureMatrix:
    """`values[name, row]`, NaN where a row has no such figure; `units` in the order of `names`."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    values: NDArray[np.float64]

    @cached_property
    def places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    def packed(self) -> bytes:
        file = io.BytesIO()
        np.savez(file, names=np.array(json.dumps([self.names, self.units])), values=self.values)
        return file.getvalue()


def unpacked(content: bytes) -> FigureMatrix:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        names, units = json.loads(str(arrays["names"]))
        return FigureMatrix(tuple(names), tuple(units), arrays["values"])


def units_of(figures: Iterable[Mapping[str, Figure]]) -> dict[str, str]:
    """The name of every figure that one of the rows may have, with its unit."""
    units: dict[str, str] = {}
    seen: set[int] = set()
    for one in figures:
        if not isinstance(one, KeptFigures):
            units |= {name: figure.unit for name, figure in one.items() if name not in units}
        elif id(one.matrix) not in seen:
            seen.add(id(one.matrix))
            units |= {
                name: unit for name, unit in zip(one.matrix.names, one.matrix.units, strict=True) if name not in units
            }
    return units


def matrix_of(figures: Sequence[Mapping[str, Figure]]) -> FigureMatrix:
    """One column a mapping. Columns of kept rows are copied, without parsing a figure."""
    units = units_of(figures)
    sources = {id(one.matrix): one.matrix for one in figures if isinstance(one, KeptFigures)}
    places = {name: place for place, name in enumerate(units)}
    values = np.full((len(units), len(figures)), np.nan)
    for number, matrix in sources.items():
        here = np.array([place for place, one in enumerate(figures) if _is_from(one, number)], np.int64)
        there = np.array([one.column for one in figures if isinstance(one, KeptFigures) and _is_from(one, number)])
        rows = np.array([places[name] for name in matrix.names], np.int64)
        values[np.ix_(rows, here)] = matrix.values[:, there]
    for column, one in enumerate(figures):
        if not isinstance(one, KeptFigures):
            for name, figure in one.items():
                values[places[name], column] = figure.value
    used = ~np.isnan(values).all(axis=1) if len(figures) else np.zeros(len(units), np.bool_)
    kept = [place for place in range(len(units)) if used[place]]
    names = tuple(units)
    return FigureMatrix(
        tuple(names[place] for place in kept), tuple(units[names[place]] for place in kept), values[kept]
    )


def _is_from(figures: Mapping[str, Figure], matrix: int) -> bool:
    return isinstance(figures, KeptFigures) and id(figures.matrix) == matrix


class KeptFigures(Mapping[str, Figure]):
    """The figures of one row of a matrix, parsed when the first of them is looked at."""

    __slots__ = ("_parsed", "column", "matrix", "text")

    def __init__(self, text: str, matrix: FigureMatrix, column: int) -> None:
        self.text, self.matrix, self.column = text, matrix, column
        self._parsed: dict[str, Figure] | None = None

    def _figures(self) -> dict[str, Figure]:
        if self._parsed is None:
            told = json.loads(zlib.decompress(base64.b64decode(self.text)))
            self._parsed = {name: _figure(one) for name, one in told.items()}
        return self._parsed

    def __getitem__(self, name: str) -> Figure:
        return self._figures()[name]

    def __contains__(self, name: object) -> bool:
        place = self.matrix.places.get(name) if isinstance(name, str) else None
        return place is not None and not np.isnan(self.matrix.values[place, self.column])

    def __iter__(self) -> Iterator[str]:
        return iter(self._figures())

    def __len__(self) -> int:
        return len(self._figures())

    def __repr__(self) -> str:
        return repr(self._figures())


def figures_text(figures: Mapping[str, Figure]) -> str:
    """Compressed to a quarter: there are dozens of figures to a row, and most are never looked at."""
    if isinstance(figures, KeptFigures):
        return figures.text
    told = json.dumps({name: _told(figure) for name, figure in figures.items()})
    return base64.b64encode(zlib.compress(told.encode(), 1)).decode()


def kept_figures(figures: Sequence[Mapping[str, Figure]]) -> list[KeptFigures]:
    """The same figures, in a matrix of their own and as text: a tenth of the memory."""
    matrix = matrix_of(figures)
    return [KeptFigures(figures_text(one), matrix, column) for column, one in enumerate(figures)]


def _told(figure: Figure) -> list[Any]:
    interval = [figure.low, figure.high, figure.error]
    return [figure.value, figure.unit, str(figure.provenance), *interval, figure.source]


def _figure(told: Iterable[Any]) -> Figure:
    value, unit, provenance, low, high, error, source = told
    return Figure(value, unit, _PROVENANCE[provenance], low, high, error, source)
