"""What `explain` finds, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

from zoolens.base.present.results import Result
from zoolens.base.statistics.seeds import SeedNoise
from zoolens.base.statistics.student import Estimate
from zoolens.training.crosstrain.study.explanation.contest import Contest
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.pairs.explanation.results import Explained, Verification


@dataclass(frozen=True)
class StandIn:
    """The libraries' own networks cannot be switched: one definition with their semantics was."""

    shipped: SeedNoise  # the pair as the libraries ship it
    stand_in: SeedNoise
    off: Estimate  # the stand-in's gap minus theirs
    same_way: bool  # the stand-in's gap is beyond noise and has the sign of theirs; else there is nothing to share out
    reproduces: bool  # it may be as large, too
    # Semantics that the libraries' own have no name for, such as first values by several rules; the stand-ins have
    # those of "aligned".
    assumed: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Explanation(Result):
    """What makes two sides of a recipe differ, and how much of it each."""

    study: str  # where all runs are filed
    recipe: Recipe
    contest: Contest
    pair: SeedNoise  # the two sides under the first seeds
    explained: Explained | None = None  # None: they do not differ beyond noise, or their stand-ins do not
    verification: Verification | None = None  # None: there is nothing to switch
    stand_in: StandIn | None = None
    trained: int = 0
    known: int = 0
    seeds: tuple[int, ...] = ()  # of the pair and the design
    # "FRAMEWORK: SEMANTIC" that was told and that no run's live objects confirm or deny.
    unconfirmed: tuple[str, ...] = ()
