"""A gap explained: two sides are players of a game, a bench trains its cells, and fresh seeds verify what is found.

Recipes and ports differ in what an arm is and in who trains it, not in what is done with the accuracies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeVar

from zoolens.base.statistics.seeds import SeedNoise
from zoolens.base.statistics.student import Values
from zoolens.training.pairs.explanation.design import Fraction
from zoolens.training.pairs.explanation.results import Explained, Verification
from zoolens.training.pairs.explanation.shapley import ShapleyShare
from zoolens.training.pairs.explanation.sharing_out import culprits_of, explained_by, judged

FEWEST: Final = 2  # seeds that can tell a cause from noise
DESIGN: Final = "the design"
VERIFICATION: Final = "verification"
Arm = TypeVar("Arm")
_Trained = TypeVar("_Trained", contravariant=True)  # of a protocol that only takes arms


class Game(Protocol[Arm]):
    """Two sides, and the players that stand at a's value or at b's."""

    @property
    def a(self) -> Arm: ...
    @property
    def b(self) -> Arm: ...
    @property
    def players(self) -> tuple[str, ...]: ...

    def arm(self, cell: int) -> Arm:
        """The arm that trains a cell, the set of players at b's value, as bits."""

    def fixed(self, side: Arm, names: Iterable[str]) -> Arm:
        """One of the two sides with these players at the other's values."""


class Bench(Protocol[_Trained]):
    """Trains arms, each once under each seed."""

    @property
    def images(self) -> int | None:
        """How many test images each accuracy counts; None where nobody knows it."""

    def accuracies(self, stage: str, arms: Sequence[_Trained], seeds: Sequence[int]) -> Values:
        """Accuracies, seeds × arms."""

    def finite_seeds(self, arms: Sequence[_Trained], seeds: Sequence[int]) -> Sequence[int]:
        """The seeds under which all of these arms, which have been trained, have an accuracy."""

    def noise(self, stage: str, a: _Trained, b: _Trained, seeds: Sequence[int]) -> SeedNoise:
        """The difference of two arms beside seed noise."""


def shared_out(bench: Bench[Arm], game: Game[Arm], seeds: Sequence[int], fraction: Fraction, level: float) -> Explained:
    """Train the cells of the design and share the gap out. `level`: what seeds alone show."""

    def trained(cells: Sequence[int]) -> Values:
        return bench.accuracies(DESIGN, [game.arm(cell) for cell in cells], seeds)

    return explained_by(game.players, trained, fraction, level, bench.images)


def verified(
    bench: Bench[Arm], game: Game[Arm], shares: Sequence[ShapleyShare], pair: SeedNoise, fresh: Sequence[int]
) -> Verification | None:
    """Re-run the pair under fresh seeds with the culprits fixed on the worse side. None: no player has a share worth
    fixing, or no two fresh seeds keep every training finite."""
    culprits = culprits_of(shares)
    if not culprits:
        return None
    side = "a" if pair.difference.value > 0 else "b"  # the worse one gets the values of the better one
    a = game.fixed(game.a, culprits) if side == "a" else game.a
    b = game.fixed(game.b, culprits) if side == "b" else game.b
    everyone = tuple(dict.fromkeys((game.a, game.b, a, b)))
    bench.accuracies(VERIFICATION, everyone, fresh)
    finite = bench.finite_seeds(everyone, fresh)
    if len(finite) < FEWEST:
        return None
    before = bench.noise(VERIFICATION, game.a, game.b, finite)
    after = bench.noise(VERIFICATION, a, b, finite)
    return judged(culprits, side, before, after, bench.images)
