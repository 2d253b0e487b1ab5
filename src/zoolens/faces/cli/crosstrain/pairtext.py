"""How far apart the sides of a trial are, in lines, and how much of it is noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from zoolens.base.present.figures import percent

if TYPE_CHECKING:
    from zoolens.base.statistics.seeds import SeedNoise
    from zoolens.training.crosstrain.study.side_comparison import SidePair
    from zoolens.training.crosstrain.training.trials import Trial


def print_pairs(pairs: Sequence[SidePair], noises: Sequence[SeedNoise], trials: Sequence[Trial]) -> None:
    """Print each pair on these images and, where there are replicates, over the seeds. `trials`: the trial with its
    replicates."""
    if pairs:
        click.echo()
    for pair in pairs:
        click.echo(pair_line(pair))
    if noises:
        from zoolens.training.pairs.explanation.noise_words import lines

        click.echo()
        for noise in noises:
            for line in lines(noise):
                click.echo(line)
    if line := not_finite_line(trials):
        click.echo(line)


def not_finite_line(trials: Sequence[Trial]) -> str:
    """Says which trainings were lost; empty where none was."""
    lost = Counter(side.framework for trial in trials for side in trial.sides if side.status == "non-finite")
    each = ", ".join(f"{count} of {len(trials)} of {name}" for name, count in lost.items())
    return (
        f"Note: The loss did not stay finite in some trainings ({each}); their seeds do not count in the noise, and "
        "what their networks answer on these images says nothing."
        if lost
        else ""
    )


def pair_line(pair: SidePair) -> str:
    """jax − torch: −7.25 points [−9.10, −5.40] on these images (exact McNemar p = 1e-12); 12.1 % answered
    differently."""
    line = f"{pair.b} − {pair.a}: {100 * pair.difference:+.2f} points"
    if pair.low is not None and pair.high is not None and pair.p_value is not None:
        interval = f"[{100 * pair.low:+.2f}, {100 * pair.high:+.2f}]"
        line += f" {interval} on these images (exact McNemar p = {pair.p_value:.2g})"
    return f"{line}; {percent(pair.churn, 1)} answered differently" if pair.churn is not None else line


def noises_of(trials: Sequence[Trial], pairs: Sequence[SidePair]) -> list[SeedNoise]:
    """The seed noise of each pair, from a trial and its replicates; without replicates there is none."""
    from zoolens.training.crosstrain.study.noise import counts, noise_of

    if len(trials) < 2:
        return []
    known = [pair for pair in pairs if any(counts(one.side(pair.a)) and counts(one.side(pair.b)) for one in trials)]
    return [noise_of(trials, pair.a, pair.b) for pair in known]


def pairs_data(pairs: Sequence[SidePair], noises: Sequence[SeedNoise]) -> dict[str, Any]:
    from dataclasses import asdict

    return {"pairs": [asdict(item) for item in pairs], "noise": [asdict(item) for item in noises]}
