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
    """Under fresh seeds: the pair as it was, and with the culprits fixed on one side (`side`, "a" or "b") to the
    other's values. `gained`: by how much the gap became smaller. `closed`: there was one, it became smaller, and what
    is left reaches down to what seeds alone show."""

    culprits: tuple[str, ...]
    side: str
    before: SeedNoise
    after: SeedNoise
    gained: Estimate
    closed: bool

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
    """`shares` are of all players, the largest first; `unassigned`: what a fraction leaves to no single player.
    `interactions`: those above noise, of `looked_at`. `cells`: accuracies over the seeds, by the players at b's value,
    also of cells that are no part of the design."""

    design: Design
    shares: tuple[ShapleyShare, ...]
    unassigned: ShapleyShare | None
    switches: tuple[Switch, ...]
    interactions: tuple[Interaction, ...]
    looked_at: int
    cells: dict[tuple[str, ...], tuple[float, ...]]
