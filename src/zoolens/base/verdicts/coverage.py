"""How much of the two things that are compared was understood, and what was not.

A reader that meets an operator, a layer, an extent or a name that it does not know adds a `Gap`. Nothing in this room
turns a gap into a difference, into a zero or into agreement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from zoolens.base.phrases import first_few

_SHOWN: Final = 4  # gaps that one sentence names; the rest is counted


@dataclass(frozen=True)
class Tally:
    """How many units of one kind were understood, of how many. `total` is None if not even the total is known, which
    is the case for the multiply-accumulates of an operator that nobody can count."""

    unit: str  # a plural: "layers", "parameters", "MACs", "tensors", "inputs", "models"
    understood: int
    total: int | None

    def __post_init__(self) -> None:
        if self.understood < 0 or (self.total is not None and self.total < self.understood):
            raise ValueError(f"{self.understood} of {self.total} {self.unit} cannot have been understood.")

    @property
    def whole(self) -> bool:
        return self.total == self.understood

    @property
    def share(self) -> float | None:
        """None if the total is not known, or if there is nothing to understand."""
        return self.understood / self.total if self.total else None

    @property
    def text(self) -> str:
        if self.total is None:
            return f"{self.understood:,} {self.unit} of a total that is not known"
        return f"{self.understood:,} of {self.total:,} {self.unit}"


@dataclass(frozen=True)
class Gap:
    """Something that was not understood. `remedy` says what would make it known, as a sentence."""

    what: str  # such as "operator com.example.Swirl in B"
    count: int = 1
    remedy: str = ""

    @property
    def text(self) -> str:
        return f"{self.count:,} × {self.what}" if self.count > 1 else self.what


@dataclass(frozen=True)
class Coverage:
    """What a verdict rests on. Coverage without a tally means that nothing was looked at."""

    tallies: tuple[Tally, ...] = ()
    gaps: tuple[Gap, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether something was looked at and all of it was understood."""
        looked_at = any(tally.understood for tally in self.tallies)
        return looked_at and not self.gaps and all(tally.whole for tally in self.tallies)

    @property
    def text(self) -> str:
        """One or two sentences: how much was understood, and what was not."""
        if not self.tallies and not self.gaps:
            return "Nothing was examined."
        counted = ", ".join(tally.text for tally in self.tallies)
        sentences = [f"Understood: {counted}."] if counted else []
        if self.gaps:
            sentences.append(f"Not understood: {first_few([gap.text for gap in self.gaps], _SHOWN)}.")
        return " ".join(sentences)

    @property
    def remedies(self) -> tuple[str, ...]:
        """What would make the rest known, each sentence once."""
        return tuple(dict.fromkeys(gap.remedy for gap in self.gaps if gap.remedy))

    def as_data(self) -> dict[str, Any]:
        return {
            "whole": self.whole,
            "understood": {
                tally.unit: {"understood": tally.understood, "total": tally.total, "share": tally.share}
                for tally in self.tallies
            },
            "not_understood": [{"what": gap.what, "count": gap.count, "remedy": gap.remedy} for gap in self.gaps],
        }


def coverage_of(data: Mapping[str, Any]) -> Coverage:
    """The coverage that `Coverage.as_data` wrote."""
    return Coverage(
        tuple(Tally(unit, one["understood"], one["total"]) for unit, one in data["understood"].items()),
        tuple(Gap(one["what"], one["count"], one["remedy"]) for one in data["not_understood"]),
    )


def merged(coverages: Iterable[Coverage]) -> Coverage:
    """The coverage of several judgements together: tallies of one unit are added, equal gaps are counted."""
    tallies: dict[str, Tally] = {}
    gaps: dict[tuple[str, str], Gap] = {}
    for coverage in coverages:
        for tally in coverage.tallies:
            tallies[tally.unit] = _added(tallies[tally.unit], tally) if tally.unit in tallies else tally
        for gap in coverage.gaps:
            key = (gap.what, gap.remedy)
            earlier = gaps[key].count if key in gaps else 0
            gaps[key] = Gap(gap.what, earlier + gap.count, gap.remedy)
    return Coverage(tuple(tallies.values()), tuple(gaps.values()))


def _added(first: Tally, second: Tally) -> Tally:
    unknown = first.total is None or second.total is None
    total = None if unknown else (first.total or 0) + (second.total or 0)
    return Tally(first.unit, first.understood + second.understood, total)


def at_least(text: str, unit: str = "", *, whole: bool) -> str:
    """A total as it is printed, with its unit behind it and with "≥" before it if parts of it were not counted. Nothing
    counted at all is "not known", because "≥ 0" reads like zero."""
    figure = f"{text} {unit}".rstrip()
    if whole:
        return figure
    counted = any(digit in "123456789" for digit in text.split(" ", maxsplit=1)[0])
    return f"≥ {figure}" if counted else f"{unit} not known".lstrip()
