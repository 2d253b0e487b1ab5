"""Distributions over the next token at each position of a text: what is kept of them, and how far two of them agree.

Of a distribution the most likely tokens are kept with the logarithms of their probabilities, and a sample of the
others. What two models make of the tokens that neither keeps is known as one sum for each model, so that their
agreement lies in an interval; the sample makes it narrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.inventory.tasks.scoring.token_samples import (
    TokenSample,
    Words,
    kept_of_positions,
    sampled_tokens,
    sampled_variation,
)

_POSITIONS: Final = 16  # whose distributions are made at once: in doubles, 6 MB of a vocabulary of 50,000
_COMPARED: Final = 1 << 14
_LEAST_REST: Final = 1e-6  # what the float32 logarithms of twenty probabilities leave open of their sum

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class KeptTokens:
    """The distributions at some positions. Tokens are in the order of their probability; of equal ones, the lowest
    number comes first."""

    true: NDArray[np.float32]  # log-probability of the token that follows
    ids: NDArray[np.int32]  # positions × k
    logs: NDArray[np.float32]  # positions × k: log-probabilities
    sample: TokenSample | None = None  # of the other tokens; None: nothing is known of them one by one

    def part(self, first: int, last: int) -> KeptTokens:
        """What is kept at some of the positions."""
        some = slice(first, last)
        sample = None if self.sample is None else self.sample.part(first, last)
        return KeptTokens(self.true[some], self.ids[some], self.logs[some], sample)


def kept_tokens(
    scores: NDArray[Any],
    following: NDArray[np.int64],
    top: int,
    places: NDArray[np.int64] | None = None,
    seeds: Words | None = None,
) -> KeptTokens:
    """What is kept of scores (positions × tokens), whose softmax is the distribution of the token that follows.

    `places`: the positions that are wanted, by default all of them. `seeds`: one for each of them, from which the
    tokens of the sample are drawn; None: no sample is kept.
    """
    vocabulary, count = scores.shape[1], len(following)
    if following.max(initial=0) >= vocabulary:
        raise ModelError(
            f"A text has the token {int(following.max()):,}, but the model scores {vocabulary:,} tokens.",
            hint="The tokenizer is that of another model.",
        )
    k = min(top, vocabulary)
    true, ids, logs = np.empty(count, np.float32), np.empty((count, k), np.int32), np.empty((count, k), np.float32)
    # Written again and again: new memory of this size would take longer than what is computed in it.
    work = np.empty((min(count, _POSITIONS), vocabulary))
    samples: list[TokenSample] = []
    for first in range(0, count, _POSITIONS):
        some = slice(first, first + _POSITIONS)
        rows = scores[some] if places is None else scores[places[some]]
        if rows.dtype.kind != "f":
            # Numbers that numpy cannot order or negate, such as bfloat16 or unsigned ones.
            rows = rows.astype(np.float64)
        largest, totals = _sums_of_powers(rows, work[: len(rows)])
        logarithms = largest + np.log(totals)
        true[some] = rows[np.arange(len(rows)), following[some]] - logarithms
        ids[some], likely = most_likely(rows, k)
        logs[some] = likely - logarithms[:, np.newaxis]
        if seeds is not None:
            of_rows, tokens = sampled_tokens(work[: len(rows)], totals, seeds[some], ids[some].astype(np.int64))
            samples.append(
                TokenSample(
                    np.bincount(of_rows, minlength=len(rows)).astype(np.int32),
                    tokens.astype(np.int32),
                    (rows[of_rows, tokens] - logarithms[of_rows]).astype(np.float32),
                )
            )
    return KeptTokens(true, ids, logs, None if seeds is None else _joined(samples))


def _joined(samples: Sequence[TokenSample]) -> TokenSample:
    if not samples:
        return TokenSample(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32))
    return TokenSample(
        np.concatenate([each.counts for each in samples]),
        np.concatenate([each.ids for each in samples]),
        np.concatenate([each.logs for each in samples]),
    )


def _sums_of_powers(rows: NDArray[Any], work: Floats) -> tuple[Floats, Floats]:
    """The largest score of each row, and the sum of e to the power of what each score is beside it, which `work` then
    holds."""
    # NaN where one of them is NaN.
    largest = rows.max(axis=1).astype(np.float64)
    if not np.isfinite(largest).all():
        raise ModelError("The model answered NaN or infinity for a token.")
    np.subtract(rows, largest[:, np.newaxis], out=work)
    return largest, np.exp(work, out=work).sum(axis=1)


def most_likely(rows: NDArray[Any], count: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The numbers of so many tokens of each row, the likeliest first, and what the rows say of them. Of equals, the
    first."""
    k = min(count, rows.shape[1])
    if k == 0:
        return np.empty((len(rows), 0), np.int64), np.empty((len(rows), 0), rows.dtype)
    # All that are as likely as the last of them, so that which one is kept does not depend on the way of choosing.
    least = np.partition(rows, rows.shape[1] - k, axis=1)[:, -k, None]
    ids = np.empty((len(rows), k), np.int64)
    for place, (row, bound) in enumerate(zip(rows, least, strict=True)):
        candidates = np.flatnonzero(row >= bound)
        ids[place] = candidates[np.argsort(-row[candidates], kind="stable")[:k]]
    return ids, np.take_along_axis(rows, ids, axis=1)


@dataclass(frozen=True)
class PositionPairs:
    """Two models at each position. `agreement` is 1 − total variation of the tokens that both kept and of all others as
    one, and no less than that over all tokens, which is at least `least`. `divergence` is the Kullback–Leibler
    divergence of B from A in nats over the same parts, which is at most that over all tokens."""

    agreement: Floats
    least: Floats
    divergence: Floats
    same_best: NDArray[np.bool_]
    # The total variation in two parts (`sampled_variation`); None: no samples of the same tokens were kept.
    sampled: tuple[Floats, Floats] | None = None

    @property
    def estimate(self) -> Floats:
        """1 − total variation over all tokens, as the samples have it; `agreement` where there is none."""
        if self.sampled is None:
            return self.agreement
        return np.clip(1.0 - sum(self.sampled), np.minimum(self.least, self.agreement), self.agreement)


def compare_tokens(a: KeptTokens, b: KeptTokens, seeds: Words | None = None) -> PositionPairs:
    """`seeds`: from which the samples of both were drawn at each position; None: samples are left aside."""
    starts = range(0, max(len(a.ids), 1), _COMPARED)
    pieces = [(first, a.part(first, first + _COMPARED), b.part(first, first + _COMPARED)) for first in starts]
    compared = [_compared(ours, theirs) for _, ours, theirs in pieces]
    agreement, least, divergence, same_best = (np.concatenate(columns) for columns in zip(*compared, strict=True))
    sampled = None
    if seeds is not None and a.sample is not None and b.sample is not None:
        found = [_sampled(ours, theirs, seeds[first : first + _COMPARED]) for first, ours, theirs in pieces]
        known, rest = (np.concatenate(parts) for parts in zip(*found, strict=True))
        sampled = known, rest
    return PositionPairs(agreement, least, divergence, same_best, sampled)


def _sampled(a: KeptTokens, b: KeptTokens, seeds: Words) -> tuple[Floats, Floats]:
    assert a.sample is not None
    assert b.sample is not None
    ours, theirs = kept_of_positions(a.ids, a.logs, a.sample), kept_of_positions(b.ids, b.logs, b.sample)
    return sampled_variation(ours, theirs, seeds)


def _compared(a: KeptTokens, b: KeptTokens) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
    ours, theirs = _common(a, b)
    p, q = np.exp(ours), np.exp(theirs)  # 0 of tokens that only one of them kept
    rest = [np.maximum(_LEAST_REST, 1.0 - each.sum(axis=1)) for each in (p, q)]
    least = np.minimum(p, q).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_tokens = np.where(p > 0, p * (ours - theirs), 0.0).sum(axis=1)
    # Sums of probabilities are rounded, so that equal distributions could be a hair beside 1 and 0.
    agreement = 1.0 - 0.5 * (np.abs(p - q).sum(axis=1) + np.abs(rest[0] - rest[1]))
    return (
        np.clip(agreement, 0.0, 1.0),
        np.clip(least, 0.0, 1.0),
        np.maximum(0.0, of_tokens + rest[0] * np.log(rest[0] / rest[1])),
        a.ids[:, 0] == b.ids[:, 0],
    )


def _common(a: KeptTokens, b: KeptTokens) -> tuple[Floats, Floats]:
    """Log-probabilities in A and B of the tokens that both kept, in the order of their numbers; −∞ elsewhere."""
    width, rows = a.ids.shape[1], np.arange(len(a.ids))[:, None]
    ids = np.concatenate([a.ids, b.ids], axis=1)
    logs = np.concatenate([a.logs, b.logs], axis=1).astype(np.float64)
    order = np.argsort(ids, axis=1, kind="stable")  # of equal ones, that of A comes first
    ids, logs = ids[rows, order], logs[rows, order]
    both = np.zeros(ids.shape, np.bool_)
    both[:, :-1] = (ids[:, :-1] == ids[:, 1:]) & (order[:, :-1] < width)
    theirs = np.full(ids.shape, -np.inf)
    theirs[:, :-1] = logs[:, 1:]
    return np.where(both, logs, -np.inf), np.where(both, theirs, -np.inf)
