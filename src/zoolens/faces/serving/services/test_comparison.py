import numpy as np
import pytest

from zoolens.faces.serving.services.comparison import EPOCH, ModelPair, answered_classes


def classes(*values):
    return np.array(values, np.int64)


def test_a_row_with_a_value_that_is_not_a_number_has_no_class():
    output = np.array([[0.1, 0.9], [np.nan, 1.0], [0.8, 0.2]], np.float32)
    assert list(answered_classes(output)) == [1, -1, 0]
    pair = ModelPair("a", "b")
    pair.add(classes(-1), classes(-1), 0.5)  # two that do not answer do not agree
    assert pair.agreement == 0


def test_the_interval_of_the_agreement_closes_in_on_it():
    rng = np.random.default_rng(0)
    pair = ModelPair("a", "b")
    widths = []
    for _ in range(4):
        ours = rng.integers(0, 10, (500, 1))
        for classes_of_one, agree in zip(ours, rng.random(500) < 0.9, strict=True):
            pair.add(classes_of_one, classes_of_one if agree else classes_of_one + 1, 0.5)
        low, high = pair.agreement_interval
        assert low <= 0.9 <= high
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.1
    assert pair.agreement == pytest.approx(0.9, abs=0.02)


def test_labels_decide_who_is_right_more_often_and_only_when_they_do():
    rng = np.random.default_rng(1)
    pair = ModelPair("a", "b")
    assert "cannot be judged" in pair.compared().verdict
    truth = rng.integers(0, 10, (2000, 1))
    ours = np.where(rng.random((2000, 1)) < 0.7, truth, (truth + 1) % 10)
    theirs = np.where(rng.random((2000, 1)) < 0.9, truth, (truth + 1) % 10)
    for place, answers in enumerate(zip(ours, theirs, truth, strict=True)):
        if place == 10:
            assert pair.compared().verdict.startswith("Neither")
        pair.add_labels(*answers, 0.5)
    assert pair.compared().verdict.startswith("b is more accurate than a, by ")
    assert pair.gain == pytest.approx(0.2, abs=0.05)


def test_a_request_counts_once_however_many_rows_it_has():
    """A client that sends 64 frames of one video gives one disagreement, not 64."""
    pair = ModelPair("a", "b")
    for _ in range(4):
        pair.add(np.zeros(64, np.int64), np.ones(64, np.int64), 0.5)
        pair.add_labels(np.zeros(64, np.int64), np.ones(64, np.int64), np.ones(64, np.int64), 0.5)
    assert (pair.n, pair.labelled) == (4, 4)
    assert pair.agreement_interval.high > 0.5
    pair.add(classes(0, 0, 0, 0), classes(0, 0, 0, 1), 0.5)
    assert pair.agreement == pytest.approx(0.75 / 5)


def test_a_change_is_seen_however_long_the_service_has_run(monkeypatch):
    monkeypatch.setattr("zoolens.faces.serving.services.comparison.EPOCH", 400)
    monkeypatch.setattr("zoolens.faces.serving.services.comparison._FEWEST_SHOWN", 100)
    pair = ModelPair("a", "b")
    for _ in range(EPOCH // 10):
        pair.add(classes(1), classes(1), 0.5)
    assert pair.agreement == 1
    for _ in range(400):
        pair.add(classes(1), classes(2), 0.5)
    assert pair.n >= 100
    assert pair.agreement_interval.high < 0.5


def test_where_the_share_is_halved_only_what_had_the_same_chance_counts():
    """Of 900 quiet requests all are compared, of 900 busy ones only a quarter: they disagree, and weigh as much."""
    rng = np.random.default_rng(0)
    pair = ModelPair("a", "b")
    for ticket in rng.random(900):
        pair.add(classes(1), classes(1), ticket)
    assert pair.halve()
    assert pair.halve()
    assert pair.share == 0.25
    for ticket in rng.random(900):
        if ticket < pair.share:
            pair.add(classes(1), classes(2), ticket)
    assert pair.agreement == pytest.approx(0.5, abs=0.06)
    assert pair.agreement_interval.contains(0.5)
    assert pair.n == pytest.approx(450, abs=60)
    assert pair.compared_requests > 1000
    assert pair.compared().share == 0.25


def test_a_share_is_not_halved_for_ever_and_whole_again_in_a_new_epoch(monkeypatch):
    monkeypatch.setattr("zoolens.faces.serving.services.comparison.EPOCH", 3)
    pair = ModelPair("a", "b")
    assert [pair.halve() for _ in range(12)] == [True] * 10 + [False] * 2
    for _ in range(4):
        pair.add(classes(1), classes(1), 0.0)
    assert pair.share == 1
