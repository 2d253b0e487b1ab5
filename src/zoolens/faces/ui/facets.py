"""Facets: the values that rows of a list have, and how many rows each would give."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.faces.ui.endpoint import Answer, Shown

Mask = NDArray[np.bool_]

MOST_VALUES: Final = 200  # of a facet


class FacetValue(Answer):
    """How many rows have this value, counted among those that fit all other facets and the search."""

    value: Shown
    count: int


class Facet(Answer):
    name: str
    values: list[FacetValue]


def facet_of(name: str, counts: Mapping[str, int], chosen: Collection[str]) -> Facet:
    """The most frequent values, and those that are chosen whether or not anything has them."""
    shown = dict(_most_frequent_first(counts)[:MOST_VALUES])
    for value in chosen:
        shown[value] = counts.get(value, 0)
    values = [FacetValue(value=value, count=number) for value, number in _most_frequent_first(shown)]
    return Facet(name=name, values=values)


def _most_frequent_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


@dataclass(frozen=True, eq=False)
class FacetColumn:
    """The values of one facet in all rows: row `rows[i]` has the value `values[codes[i]]`. A row may have several."""

    values: tuple[str, ...]
    rows: NDArray[np.int64]
    codes: NDArray[np.int64]
    length: int

    def having(self, chosen: Collection[str]) -> Mask:
        """Which rows have one of these values."""
        flags = np.array([value in chosen for value in self.values], np.bool_)
        mask = np.zeros(self.length, np.bool_)
        mask[self.rows[flags[self.codes]]] = True
        return mask

    def counts(self, mask: Mask) -> dict[str, int]:
        """How many of these rows have each value; values that none has are left out."""
        codes = self.codes[mask[self.rows]]
        counted = np.bincount(codes, minlength=len(self.values)).tolist()
        by_value = zip(self.values, counted, strict=True)
        return {value: count for value, count in by_value if count}


def facet_column(values_of_rows: Iterable[Sequence[str]]) -> FacetColumn:
    """The column of a facet, from the values of each row."""
    code_of: dict[str, int] = {}
    rows: list[int] = []
    codes: list[int] = []
    length = 0
    for place, values in enumerate(values_of_rows):
        length = place + 1
        for value in dict.fromkeys(values):
            rows.append(place)
            codes.append(code_of.setdefault(value, len(code_of)))
    return FacetColumn(tuple(code_of), np.array(rows, np.int64), np.array(codes, np.int64), length)


def faceted(
    fitting: Mask, columns: Mapping[str, FacetColumn], chosen: Mapping[str, Collection[str]]
) -> tuple[Mask, list[Facet]]:
    """Which of the rows that fit a search also fit the chosen values, and how many rows each value would give."""
    masks = {name: columns[name].having(values) for name, values in chosen.items() if values}
    facets = []
    for name, column in columns.items():
        others = [mask for other, mask in masks.items() if other != name]
        facets.append(facet_of(name, column.counts(_every(fitting, others)), chosen.get(name, ())))
    return _every(fitting, list(masks.values())), facets


def _every(first: Mask, others: Sequence[Mask]) -> Mask:
    mask = first.copy()
    for other in others:
        mask &= other
    return mask
