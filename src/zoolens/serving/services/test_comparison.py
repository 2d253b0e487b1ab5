import numpy as np
import pytest

from zoolens.serving.services.comparison import MOST, Pair, answered_classes


def classes(*values):
    return np.array(values, np.int64)


def test_a_row_with_a_value_that_is_not_a_number_has_no_class():
    output = np.array([[0.1, 0.9], [np.nan, 1.0], [0.8, 0.2]], np.float32)
    assert list(answered_classes(output)) == [1, -1, 0]
    pair = Pair("a", "b")
    pair.add(classes(-1), classes(-1))  # two that do not answer do not agree
    assert pair.agreement == 0


def test_the_interval_of_the_agreement_closes_in_on_it():
    rng = np.random.default_rng(0)
    pair = Pair("a", "b")
    widths = []
    for _ in range(4):
        ours = rng.integers(0, 10, 500)
        pair.add(ours, np.where(rng.random(500) < 0.9, ours, (ours + 1) % 10))
        low, high = pair.agreement_interval(now=True)
        assert low <= 0.9 <= high
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.1
    assert pair.agreement == pytest.approx(0.9, abs=0.02)


def test_labels_decide_who_is_right_more_often_and_only_when_they_do():
    rng = np.random.default_rng(1)
    pair = Pair("a", "b")
    assert "cannot be judged" in pair.verdict()
    truth = rng.integers(0, 10, 2000)
    ours = np.where(rng.random(2000) < 0.7, truth, (truth + 1) % 10)
    theirs = np.where(rng.random(2000) < 0.9, truth, (truth + 1) % 10)
    pair.add_labels(ours[:10], theirs[:10], truth[:10])
    assert pair.verdict().startswith("Neither")
    pair.add_labels(ours[10:], theirs[10:], truth[10:])
    assert pair.verdict().startswith("b is right more often than a, by ")
    assert pair.gain == pytest.approx(0.2, abs=0.05)


def test_it_does_not_grow_without_end():
    pair = Pair("a", "b")
    for _ in range(3):
        pair.add(np.zeros(MOST, np.int64), np.zeros(MOST, np.int64))
    assert pair.n == MOST
    assert pair.agreement == 1
