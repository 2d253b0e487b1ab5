"""Branches of a network's code that depend on its input: which were taken, and inputs that take the others.

A network is read from the layers that run. Where its code decides by numbers, as `if x.mean() > 0:` does, the layers of
the other branch are not seen, so that inputs of other signs and sizes are looked for which take it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from zoolens.base.verdicts import Gap
from zoolens.training.pairs.networks.framework import Array
from zoolens.training.pairs.sides.network_sides import PortSide

MOST: Final = 6  # inputs that are added to those that are compared anyway
_DRAWN: Final = 8  # further random inputs, for decisions by something else than sign and size
_SIZES: Final = (1e-3, 0.1, 1.0, 10.0, 1e3)  # of inputs: thresholds in code are mostly between these


@dataclass(frozen=True)
class Branches:
    """Which ways the code of both networks takes."""

    inputs: tuple[list[Array], ...] = ()  # those that take branches which no earlier one took
    chosen: tuple[str, ...] = ()  # sentences about decisions that were seen
    missed: tuple[Gap, ...] = ()  # decisions that fell the same way for every input that was tried


def branches(sides: Sequence[PortSide], fed: Sequence[Sequence[Array]], *, search: bool = True) -> Branches:
    """Follow the decisions of both networks for the inputs that are compared, and look for others.

    `search`: whether inputs may be made up; the samples of a dataset are what they are.
    """
    ways = [_Ways(side, letter) for side, letter in zip(sides, "AB", strict=True)]
    for inputs in fed:
        for way in ways:
            way.follow(inputs)
    if not any(way.seen for way in ways):
        return Branches()
    added: list[list[Array]] = []
    for inputs in _others(fed[0]) if search else ():
        if len(added) == MOST or all(way.complete for way in ways):
            break
        new = [way.follow(inputs) for way in ways]  # both sides, also where the first is enough
        if any(new):
            added.append(inputs)
    chosen = tuple(sentence for way in ways for sentence in way.sentences())
    return Branches(tuple(added), chosen, tuple(gap for way in ways for gap in way.gaps()))


class _Ways:
    """The decisions of one side."""

    def __init__(self, side: PortSide, letter: str) -> None:
        self._side, self._letter = side, letter
        self.seen: dict[str, set[bool]] = {}

    @property
    def complete(self) -> bool:
        return all(len(taken) == 2 for taken in self.seen.values())

    def follow(self, inputs: Sequence[Array]) -> bool:
        """Whether these inputs decide something otherwise than all earlier ones."""
        new = False
        for place, taken in self._side.decisions(inputs):
            known = self.seen.setdefault(place, set())
            new = new or taken not in known
            known.add(taken)
        return new

    def sentences(self) -> Iterator[str]:
        for place, taken in self.seen.items():
            both = "both ways were compared" if len(taken) == 2 else f"it was {taken_words(taken)} for all inputs"
            yield f"{self._side.text} decides at {place} by numbers of its input what it computes: {both}."

    def gaps(self) -> Iterator[Gap]:
        remedy = "Name a dataset with --data whose samples take both branches."
        for place, taken in self.seen.items():
            if len(taken) == 1:
                yield Gap(f"the branch of {self._letter} at {place} that no input took", 1, remedy)


def taken_words(taken: set[bool]) -> str:
    return "true" if taken == {True} else "false"


def _others(inputs: Sequence[Array]) -> Iterator[list[Array]]:
    """Inputs of other signs and sizes, and of numbers that are all alike."""
    for size in _SIZES:
        yield [_sized(np.abs(array), array, size) for array in inputs]
        yield [_sized(-np.abs(array), array, size) for array in inputs]
        yield [_sized(array, array, size) for array in inputs]
        yield [_sized(-array, array, size) for array in inputs]
    for number in (0.0, 1.0, -1.0):
        yield [_sized(np.ones_like(array), array, number) for array in inputs]
    generator = np.random.default_rng(7)
    for _ in range(_DRAWN):
        yield [_redrawn(array, generator) for array in inputs]


def _sized(changed: Array, array: Array, size: float) -> Array:
    """Whole numbers stay as they are: they are names of things."""
    return (changed * size).astype(array.dtype) if array.dtype.kind == "f" else array


def _redrawn(array: Array, generator: np.random.Generator) -> Array:
    if array.dtype.kind == "f":
        return generator.standard_normal(array.shape).astype(array.dtype)
    return generator.permuted(array, axis=-1)
