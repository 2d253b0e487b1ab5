"""What `explain` finds, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

from zoolens.base.statistics.seeds import SeedNoise
from zoolens.base.statistics.student import Estimate
from zoolens.training.crosstrain.study.explanation.contest import Contest
from zoolens.training.crosstrain.study.explanation.design import Design
from zoolens.training.crosstrain.study.explanation.shapley import Interaction, ShapleyShare
from zoolens.training.crosstrain.training.recipe import Recipe


@dataclass(frozen=True)
class Switch:
    """One player switched alone: what it changes in a's accuracy when a gets b's value, and in b's when b gets a's.
    None: there is no name for the value that would be given."""

    name: str
    in_a: Estimate | None
    in_b: Estimate | None


@dataclass(frozen=True)
class StandIn:
    """The libraries' own networks cannot be switched: one definition with their semantics was. `shipped`: the pair as
    the libraries ship it. `off`: the stand-in's gap minus theirs. `same_way`: the stand-in's gap is beyond noise and
    has the sign of theirs; without that there is nothing to share out. `reproduces`: it may be as large, too.
    `assumed`: semantics that the libraries' own have no name for, such as first values by several rules; the stand-ins
    have those of "aligned"."""

    shipped: SeedNoise
    stand_in: SeedNoise
    off: Estimate
    same_way: bool
    reproduces: bool
    assumed: tuple[str, ...]


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


@dataclass(frozen=True)
class Explanation:
    """`pair`: the two sides under the first seeds. `explained` is None where they do not differ beyond noise, or
    their stand-ins do not, `verification` where there is nothing to switch. `study`: where all runs are filed. `seeds`:
    of the pair and the design. `unconfirmed`: "FRAMEWORK: SEMANTIC" that was told and that no run's live objects
    confirm or deny."""

    study: str
    recipe: Recipe
    contest: Contest
    pair: SeedNoise
    explained: Explained | None = None
    verification: Verification | None = None
    stand_in: StandIn | None = None
    trained: int = 0
    known: int = 0
    seeds: tuple[int, ...] = ()
    unconfirmed: tuple[str, ...] = ()
