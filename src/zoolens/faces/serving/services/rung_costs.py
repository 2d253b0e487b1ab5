"""Whether a tier is cheaper than a more equivalent one: yes, no, or not known: times have intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from zoolens.base.present.figures import figure, with_interval
from zoolens.base.store.records import Observation
from zoolens.faces.serving.contracts.ladder import Rung

CHEAPER: Final = 0.95  # of another's time, memory or energy: less is no reason to have a further model at hand


@dataclass(frozen=True)
class CostComparison:
    """A tier beside the more equivalent tier that comes nearest to making it needless. `cheaper`: None where the two
    intervals of time leave it open. `words` say by how much, for the batch size that counts most for it."""

    other: Rung
    cheaper: bool | None
    words: str


def compare_costs(
    rung: Rung, others: Sequence[Rung], largest: int, *, time_alone: bool, unit: str = "input"
) -> CostComparison | None:
    """Compare a tier with all more equivalent ones. The result is about one that costs no more, if there is any; else
    about one of which that is not known; None where it is cheaper than each. `time_alone`: memory and energy are no
    reason to choose it. `unit`: what times are told of."""
    comparisons = [_compared(rung, other, largest, time_alone, unit) for other in others]
    for cheaper in (False, None):
        for comparison in comparisons:
            if comparison.cheaper is cheaper:
                return comparison
    return None


def _compared(rung: Rung, other: Rung, largest: int, time_alone: bool, unit: str) -> CostComparison:
    answers = [_quicker(rung, other, size) for size in sorted({1, largest})]
    if not time_alone:
        answers += _resources(rung, other)
    cheaper = True if True in answers else None if None in answers else False
    return CostComparison(other, cheaper, _times(rung, other, largest, unit))


def _quicker(rung: Rung, other: Rung, size: int) -> bool | None:
    low, high = rung.profile.interval(size)
    other_low, other_high = other.profile.interval(size)
    if high < CHEAPER * other_low:
        return True
    return False if low >= CHEAPER * other_high else None


def _resources(rung: Rung, other: Rung) -> Iterator[bool]:
    """Whether it takes less memory and less energy, of those that were measured of both."""
    ours, theirs = rung.memory_bytes, other.memory_bytes
    if ours is not None and theirs is not None:
        yield ours < CHEAPER * theirs
    energy, other_energy = rung.figures.get("energy"), other.figures.get("energy")
    if energy is not None and other_energy is not None:
        yield energy < CHEAPER * other_energy


def _times(rung: Rung, other: Rung, largest: int, unit: str) -> str:
    """Such as "1.2 ms instead of 1.3 ms for one input", with intervals."""
    ratios = {}
    for size in (1, largest):
        theirs = max(other.profile.of(size), 1e-12)
        ratios[size] = round(rung.profile.of(size) / theirs, 9)
    size = min(ratios, key=lambda size: (ratios[size], size))  # of equal ratios that of one input
    inputs = f"one {unit}" if size == 1 else f"{size} {unit}s"
    return f"{_span(rung, size)} instead of {_span(other, size)} for {inputs}"


def _span(rung: Rung, size: int) -> str:
    low, high = rung.profile.interval(size)
    seconds = rung.profile.of(size)
    if figure(low, "s") == figure(high, "s"):
        return figure(seconds, "s")
    return with_interval(Observation("latency", seconds, unit="s", low=low, high=high))
