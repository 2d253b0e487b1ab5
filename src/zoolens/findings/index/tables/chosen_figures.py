"""The figures of a row as a choice among those of its runs.

Very many rows have runs with the same figures, and so the same of them count: this is worked out once, as a `Choice`. A
figure is made when somebody looks at it, and a table of figures takes the numbers as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.store.records import Provenance
from zoolens.findings.index.tables.rows import Figure

Numbers = Sequence[float | None]


@dataclass(frozen=True, eq=False)
class Choice:
    """For each figure: its name, from which of the row's runs it is, where its value stands among the numbers of that
    run (its low and high follow), and what it is."""

    names: tuple[str, ...]
    runs: tuple[int, ...]
    places: tuple[int, ...]
    units: tuple[str, ...]
    provenances: tuple[Provenance, ...]
    disturbed: tuple[bool, ...]

    @cached_property
    def at(self) -> dict[str, int]:
        """Where the figure of each name stands."""
        return {name: place for place, name in enumerate(self.names)}

    @cached_property
    def used(self) -> tuple[int, ...]:
        """The runs from which a figure is taken, in the order in which the figures name them."""
        return tuple(dict.fromkeys(self.runs))

    @cached_property
    def run_array(self) -> NDArray[np.intp]:
        return np.array(self.runs, np.intp)

    @cached_property
    def place_array(self) -> NDArray[np.intp]:
        return np.array(self.places, np.intp)


@dataclass(frozen=True, eq=False)
class ChosenFigures(Mapping[str, Figure]):
    """`sources` and `numbers` are those of each run; `further` are figures that no run has."""

    choice: Choice
    sources: Sequence[str]
    numbers: Sequence[Numbers]
    further: Mapping[str, Figure] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Figure:
        choice = self.choice
        place = choice.at.get(name)
        if place is None:
            return self.further[name]
        run, first = choice.runs[place], choice.places[place]
        value, low, high = self.numbers[run][first : first + 3]
        number: Any = value  # a figure that is stored has one
        unit, provenance = choice.units[place], choice.provenances[place]
        return Figure(number, unit, provenance, low, high, None, self.sources[run], choice.disturbed[place])

    def __iter__(self) -> Iterator[str]:
        yield from self.choice.names
        yield from self.further

    def __len__(self) -> int:
        return len(self.choice.names) + len(self.further)
