"""What a task says of two models beside how far they agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zoolens.base.statistics.intervals import Interval

if TYPE_CHECKING:
    from zoolens.inventory.tasks.scoring.continuations import ContinuationFigures
    from zoolens.inventory.tasks.scoring.sample_tests import SampleFigures

UNKNOWN: Final = Interval(float("nan"), float("nan"))


@dataclass(frozen=True)
class NextTokenFigures:
    """How two models differ in what follows at each position of the texts. Of each distribution `kept` tokens are known
    one by one and all others as one."""

    divergence: float  # mean Kullback–Leibler divergence of B from A in nats a token: at most that of all tokens
    same_best: float  # share of positions at which both find the same token most likely
    agreement: Interval  # holds the mean agreement over all tokens: surely, or but for two cases in a million
    kept: int
    # Intervals over texts, of whose positions none is independent of the others; None: too few texts, or no spread.
    divergence_interval: Interval | None = None
    same_best_interval: Interval | None = None
    sampled: bool = False  # the other tokens are known by a sample of them


@dataclass(frozen=True)
class PairFigures:
    """What a task can say of a pair beside its agreement; what does not apply is None or NaN. `l2`: the mean distance
    of the answers, an interval that surely holds it where it is not known exactly."""

    l2: Interval = UNKNOWN
    relative_l2: float | None = None  # mean of |a − b| / |a|
    median_relative_l2: float | None = None
    max_relative_l2: float | None = None
    top5_overlap: float | None = None
    cosine: float | None = None  # mean
    next_tokens: NextTokenFigures | None = None
    continuations: ContinuationFigures | None = None
    samples: SampleFigures | None = None  # of texts that were drawn
