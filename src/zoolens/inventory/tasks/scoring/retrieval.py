"""Judged embeddings: how well queries rank their documents (nDCG), and pairs of the same above those of different ones.

nDCG is scikit-learn's: linear gains, logarithmic discounts, and tied documents share the mean of their gains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zoolens.base.errors import ZoolensError
from zoolens.inventory.tasks.scoring.ranked_scores import RankedScores, rank_scores
from zoolens.inventory.tasks.scoring.score import Floats, MeanScore, Score, checked_weights, undefined, weighted_mean

NO_RELEVANT: Final = "No document is relevant to the query."


def query_ndcg(scores: NDArray[np.floating], relevance: NDArray[np.floating], k: int, unfound: ArrayLike = ()) -> Score:
    """nDCG@k of one query. `relevance`: of each document, at least 0; 0 says that it is not relevant. `unfound`: the
    relevance of documents that cannot be found because nobody ranked them; the ideal has them, as in trec_eval."""
    if scores.ndim != 1 or scores.shape != relevance.shape:
        raise ZoolensError(
            f"Scores and relevance must be rows of one length; got {scores.shape} and {relevance.shape}."
        )
    if k < 1:
        raise ZoolensError(f"nDCG needs a k of at least 1; got {k}.")
    gains = relevance.astype(np.float64)
    every = np.concatenate([gains, np.asarray(unfound, np.float64)])
    if not (np.isfinite(every) & (every >= 0)).all():
        raise ZoolensError("The relevance of a document must be a number of at least 0.")
    if np.isnan(scores).any():
        return undefined("A document's score is NaN.")
    if not every.any():
        return undefined(NO_RELEVANT)
    discounts = np.where(np.arange(len(every)) < k, 1 / np.log2(np.arange(len(every)) + 2), 0)
    ideal = float(np.sort(every)[::-1] @ discounts)
    found = _tied_gain(scores, gains, discounts[: len(gains)]) if len(gains) else 0.0
    return Score(found / ideal)


def random_ndcg(relevance: NDArray[np.floating], k: int, unfound: Sequence[float] = ()) -> float:
    """The mean nDCG@k over all orders of the documents; NaN where none is relevant."""
    ideal = np.sort([*relevance[relevance > 0], *unfound])[::-1][:k]
    if not len(ideal):
        return math.nan
    discounts = 1 / np.log2(np.arange(k) + 2)
    found = float(relevance.mean() * discounts[: len(relevance)].sum()) if len(relevance) else 0.0
    return found / float(ideal @ discounts[: len(ideal)])


def _tied_gain(scores: NDArray[np.floating], gains: Floats, discounts: Floats) -> float:
    """Discounted gain, in which tied documents have each place of their tie equally often."""
    _, groups, sizes = np.unique(-scores, return_inverse=True, return_counts=True)
    mean_gains = np.bincount(groups, gains) / sizes
    shared = np.add.reduceat(discounts, np.cumsum(sizes) - sizes)
    return float(mean_gains @ shared)


def mean_ndcg(queries: Sequence[Score], weights: ArrayLike | None = None) -> MeanScore:
    """Mean nDCG of the queries that have a relevant document. If any query is undefined for another reason, so is the
    mean: leaving it out would flatter a model that fails."""
    values = [query.value for query in queries]
    counts = checked_weights(weights, len(values))
    for query, count in zip(queries, counts, strict=True):
        if count and query.reason not in ("", NO_RELEVANT):
            return MeanScore(math.nan, 0, int(counts.sum()), query.reason)
    return weighted_mean(values, counts, NO_RELEVANT)


def verification_scores(similarities: NDArray[np.floating], same: NDArray[np.bool_]) -> RankedScores:
    """Pairs by their similarity, for `roc_auc` and `equal_error_rate`. `same`: both belong to one identity."""
    return rank_scores(similarities, same)
