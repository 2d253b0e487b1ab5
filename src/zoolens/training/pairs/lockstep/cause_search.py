"""What makes a side depart, one cause after another, each proved by switching.

A door says how steps are taken and compared, which settings differ, and what switching them is: a port gives B the
settings that A has, a recipe gives the reference the semantics that a side has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from zoolens.training.pairs.live.differences import SettingDifference
from zoolens.training.pairs.lockstep.quantities import ComparedQuantity

# The running variance of a norm divides by n - 1 in torch and by n elsewhere, and no framework has an option for it. It
# changes no weight, and so it is no difference between two trainings.
CONVENTIONS: Final = frozenset({"norm.divisor"})


@dataclass(frozen=True)
class DepartureCause:
    """Why a quantity is the first to depart, as far as that is known."""

    departure: ComparedQuantity
    differences: tuple[SettingDifference, ...]  # those that make it, where `proved`; else those that could
    proved: bool
    fixed: Mapping[str, str] = field(default_factory=dict)  # what could not be switched, by name, with the reason
    then: ComparedQuantity | None = None  # where B departs once they are switched
    switched_on: str = "B"  # which was given the value that the other has: "A", "B" or "reference"
    sides: tuple[str, ...] = ()  # beside a reference: those that depart, the farthest first, which the cause is about
    reason: str = ""  # what is known of it besides differences

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(difference.name for difference in self.differences)

    @property
    def is_convention(self) -> bool:
        """Whether it is proved to be what a framework fixes and what changes no weight."""
        return self.proved and set(self.names) <= CONVENTIONS


class Search(Protocol):
    """A door's comparison as it is now, with all causes before switched."""

    def departure(self) -> ComparedQuantity | None:
        """The first quantity beyond its floor."""

    def cause_of(self, departure: ComparedQuantity) -> DepartureCause:
        """What makes it."""

    def widen(self, departure: ComparedQuantity) -> bool:
        """Widen the floors before a side is accused of what nothing explains; False where they are as wide as may
        be."""

    def take_over(self, cause: DepartureCause) -> bool:
        """Go on with a proved cause switched; whether there may be another behind it."""


def next_cause(search: Search) -> DepartureCause | None:
    """The first departure with its cause; None where nothing departs by more than rounding."""
    while (departure := search.departure()) is not None:
        cause = search.cause_of(departure)
        if cause.proved or not search.widen(departure):
            return cause
    return None


def causes_in_order(search: Search, most: int) -> Iterator[DepartureCause]:
    """Every independent cause, until nothing departs or nothing explains what is left; the last may be unproved."""
    for _ in range(most):
        cause = next_cause(search)
        if cause is None:
            return
        yield cause
        if not cause.proved or not search.take_over(cause):
            return


def find_cause(
    departure: ComparedQuantity,
    candidates: Sequence[SettingDifference],
    explains: Callable[[Sequence[str]], bool],
    refused: Mapping[str, str],
) -> DepartureCause:
    """Which of the candidates make a quantity depart: the first that does alone, else the fewest that do together.
    Where none do, all of them are named, unproved.

    `explains`: whether the departure is gone with these switched; `refused`: what turned out not to be switchable, with
    the reason.
    """
    names = _fewest([difference.name for difference in candidates], explains, refused)
    fixed = {difference.name: refused[difference.name] for difference in candidates if difference.name in refused}
    if names is None:
        return DepartureCause(departure, tuple(candidates), False, fixed)
    return DepartureCause(departure, tuple(one for one in candidates if one.name in names), True, fixed)


def _fewest(
    names: Sequence[str], explains: Callable[[Sequence[str]], bool], refused: Mapping[str, str]
) -> tuple[str, ...] | None:
    single = next((name for name in names if explains([name])), None)
    if single is not None:
        return (single,)
    able = [name for name in names if name not in refused]
    if len(able) < 2 or not explains(able):
        return None
    for name in list(able):
        fewer = [other for other in able if other != name]
        if len(fewer) > 1 and explains(fewer):  # none explains it alone
            able = fewer
    return tuple(able)
