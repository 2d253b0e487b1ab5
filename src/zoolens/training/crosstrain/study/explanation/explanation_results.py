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


@dataclass(frozen=True, repr=False)
class Explanation(Result):
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
