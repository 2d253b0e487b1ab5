"""How far apart the sides of a trial are, in lines, and how much of it is noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from zoolens.present.figures import percent

if TYPE_CHECKING:
    from zoolens.crosstrain.study.side_comparison import Paired
    from zoolens.crosstrain.training.trials import Trial
    from zoolens.statistics.seeds import SeedNoise


def print_pairs(pairs: Sequence[Paired], noises: Sequence[SeedNoise]) -> None:
    """Each pair on these images; then, where there are replicates, over the seeds."""
    if pairs:
        click.echo()
    for one in pairs:
        click.echo(pair_line(one))
    if noises:
        from zoolens.crosstrain.study.noise import lines

        click.echo()
        for noise in noises:
            for line in lines(noise):
                click.echo(line)


def pair_line(one: Paired) -> str:
    """jax − torch: −7.25 points [−9.10, −5.40] on these images (exact McNemar p = 1e-12); 12.1 % answered
    differently."""
    said = f"{one.b} − {one.a}: {100 * one.difference:+.2f} points"
    if one.low is not None and one.high is not None and one.p_value is not None:
        said += f" [{100 * one.low:+.2f}, {100 * one.high:+.2f}] on these images (exact McNemar p = {one.p_value:.2g})"
    return f"{said}; {percent(one.churn, 1)} answered differently" if one.churn is not None else said


def noises_of(trials: Sequence[Trial], pairs: Sequence[Paired]) -> list[SeedNoise]:
    """Of a trial and its replicates; none without replicates."""
    from zoolens.crosstrain.study.noise import noise_of

    return [noise_of(trials, one.a, one.b) for one in pairs] if len(trials) > 1 else []


def pairs_data(pairs: Sequence[Paired], noises: Sequence[SeedNoise]) -> dict[str, Any]:
    from dataclasses import asdict

    return {"pairs": [asdict(one) for one in pairs], "noise": [asdict(one) for one in noises]}
