"""How far two language models agree on each text, and on all of them: within which limits that is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zoolens.base.statistics.intervals import Interval
from zoolens.inventory.tasks.foreseen_columns import FOLLOWING, common_seeds, kept, text_means
from zoolens.inventory.tasks.scoring.next_tokens import PositionPairs, compare_tokens
from zoolens.inventory.tasks.scoring.token_samples import sampled_limits
from zoolens.inventory.tasks.task import Answers, Floats, ragged_column


@dataclass(frozen=True)
class PairedTexts:
    """Two models that split all texts into the same tokens. The mean agreement over the positions of a text is at least
    `least` and at most `most`: surely where no samples were kept, otherwise but for one text in a million. It is 1
    where a text has no position."""

    pairs: PositionPairs
    least: Floats
    most: Floats
    mean: Interval  # holds the mean over texts likewise


def paired_texts(a: Answers, b: Answers) -> PairedTexts:
    seeds = common_seeds(a, b)
    pairs = compare_tokens(kept(a), kept(b), seeds)
    least, most = text_means(a, pairs.least), text_means(a, pairs.agreement)
    if pairs.sampled is None or not len(least):
        return PairedTexts(pairs, least, most, _interval(least, most))
    known, rest = (text_means(a, values, 0.0) for values in pairs.sampled)
    weights = 1.0 / np.maximum(ragged_column(a, FOLLOWING).lengths, 1)
    low, high = sampled_limits(rest, weights)
    # Weights of positions in the mean over all texts: the shortest text has the largest.
    all_low, all_high = sampled_limits(rest.mean(), weights.max() / len(weights))
    mean = _interval(least, most)
    together = 1.0 - known.mean()
    low_end = max(mean.low, float(together - all_high))
    mean = Interval(low_end, max(low_end, min(mean.high, float(together - all_low))))
    least = np.maximum(least, 1.0 - known - high)
    most = np.maximum(least, np.minimum(most, 1.0 - known - low))
    return PairedTexts(pairs, least, most, mean)


def position_pairs(a: Answers, b: Answers) -> PositionPairs:
    """Two models at every position of all texts, one text after the other. Both split texts into the same tokens."""
    return compare_tokens(kept(a), kept(b))


def _interval(least: Floats, most: Floats) -> Interval:
    return Interval(float(np.mean(least)), float(np.mean(most)))
