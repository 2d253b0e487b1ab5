"""Embeddings judged by pairs that are the same or different, and by how they rank documents for queries."""

import math

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.tasks.embedding import Embedding, pair_cosines, query_figures
from zoolens.inventory.tasks.scoring.retrieval import query_ndcg
from zoolens.inventory.tasks.task import Answers
from zoolens.testing.task_contract import N, TaskContract

TASK = Embedding()


def pair(value):
    return Truth("similarity", {"similarity": np.array([float(value)])})


def related(own="", **gains):
    parts = {"own": np.array([own]), "documents": np.array([*gains], str), "gains": np.array([*gains.values()], float)}
    return Truth("relevance", parts)


def answers(vectors, truths):
    return Answers("out", "embedding", {"vector": np.asarray(vectors, np.float32)}, None, TASK.keep_truth(truths))


class TestVerifiedPairs(TaskContract):
    task_class = Embedding

    def truths(self):
        return [pair(place % 2) for place in range(N)]


def test_pairs_that_are_the_same_or_different_have_an_area_under_the_curve():
    random = np.random.default_rng(0)
    same = random.integers(0, 2, 60)
    left = random.normal(size=(60, 3))
    right = left * same[:, None] + random.normal(0, 0.8, (60, 3))
    judged = TASK.judgement(answers(np.concatenate([left, right], axis=1), list(map(pair, same))))
    assert [metric.name for metric in judged.metrics] == ["spearman", "pearson", "verification_auc"]
    weights = np.concatenate([np.ones((1, 60), int), random.integers(0, 3, (4, 60))])
    found = judged.of("verification_auc")(weights)
    left, right = (side.astype(np.float32).astype(float) for side in (left, right))
    cosines = (left * right).sum(1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)
    for row, area in zip(weights, found, strict=True):
        # Every pair of a same and a different one, as often as both are drawn.
        true, false = (np.flatnonzero(same == value) for value in (1, 0))
        right_order = sum(row[i] * row[j] * (cosines[i] > cosines[j]) for i in true for j in false)
        assert area == pytest.approx(right_order / (row[true].sum() * row[false].sum()))
    assert "pairs are the same" in judged.notes[0]
    assert {metric.name: metric.blind for metric in judged.metrics}["verification_auc"] == 0.5
    graded = TASK.judgement(answers(np.ones((3, 2)), [pair(0), pair(1), pair(0.5)]))
    assert [metric.name for metric in graded.metrics] == ["spearman", "pearson"]


def brute_force(query, documents, gains, missing=()):
    """nDCG@10 without ties: documents sorted by their cosine."""
    cosines = [float(query @ document / np.linalg.norm(query) / np.linalg.norm(document)) for document in documents]
    order = sorted(range(len(documents)), key=lambda place: -cosines[place])[:10]
    gained = sum(gains.get(place, 0) / math.log2(rank + 2) for rank, place in enumerate(order))
    ideal = sorted([*gains.values(), *missing], reverse=True)[:10]
    return gained / sum(gain / math.log2(rank + 2) for rank, gain in enumerate(ideal))


@pytest.fixture
def searched():
    random = np.random.default_rng(3)
    documents, queries = random.normal(size=(40, 5)), random.normal(size=(6, 5))
    gains = [dict(zip(random.choice(40, 4, replace=False).tolist(), [3, 2, 1, 0], strict=True)) for _ in queries]
    truths = [related(f"d{place}") for place in range(40)]
    truths += [related(**{f"d{place}": gain for place, gain in own.items()}) for own in gains]
    vectors = np.concatenate([documents, queries]).astype(np.float32)
    return answers(vectors, truths), vectors.astype(float), gains


def test_queries_rank_all_documents(searched):
    given, vectors, gains = searched
    expected = [brute_force(vectors[40 + place], vectors[:40], own) for place, own in enumerate(gains)]
    values, by_chance, unfound = query_figures(given)
    assert np.isnan(values[:40]).all()
    assert not unfound
    np.testing.assert_allclose(values[40:], expected)
    # Documents that are all alike share their places, as those in random order do on average.
    alike = Answers("out", "embedding", {"vector": np.ones_like(given.columns["vector"])}, truths=given.truths)
    np.testing.assert_allclose(by_chance[40:], query_figures(alike)[0][40:])
    assert TASK.judgement(given).main.blind == pytest.approx(by_chance[40:].mean())
    judged = TASK.judgement(given)
    assert [metric.name for metric in judged.metrics] == ["ndcg_at_10"]
    assert not judged.main.interval  # of six queries
    assert "6 queries, 40 documents" in judged.notes[0]
    # Queries are drawn; how often a document is drawn does not matter.
    weights = np.ones((2, 46), int)
    weights[1, :40] = np.arange(40)
    weights[1, 40:] = [2, 0, 1, 0, 0, 0]
    found = judged.aggregate(weights)[:, 0]
    assert found[0] == pytest.approx(np.mean(expected))
    assert found[1] == pytest.approx((2 * expected[0] + expected[2]) / 3)
    assert np.isnan(judged.aggregate(np.r_[np.ones(40, int), np.zeros(6, int)][None])).all()


def test_documents_that_are_not_there_count_as_never_found():
    vectors = [[1, 0], [0, 1], [1, 0.1]]
    truths = [related("a"), related("b"), related(a=1, gone=2, also_gone=0)]
    values, _, unfound = query_figures(answers(vectors, truths))
    expected = brute_force(np.array([1, 0.1]), np.eye(2), {0: 1}, [2])
    assert (values[2], unfound) == (pytest.approx(expected), 1)
    judged = TASK.judgement(answers(vectors, truths))
    assert "1 relevant documents are not among the inputs" in judged.notes[1]
    alone = TASK.judgement(answers([[1, 0]], [related(gone=1)]))
    assert alone.aggregate(np.ones((1, 1), int))[0, 0] == 0
    assert query_ndcg(np.zeros(0), np.zeros(0), 10, [1.0]).value == 0


def test_queries_without_a_relevant_document_do_not_count():
    given = answers([[1, 0], [1, 0], [0, 1]], [related("a"), related(a=1), related(a=0)])
    judged = TASK.judgement(given)
    assert judged.aggregate(np.ones((1, 3), int))[0, 0] == 1
    assert "1 queries have no relevant document" in judged.notes[1]
    nothing = TASK.judgement(answers([[0, 0], [0, 0]], [related("a"), related(a=1)]))
    assert nothing.aggregate(np.ones((1, 2), int))[0, 0] == 1  # the only document is the best one


def test_a_query_that_is_a_document_does_not_find_itself():
    """As BEIR 2.2.0 does with ignore_identical_ids: the document leaves the ranking, and not what was judged."""
    vectors = [[1, 0], [0, 1], [1, 0.1]]
    documents = [related("q"), related("b")]
    values, _, unfound = query_figures(answers(vectors, [*documents, related(b=1, q=math.nan)]))
    assert (values[2], unfound) == (1, 0)
    given = answers(vectors, [*documents, related(b=1)])
    assert query_figures(given)[0][2] == pytest.approx(1 / math.log2(3))
    itself = Truth("relevance", {"own": np.array([""]), "documents": np.array(["b", "q", "q"]),
                                 "gains": np.array([1, 1, math.nan])})  # fmt: skip
    given = answers(vectors, [*documents, itself])
    values, _, unfound = query_figures(given)
    assert (values[2], unfound) == (pytest.approx(1 / (1 + 1 / math.log2(3))), 0)
    notes = TASK.judgement(given).notes
    assert notes == ("1 queries, 2 documents", notes[1])
    assert notes[1] == "1 queries have the id of a document, which is left out of their ranking as in BEIR"


def test_a_vector_of_nan_is_said_and_makes_no_query_one_without_documents():
    given = answers([[1, 0], [math.nan, 0], [1, 0]], [related("a"), related("b"), related(a=1)])
    with pytest.raises(ModelError, match="holds NaN or infinity"):
        TASK.judgement(given)


def test_only_pairs_are_shown_as_pairs():
    mixed = answers([[1, 0], [1, 1], [0.5, 2]], [pair(4), related("a"), related(a=1)])
    assert TASK.show(mixed, 0) == "cosine of the pair 0.0000"
    assert TASK.show(mixed, 1) == "[1, 1]"
    assert TASK.show_truth(mixed, 0) == "similarity 4"
    assert TASK.show_truth(mixed, 1) == "the document a"
    assert TASK.show_truth(mixed, 2) == "a query with 1 relevant documents"
    # An odd number of numbers is no pair, and there is nothing to say of a run without truths.
    assert TASK.show(answers([[1, 2, 3]], [None]), 0) == "[1, 2, 3]"


def test_a_vector_of_zeros_is_like_nothing():
    """A text without a single known token often has one."""
    pairs = [[0, 0, 0, 0], [1, 0, 1, 0], [1, 0, 0, 0], [1, 0, 0, 1]]
    given = answers(pairs, list(map(pair, (0.1, 0.9, 0.2, 0.3))))
    assert pair_cosines(given).tolist() == [0, 1, 0, 0]
    assert TASK.judgement(given).notes == ("2 of 4 pairs have a vector of zeros, whose cosine counts as 0",)
