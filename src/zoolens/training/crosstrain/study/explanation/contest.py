"""Two sides as players of a game: every semantic they have differently, and the framework itself.

A player is at a's value or at b's. With all at a's the accuracy is that of side a, with all at b's that of side b; what
lies between is trained by a's framework with some of b's semantics, or by b's with some of a's: one way and the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from zoolens.training.pairs.explanation.design import FRAMEWORK
from zoolens.training.pairs.semantics import Semantics


@dataclass(frozen=True)
class Arm:
    """A framework, and what it alone is told."""

    framework: str
    told: Semantics = Semantics()  # noqa: RUF009 - frozen

    def switched(self, changes: dict[str, Any]) -> Arm:
        return Arm(self.framework, Semantics(**changes).over(self.told))


@dataclass(frozen=True)
class Factor:
    """A semantic and its two values, read from the live objects."""

    name: str
    a: Any
    b: Any


@dataclass(frozen=True)
class Contest:
    """`unnamed`: semantics that only one side's framework has a name for (the other's value is None). The other side
    cannot be given them, so they count as part of the framework itself."""

    a: Arm
    b: Arm
    factors: tuple[Factor, ...]
    unnamed: tuple[Factor, ...]

    @property
    def players(self) -> tuple[str, ...]:
        names = tuple(factor.name for factor in self.factors)
        return (*names, FRAMEWORK) if self._has_framework else names

    @property
    def everyone(self) -> int:
        """The cell in which every player is at b's value. Cells are sets of players, as bits."""
        return (1 << len(self.players)) - 1

    def arm(self, cell: int) -> Arm:
        """Returns the arm that trains a cell. What is as its own side has it is not switched: with nothing switched it
        is that side."""
        ours = not self._is_b(cell)
        changes = {
            factor.name: factor.b if ours else factor.a
            for place, factor in enumerate(self.factors)
            if bool(cell >> place & 1) == ours
        }
        return (self.a if ours else self.b).switched(changes)

    def fixed(self, side: Arm, names: Iterable[str]) -> Arm:
        """One of the two sides with these semantics as the other has them."""
        chosen = set(names)
        other = {factor.name: factor.b if side is self.a else factor.a for factor in self.factors}
        return side.switched({name: value for name, value in other.items() if name in chosen})

    def _is_b(self, cell: int) -> bool:
        return bool(cell >> len(self.factors) & 1) if self._has_framework else cell == self.everyone

    @property
    def _has_framework(self) -> bool:
        return self.a.framework != self.b.framework or bool(self.unnamed)


def contest(a: Arm, resolved_a: Semantics, b: Arm, resolved_b: Semantics) -> Contest:
    """`resolved_a`, `resolved_b`: what the live objects of the sides had."""
    ours, theirs = (
        {name: semantics.value(name) for name in Semantics.model_fields} for semantics in (resolved_a, resolved_b)
    )
    differing = [Factor(name, ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]]
    named = {name for name in ours if ours[name] is not None and theirs[name] is not None}
    return Contest(
        a,
        b,
        tuple(factor for factor in differing if factor.name in named),
        tuple(factor for factor in differing if factor.name not in named),
    )
