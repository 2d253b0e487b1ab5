"""Both sides of a paired training under one seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose
from typing import Final

from zoolens.training.pairs.loop.single_run import SingleRun

_SAME: Final = 1e-5  # relative: what rounding alone may change in a mean of losses


@dataclass(frozen=True)
class SeedPair:
    """Both sides under one seed."""

    seed: int
    runs: tuple[SingleRun, SingleRun]
    held_out_losses: tuple[float, float] | None = None  # of both sides' answers by A's loss, where there are answers
    churn: float | None = None  # the share of held-out samples to which they give another class
    kept: bool = False  # whether it was trained before

    @property
    def finite(self) -> bool:
        return all(run.not_finite is None for run in self.runs)


def is_one_training(pairs: Sequence[SeedPair]) -> bool:
    """Whether several seeds are one training that was repeated: all losses of both sides are the same, since neither
    the first weights nor the batches depend on the seed. They say nothing about the noise of seeds."""
    every = [[(run.first_loss, *run.losses) for run in pair.runs] for pair in pairs]
    return len(every) > 1 and all(
        len(ours) == len(first) and all(isclose(x, y, rel_tol=_SAME) for x, y in zip(ours, first, strict=True))
        for curves in every[1:]
        for ours, first in zip(curves, every[0], strict=True)
    )


def compared_measure(pairs: Sequence[SeedPair]) -> str:
    """By what the sides are compared: "accuracy", "held-out loss" or "training loss"."""
    both = [pair for pair in pairs if pair.finite]
    if all(run.correct is not None for pair in both for run in pair.runs):
        return "accuracy"
    return "held-out loss" if all(pair.held_out_losses is not None for pair in both) else "training loss"


def scores_of(pair: SeedPair, measure: str) -> tuple[float, float]:
    """The measure of both sides."""
    if measure == "accuracy":
        ours, theirs = (run.accuracy for run in pair.runs)
        assert ours is not None
        assert theirs is not None
        return ours, theirs
    if measure == "held-out loss" and pair.held_out_losses is not None:
        return pair.held_out_losses
    return pair.runs[0].losses[-1], pair.runs[1].losses[-1]
