"""Facets: the values that rows of a list have, and how many rows each would give."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from zoolens.ui.endpoint import Answer, Shown

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
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = dict(ordered[:MOST_VALUES]) | {value: counts.get(value, 0) for value in chosen}
    listed = sorted(shown.items(), key=lambda item: (-item[1], item[0]))
    return Facet(name=name, values=[FacetValue(value=value, count=number) for value, number in listed])
