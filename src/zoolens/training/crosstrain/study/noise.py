"""How much of a difference between sides is seed noise: the trials it is taken from.

What is computed, and on which assumptions, is told in `zoolens.base.statistics.seeds`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zoolens.base.errors import ZoolensError
from zoolens.base.statistics.seeds import SeedNoise, seed_noise
from zoolens.training.crosstrain.training.trials import TrainedSide, Trial


def counts(side: TrainedSide) -> bool:
    """Whether a side's accuracy is that of a trained network."""
    return side.accuracy is not None and side.status != "non-finite"


def noise_of(trials: Iterable[Trial], a: str, b: str) -> SeedNoise:
    """Computes seed noise from one trial and its replicates. A seed counts if both of its sides have an accuracy and
    stayed finite: what a lost network answers says nothing of the seeds."""
    pairs = [(trial.side(a), trial.side(b)) for trial in trials]
    both = [(ours, theirs) for ours, theirs in pairs if counts(ours) and counts(theirs)]
    if not both:
        raise ZoolensError(f"No trial has an accuracy of both {a} and {b}.", hint="See the notes of the trials.")
    return noise_of_sides(a, [ours for ours, _ in both], b, [theirs for _, theirs in both])


def noise_of_sides(a: str, ours: Sequence[TrainedSide], b: str, theirs: Sequence[TrainedSide]) -> SeedNoise:
    """Computes seed noise from sides that have an accuracy, in the order of their seeds."""
    return seed_noise(a, _accuracies(ours), b, _accuracies(theirs), images_of((*ours, *theirs)))


def images_of(sides: Iterable[TrainedSide]) -> int | None:
    """The fewest test images that a side has. None: one of them does not know how many it had."""
    totals = [side.total for side in sides]
    return None if None in totals else min(total for total in totals if total is not None)


def _accuracies(sides: Iterable[TrainedSide]) -> list[float]:
    return [side.accuracy for side in sides if side.accuracy is not None]
