"""What an explanation of a gap found, whoever the players are."""

from __future__ import annotations

from dataclasses import dataclass

from zoolens.base.statistics.seeds import SeedNoise
from zoolens.base.statistics.student import Estimate
from zoolens.training.pairs.explanation.design import Design
from zoolens.training.pairs.explanation.shapley import Interaction, ShapleyShare


@dataclass(frozen=True)
class Switch:
    """One player switched alone: what it changes in a's accuracy when a gets b's value, and in b's when b gets a's.
    None: there is no name for the value that would be given."""

    name: str
    in_a: Estimate | None
    in_b: Estimate | None


@dataclass(frozen=True)
class Verification:
    """The pair under fresh seeds: as it was, and with the culprits fixed on one side to the other's values."""

    culprits: tuple[str, ...]
    side: str  # the one that is fixed, "a" or "b"
    before: SeedNoise
    after: SeedNoise
    gained: Estimate  # by how much the gap became smaller
    closed: bool  # there was a gap, it became smaller, and what is left reaches down to what seeds alone show

    @property
    def shown(self) -> bool:
        """The fresh seeds show a gap at all; without one there is nothing that could be closed."""
        return bool(self.before.beyond_noise)

    @property
    def narrowed(self) -> bool:
        """The gap became smaller; one that turned round and is as large as before did not."""
        return self.gained.excludes_zero and abs(self.after.difference.value) < abs(self.before.difference.value)


@dataclass(frozen=True)
class Explained:
    """A gap, shared out."""

    design: Design
    shares: tuple[ShapleyShare, ...]  # of all players, the largest first
    unassigned: ShapleyShare | None  # what a fraction leaves to no single player
    switches: tuple[Switch, ...]
    interactions: tuple[Interaction, ...]  # those above noise, of `looked_at`
    looked_at: int
    # Accuracies over the seeds, by the players at b's value, also of cells that are no part of the design.
    cells: dict[tuple[str, ...], tuple[float, ...]]
