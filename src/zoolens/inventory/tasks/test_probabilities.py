import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.findings.measure.prediction_buffer import bit_digest
from zoolens.inventory.tasks.classification import best_classes
from zoolens.inventory.tasks.probabilities import probability_distance
from zoolens.inventory.tasks.task import Answers

ROUNDING = 1e-7  # of the reference: the stored scores are float32, and so are the vectors it is computed from


def answers(probabilities, *, width_known=True):
    """What is kept of full probability vectors."""
    probabilities = np.asarray(probabilities, np.float32)
    top = best_classes(probabilities, min(5, probabilities.shape[1])).astype(np.int32)
    columns = {
        "top": top,
        "score": np.take_along_axis(probabilities, top, axis=1),
        "sum_squares": np.einsum("ij,ij->i", probabilities, probabilities),
        "digest": bit_digest(probabilities),
    }
    return Answers("out", "classification", columns, probabilities.shape[1] if width_known else None)


def true_distance(p, q):
    return np.linalg.norm(p.astype(np.float64) - q.astype(np.float64), axis=1)


@st.composite
def two_models(draw):
    """Pairs from independent to nearly equal, from sure to flat, with ties and zeros."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    classes = draw(st.sampled_from([2, 3, 5, 6, 10, 100, 1000]))
    spread = draw(st.sampled_from([0.01, 0.1, 1.0, 10.0]))
    p = random.dirichlet(np.full(classes, spread), 20)
    q = random.dirichlet(np.full(classes, spread), 20)
    share = draw(st.sampled_from([0.0, 1e-6, 1e-3, 0.1, 1.0]))
    q = (1 - share) * p + share * q
    if draw(st.booleans()):  # quantised scores: many ties and zeros
        p, q = np.round(p * 256) / 256, np.round(q * 256) / 256
    return p.astype(np.float32), q.astype(np.float32)


@settings(max_examples=100, deadline=None)
@given(two_models(), st.booleans(), st.booleans())
def test_the_true_distance_lies_in_the_interval(models, width_a, width_b):
    p, q = models
    low, high = probability_distance(answers(p, width_known=width_a), answers(q, width_known=width_b))
    true = true_distance(p, q)
    assert (low <= true + ROUNDING).all()
    assert (true <= high + ROUNDING).all()


def test_the_order_of_the_two_does_not_matter():
    random = np.random.default_rng(1)
    p, q = (answers(random.dirichlet(np.full(10, 0.5), 50)) for _ in range(2))
    np.testing.assert_allclose(probability_distance(p, q), probability_distance(q, p), rtol=1e-12)


def test_where_all_classes_are_kept_the_distance_is_exact():
    random = np.random.default_rng(2)
    p, q = (random.dirichlet(np.ones(4), 50).astype(np.float32) for _ in range(2))
    low, high = probability_distance(answers(p, width_known=False), answers(q, width_known=False))
    np.testing.assert_allclose(low, true_distance(p, q), rtol=1e-6)
    np.testing.assert_allclose(high, true_distance(p, q), rtol=1e-6)


def test_sure_models_have_a_narrow_interval():
    random = np.random.default_rng(3)
    p, q = (random.dirichlet(np.full(1000, 0.001), 200).astype(np.float32) for _ in range(2))
    low, high = probability_distance(answers(p), answers(q))
    assert (high - low).mean() < 0.02
    assert true_distance(p, q).mean() == pytest.approx(low.mean(), abs=0.02)


def test_the_same_bits_are_no_distance_apart():
    p = np.random.default_rng(4).dirichlet(np.ones(1000), 5)
    assert probability_distance(answers(p), answers(p)) == (pytest.approx(np.zeros(5)), pytest.approx(np.zeros(5)))
