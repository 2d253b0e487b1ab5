"""What two models make of all tokens, from a sample of those that are not among their most likely ones.

Each token of the vocabulary has a number between 0 and 1 at each position of a text, which follows from the text alone,
as if it were drawn. A model keeps the tokens whose probability is at least that number times `SPACING`. So all models
draw the same numbers: of two that answer alike both keep the same tokens, and what one of them keeps and the other does
not has a probability in the other that is bounded. The mean of what is estimated from such coordinated samples is the
true total variation, and of equal models each estimate is exactly 0: Cohen, "Estimation for monotone sampling" (2014),
whose L* estimator this is.

The numbers are no secret: a model that was made to hide from them could differ in tokens that are not kept.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

# At most 64 tokens of a distribution are kept on average, and 21 where the most likely ones have two thirds.
SPACING: Final = 1 / 64
# Limits are wrong in one case of a million on each side.
ODDS: Final = 1e6
# Samples are compared where their seeds are equal: whoever changes how they are drawn changes this, too.
_DRAWN_SO: Final = b"poisson 1/64 v1"
_BITS: Final = 32
_ODD: Final = 0x9E3779B97F4A7C15  # the golden ratio in 64 bits
_WORD: Final = np.uint64((1 << _BITS) - 1)

_HEAVY: Final = 3.0  # times the usual weight
# Logarithms are kept in float32. At the border of being drawn, one of two equal models keeps a token and the other not.
_ROUNDING: Final = 1e-5
_NONE: Final = np.empty(0, np.int64)

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]


@dataclass(frozen=True)
class TokenSample:
    """Tokens that were kept beside the most likely ones, position after position."""

    counts: NDArray[np.int32]  # how many at each position
    ids: NDArray[np.int32]
    logs: NDArray[np.float32]  # log-probabilities

    def part(self, first: int, last: int) -> TokenSample:
        """The sample at some of the positions."""
        begin, own = int(self.counts[:first].sum()), self.counts[first:last]
        tokens = slice(begin, begin + int(own.sum()))
        return TokenSample(own, self.ids[tokens], self.logs[tokens])


# --- drawing


def text_seed(text: str) -> int:
    """A positive number that stands for a text."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, person=_DRAWN_SO).digest()
    return int.from_bytes(digest, "little") >> 1


def position_seeds(seeds: NDArray[np.int64], lengths: NDArray[np.int64]) -> Words:
    """One number for each position of each text.

    Positions are counted from the end: a model whose texts begin with a special token foresees one token more.
    """
    ends = np.cumsum(lengths)
    places = np.repeat(ends, lengths) - np.arange(lengths.sum())
    return _mixed64(np.repeat(seeds, lengths).astype(np.uint64) + places.astype(np.uint64) * np.uint64(_ODD))


def sampled_tokens(
    likelihoods: Floats, totals: Floats, seeds: Words, known: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows and numbers of the tokens that are kept. `likelihoods`: rows × tokens, of which each row has a sum in
    `totals`; they are overwritten. `known`: rows × tokens that are kept anyway."""
    rows = np.arange(len(likelihoods))[:, np.newaxis]
    likelihoods[rows, known] = 0.0
    np.multiply(likelihoods, (2.0**_BITS / SPACING / totals)[:, np.newaxis], out=likelihoods)
    tokens = np.arange(likelihoods.shape[1], dtype=np.uint32)
    # Row by row, so that the numbers of a row stay in the processor's cache.
    kept = [np.flatnonzero(row >= _drawn(seed, tokens)) for row, seed in zip(likelihoods, seeds, strict=True)]
    return np.repeat(np.arange(len(kept)), [len(ids) for ids in kept]), np.concatenate([_NONE, *kept])


def _drawn(seeds: Words | np.uint64, tokens: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """A number from 1 to 2³² − 1 for each token at a position, of all as likely as the others."""
    # Two tokens that are as far apart as others must not have numbers that are: the step between tokens is that of the
    # position, before bits are mixed (Wellons' lowbias32).
    mixed = tokens * (seeds & _WORD | np.uint64(1)).astype(np.uint32)
    mixed += (seeds >> np.uint64(_BITS)).astype(np.uint32)
    shifted = mixed >> np.uint32(16)
    mixed ^= shifted
    mixed *= np.uint32(0x7FEB352D)
    mixed ^= np.right_shift(mixed, np.uint32(15), out=shifted)
    mixed *= np.uint32(0x846CA68B)
    mixed ^= np.right_shift(mixed, np.uint32(16), out=shifted)
    return np.asarray(np.maximum(mixed, np.uint32(1), out=mixed))


def _mixed64(words: Words) -> Words:
    """Steele's mixer of 64 bits (splitmix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


# --- estimating


@dataclass(frozen=True)
class KeptOfPositions:
    """All that one model keeps at some positions, token after token: the position, the number, the logarithm of the
    probability, and whether it is among the most likely ones."""

    positions: NDArray[np.int64]
    ids: NDArray[np.int64]
    logs: Floats
    likely: NDArray[np.bool_]


def kept_of_positions(ids: NDArray[np.int32], logs: NDArray[np.float32], sample: TokenSample) -> KeptOfPositions:
    positions, width = ids.shape
    own = np.arange(positions)
    return KeptOfPositions(
        np.concatenate([np.repeat(own, width), np.repeat(own, sample.counts)]),
        np.concatenate([ids.reshape(-1), sample.ids]).astype(np.int64),
        np.concatenate([logs.reshape(-1), sample.logs]).astype(np.float64),
        np.arange(ids.size + len(sample.ids)) < ids.size,
    )


def sampled_variation(a: KeptOfPositions, b: KeptOfPositions, seeds: Words) -> tuple[Floats, Floats]:
    """The total variation at each position in two parts: that of the tokens that are among the most likely ones of
    both, which is known, and an estimate of the rest."""
    keys, first, second = _side_by_side(a, b)
    positions, ids = keys >> _BITS, keys & ((1 << _BITS) - 1)
    p, q = _probabilities(a, first), _probabilities(b, second)
    exact = _likely(a, first) & _likely(b, second)
    count = len(seeds)
    known = np.bincount(positions[exact], np.abs(p - q)[exact], minlength=count)
    drawn = _drawn(seeds[positions], ids.astype(np.uint32)).astype(np.float64) * 2.0**-_BITS
    terms = _excess(p / SPACING, q / SPACING, drawn) + _excess(q / SPACING, p / SPACING, drawn)
    rest = np.bincount(positions[~exact], SPACING * terms[~exact], minlength=count)
    return np.asarray(0.5 * known, np.float64), np.asarray(0.5 * rest, np.float64)


def _side_by_side(
    a: KeptOfPositions, b: KeptOfPositions
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Each token that either keeps, with its place among those of A and of B; −1: it is not among them."""
    ours, theirs = (side.positions << _BITS | side.ids for side in (a, b))
    keys, places = np.unique(np.concatenate([ours, theirs]), return_inverse=True)
    first, second = np.full((2, len(keys)), -1)
    first[places[: len(ours)]] = np.arange(len(ours))
    second[places[len(ours) :]] = np.arange(len(theirs))
    return keys, first, second


def _probabilities(side: KeptOfPositions, places: NDArray[np.int64]) -> Floats:
    """0 of tokens that were not kept."""
    return np.where(places >= 0, np.exp(side.logs)[places], 0.0) if len(side.logs) else np.zeros(len(places))


def _likely(side: KeptOfPositions, places: NDArray[np.int64]) -> NDArray[np.bool_]:
    return (places >= 0) & side.likely[places] if len(side.likely) else np.zeros(len(places), np.bool_)


def _excess(more: Floats, less: Floats, drawn: Floats) -> Floats:
    """An estimate of how much the first probability exceeds the second, in units of `SPACING`.

    The second need not be known where it is below the drawn number: what the formula makes of it is the same.
    """
    certain = np.maximum(more - np.maximum(less, 1.0), 0.0)
    with np.errstate(divide="ignore"):
        ratio = np.log(np.minimum(more, 1.0)) - np.log(np.maximum(np.minimum(less, 1.0), drawn))
    return np.where(drawn <= more, certain + np.where(ratio > _ROUNDING, ratio, 0.0), 0.0)


def sampled_limits(estimate: Floats, weight: Floats | float, odds: float = ODDS) -> tuple[Floats, Floats]:
    """Limits of a weighted sum of what was estimated, from its estimate. `weight`: the largest weight in it. `odds`: on
    each side one case of so many is wrong.

    A term of the sum is a weighted half of SPACING times an exponential variable that is cut off. With S the true sum,
    the variance is at most weight · SPACING · S, and the moments are those of Bernstein's inequality with the scale
    weight · SPACING / 2. That estimates are not negative gives the upper limit without the scale.
    """
    spread = 2.0 * SPACING * weight * np.log(odds)
    high = 0.25 * (np.sqrt(spread) + np.sqrt(spread + 4.0 * estimate)) ** 2
    low = np.maximum(np.sqrt(estimate) - 0.5 * np.sqrt(spread), 0.0) ** 2
    return low, high


def limits_of_mean(estimates: Floats, lengths: NDArray[np.int64], seeds: NDArray[np.int64]) -> tuple[float, float]:
    """Limits of the mean over texts, from the estimate of each, which is the mean over its positions.

    Copies of a text have the same sample, so that their errors are one error. The positions of a short text weigh more
    than others: those that weigh much have limits of their own, and one short text does not make all others uncertain.
    """
    _, places = np.unique(seeds, return_inverse=True)
    own = np.divide(1.0, lengths, out=np.zeros(len(lengths)), where=lengths > 0) / len(lengths)
    weights = np.bincount(places, own)[places]  # of a position, with those of all copies
    heavy = weights > _HEAVY * np.median(weights)
    low = high = 0.0
    for group in (heavy, ~heavy):
        if group.any():
            of_group = np.asarray(estimates[group].sum() / len(estimates))
            limits = sampled_limits(of_group, float(weights[group].max()), 2 * ODDS)
            low, high = low + float(limits[0]), high + float(limits[1])
    return low, high
