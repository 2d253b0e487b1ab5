"""How far two language models agree on each text, and on all of them: within which limits that is known."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np

from zoolens.base.statistics.intervals import Interval
from zoolens.inventory.tasks.foreseen_columns import FOLLOWING, SEED, common_seeds, kept, text_means
from zoolens.inventory.tasks.scoring.next_tokens import PositionPairs, compare_tokens
from zoolens.inventory.tasks.scoring.token_samples import limits_of_mean, sampled_limits
from zoolens.inventory.tasks.task import Answers, Floats, column, ragged_column


@dataclass(frozen=True)
class PairedTexts:
    """Two models that split all texts into the same tokens. The mean agreement over the positions of a text is 1 where
    it has none."""

    pairs: PositionPairs
    estimate: Floats  # of each text, as its sample has it; the most that it can be where none was kept
    least: Floats  # of each text: surely where no sample was kept, otherwise but for one text in a million
    mean: Interval  # holds the mean over texts: surely, or but for two cases in a million


def paired_texts(a: Answers, b: Answers) -> PairedTexts:
    """What is asked of one pair again and again is computed once."""
    global _latest
    known = _latest
    if known is not None and known[0]() is a and known[1]() is b:
        return known[2]
    paired = _paired(a, b)
    _latest = weakref.ref(a), weakref.ref(b), paired
    return paired


_latest: tuple[weakref.ref[Answers], weakref.ref[Answers], PairedTexts] | None = None


def _paired(a: Answers, b: Answers) -> PairedTexts:
    pairs = compare_tokens(kept(a), kept(b), common_seeds(a, b))
    if a.digest is not None and b.digest is not None and len(a) and np.array_equal(a.digest, b.digest):
        # Equal bits are equal answers, whatever was kept of them.
        full = np.ones(len(a))
        return PairedTexts(pairs, full, full, Interval(1.0, 1.0))
    least, most = text_means(a, pairs.least), text_means(a, pairs.agreement)
    sure = Interval(float(np.mean(least)), float(np.mean(most)))
    if pairs.sampled is None or not len(least):
        return PairedTexts(pairs, most, least, sure)
    known, rest = (text_means(a, values, 0.0) for values in pairs.sampled)
    estimate = np.clip(1.0 - known - rest, least, most)
    lengths = ragged_column(a, FOLLOWING).lengths
    _, most_rest = sampled_limits(rest, 1.0 / np.maximum(lengths, 1))
    least = np.minimum(np.maximum(least, 1.0 - known - most_rest), estimate)
    low, high = limits_of_mean(rest, lengths, column(a, SEED))
    middle, together = float(estimate.mean()), 1.0 - float(known.mean())
    # The estimates of single texts are cut off at what is sure of them, so that their mean may lie beside the limits.
    ends = min(middle, max(float(sure.low), together - high)), max(middle, min(float(sure.high), together - low))
    return PairedTexts(pairs, estimate, least, Interval(*ends))
