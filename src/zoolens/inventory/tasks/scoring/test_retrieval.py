"""nDCG equals scikit-learn's, except that a query without relevant documents is undefined."""

import math

import numpy as np
import pytest
from sklearn.metrics import ndcg_score, roc_auc_score

from zoolens.base.errors import ZoolensError
from zoolens.inventory.tasks.scoring.ranked_scores import equal_error_rate, roc_auc
from zoolens.inventory.tasks.scoring.retrieval import NO_RELEVANT, mean_ndcg, query_ndcg, verification_scores
from zoolens.inventory.tasks.scoring.score import Score


@pytest.mark.parametrize("k", [1, 3, 10, 100])
@pytest.mark.parametrize("digits", [0, 8])
def test_ndcg_is_that_of_scikit_learn(k, digits):
    rng = np.random.default_rng(k)
    scores = np.round(rng.normal(size=(20, 15)), digits)
    relevance = rng.integers(0, 4, (20, 15)).astype(np.float64)
    queries = [query_ndcg(a, b, k) for a, b in zip(scores, relevance, strict=True)]
    expected = [ndcg_score(b[None], a[None], k=k) for a, b in zip(scores, relevance, strict=True)]
    assert [query.value for query in queries] == pytest.approx(expected, rel=1e-12)
    weights = rng.integers(0, 3, 20)
    mean = ndcg_score(relevance, scores, k=k, sample_weight=weights)
    assert mean_ndcg(queries, weights).value == pytest.approx(mean, rel=1e-12)


def test_a_query_without_relevant_documents_is_left_out_and_counted():
    nothing = query_ndcg(np.arange(3.0), np.zeros(3), 2)
    assert (math.isnan(nothing.value), nothing.reason) == (True, NO_RELEVANT)
    assert query_ndcg(np.empty(0), np.empty(0), 2).reason == NO_RELEVANT
    mean = mean_ndcg([Score(0.5), nothing, Score(1.0)], [1, 4, 3])
    assert (mean.value, mean.used, mean.total) == (0.875, 4, 8)
    assert mean_ndcg([nothing]).reason == NO_RELEVANT


def test_a_model_that_gives_nan_has_no_mean():
    failed = query_ndcg(np.array([np.nan, 1.0]), np.ones(2), 2)
    assert failed.reason == "A document's score is NaN."
    mean = mean_ndcg([Score(1.0), failed])
    assert (mean.defined, mean.used, mean.total, mean.reason) == (False, 0, 2, "A document's score is NaN.")
    assert mean_ndcg([Score(1.0), failed], [1, 0]).value == 1


@pytest.mark.parametrize("relevance", [-1.0, np.nan, np.inf])
def test_other_relevance_is_refused(relevance):
    with pytest.raises(ZoolensError, match="must be a number of at least 0"):
        query_ndcg(np.zeros(1), np.array([relevance]), 1)


def test_shapes_are_checked():
    with pytest.raises(ZoolensError, match="rows of one length"):
        query_ndcg(np.zeros(2), np.zeros(3), 1)
    with pytest.raises(ZoolensError, match="k of at least 1; got 0"):
        query_ndcg(np.zeros(2), np.zeros(2), 0)


def test_pairs_are_verified():
    rng = np.random.default_rng(0)
    same = rng.random(200) < 0.5
    similarities = rng.normal(size=200) + same
    ranked = verification_scores(similarities, same)
    assert roc_auc(ranked).value == pytest.approx(roc_auc_score(same, similarities), rel=1e-12)
    assert 0.2 < equal_error_rate(ranked).value < 0.4
