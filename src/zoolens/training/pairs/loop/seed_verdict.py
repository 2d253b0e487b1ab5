"""Whether trainings under several seeds say that two sides come out alike, that they differ, or neither."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, hypot, isclose, pi, sqrt
from typing import Final

from zoolens.base.statistics.seeds import SeedNoise
from zoolens.base.verdicts import Coverage, Gap, Tally
from zoolens.findings.graph.diff.phrases import plural
from zoolens.training.pairs.loop.seed_pairs import SeedPair

_HALF_NORMAL: Final = sqrt(2 / pi)  # mean |x| of a standard normal x
_SAME_LOSS: Final = 1e-4  # relative
_T: Final = 2.2  # about the 97.5 % quantile of Student's t with ten seeds


def training_coverage(pairs: Sequence[SeedPair], noise: SeedNoise | None, measure: str) -> Coverage:
    """What a verdict on these seeds rests on. They are alike only where the interval of the difference holds nothing
    larger than what two seeds of one side show, or where both give the same answers."""
    whole = [pair for pair in pairs if pair.finite]
    lost = [pair.seed for pair in pairs if all(run.not_finite is not None for run in pair.runs)]
    gaps = [Gap(f"seed {seed}, in which neither side stays finite", remedy="Lower the learning rate.") for seed in lost]
    if not _same_answers(whole, measure):
        gaps += noise_gaps(noise, "points" if measure == "accuracy" else "of the loss")
    elif len(whole) < 2:
        gaps += noise_gaps(None, "")
    return Coverage((Tally("seeds", len(whole), len(pairs)),), tuple(gaps))


def noise_gaps(noise: SeedNoise | None, unit: str) -> Iterator[Gap]:
    """What the seeds cannot tell. `unit`: "points", or that of a loss."""
    if noise is None or noise.difference.interval is None or noise.level is None:
        yield Gap("seed noise, which takes two seeds at least", remedy="Train several seeds (--seeds 3).")
        return
    between = _HALF_NORMAL * hypot(noise.spread_a or 0.0, noise.spread_b or 0.0)
    interval = noise.difference.interval
    widest = max(abs(interval.low), abs(interval.high))
    if widest > between:
        scale = 100 if unit == "points" else 1
        seeds = plural(noise.seeds, "seed")
        what = f"differences of up to {scale * widest:.3g} {unit}, which {seeds} cannot exclude; two seeds of one side"
        yield Gap(f"{what} show {scale * between:.3g}", remedy=_more_seeds(noise, between))


def _more_seeds(noise: SeedNoise, between: float) -> str:
    spread = (noise.level or 0.0) / _HALF_NORMAL
    room = between - abs(noise.difference.value)
    if room <= 0 or not spread:
        return "Train more seeds (--seeds), or test on more samples."
    return f"Train more seeds (about --seeds {max(ceil((_T * spread / room) ** 2), noise.seeds + 2)})."


def _same_answers(pairs: Sequence[SeedPair], measure: str) -> bool:
    """Whether both sides answer every held-out sample alike under every seed, or have the same losses."""
    if measure == "accuracy":
        return bool(pairs) and all(pair.churn == 0 for pair in pairs)
    losses = [pair.held_out_losses or (pair.runs[0].losses[-1], pair.runs[1].losses[-1]) for pair in pairs]
    return bool(pairs) and all(isclose(a, b, rel_tol=_SAME_LOSS) for a, b in losses)
