"""Both sides of a paired training under one seed."""

from __future__ import annotations

from dataclasses import dataclass

from zoolens.port.training.single_run import SingleRun


@dataclass(frozen=True)
class SeedPair:
    """Both sides under one seed. `held_out_losses`: of both sides' answers by A's loss, where there are answers.
    `churn`: the share of held-out samples to which they give another class. `kept`: it was trained before."""

    seed: int
    runs: tuple[SingleRun, SingleRun]
    held_out_losses: tuple[float, float] | None = None
    churn: float | None = None
    kept: bool = False

    @property
    def finite(self) -> bool:
        return all(run.not_finite is None for run in self.runs)
