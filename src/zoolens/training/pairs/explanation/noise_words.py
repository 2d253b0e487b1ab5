"""Seed noise in words: the verdict, and lines for a terminal."""

from __future__ import annotations

from typing import Final

from zoolens.base.statistics.intervals import CONFIDENCE
from zoolens.base.statistics.seeds import SeedNoise
from zoolens.base.statistics.significance import FLIPS
from zoolens.base.statistics.student import Estimate

_SIGNIFICANT: Final = 1 - CONFIDENCE


def verdict(noise: SeedNoise) -> str:
    """Says the verdict in words that go with the intervals and the p-value beside them."""
    if noise.excess is None or noise.p_value is None:
        return "One seed cannot tell"
    if not noise.difference.excludes_zero:
        return "Seeds alone may explain the difference"
    if noise.within_seeds:
        return "The sides may differ, by less than two seeds of the same side do"
    if not noise.excess.excludes_zero or noise.excess.value <= 0:
        return f"The sides may differ; that it is more than noise is not certain with {noise.seeds} seeds"
    if noise.p_value <= _SIGNIFICANT:
        return "The sides differ"
    if noise.least_p > _SIGNIFICANT:
        return (
            "The sides differ if their differences are normally distributed, as the t interval assumes; the "
            "sign-flip test, which does not, needs 6 seeds to say so"
        )
    return "The t interval says that the sides differ, the sign-flip test does not: more seeds decide"


def lines(noise: SeedNoise) -> list[str]:
    """For a terminal, in points of accuracy."""
    gap = f"{noise.b} − {noise.a}: {signed(noise.difference)}"
    if noise.level is None or noise.excess is None or noise.p_value is None:
        return [
            f"{gap} from one seed.",
            "How much of it is seed noise is not known: that takes replicates. A paired test of one seed answers only "
            "whether these two networks differ on these images.",
        ]
    how = "exact" if noise.exact else f"{FLIPS:,} draws"
    least = f", the least that {noise.seeds} seeds can give" if noise.p_value == noise.least_p else ""
    own = ", ".join(
        f"{name} {100 * (spread or 0):.2f}" for name, spread in ((noise.a, noise.spread_a), (noise.b, noise.spread_b))
    )
    return [
        f"{gap} over {noise.seeds} seeds (95 % t interval; sign-flip test, {how}: p = {noise.p_value:.2g}{least}).",
        f"Standard deviation over seeds: {own} points; pairs with the same seed vary so that one without a difference "
        f"shows {100 * noise.level:.2f} on average.",
        f"Δ minus noise: {signed(noise.excess)}. {verdict(noise)}.",
    ]


def signed(estimate: Estimate, unit: str = " points", scale: int = 100, form: str = "+z.2f") -> str:
    """+12.30 points [+10.10, +14.50]."""
    text = f"{scale * estimate.value:{form}}{unit}"
    if estimate.interval is None:
        return text
    if estimate.without_spread:
        return f"{text} (no spread, so no interval)"
    return f"{text} [{scale * estimate.interval.low:{form}}, {scale * estimate.interval.high:{form}}]"
