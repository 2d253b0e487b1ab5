"""Figures of several replicas are summed up, with an interval that is as sure as it says."""

import numpy as np
import pytest

from zoolens.base.store.store import open_store
from zoolens.faces.serving.services.comparison import ModelPair
from zoolens.faces.serving.services.definition import Service
from zoolens.faces.serving.services.events import EventLog, ModelComparison, sessions
from zoolens.faces.serving.services.session_words import _summed, session_data, session_sentences


def row(replica, n, agreement, **others):
    return ModelComparison("b", "a", n, agreement, agreement - 0.1, agreement + 0.1, replica=replica, **others)


def test_replicas_are_summed_by_how_much_each_has_compared(tmp_path):
    store_path = tmp_path / "store.sqlite"
    log = EventLog(store_path, {"fashion": Service(reference="a", within=0.9)})
    log.record("fashion", row("r1", 5, 0.2))  # an older state
    log.record("fashion", row("r1", 300, 0.9, labelled=10, gain=0.3, gain_low=0.1, gain_high=0.5, dropped=2))
    log.record("fashion", row("r2", 100, 0.5, labelled=30, gain=-0.1, gain_low=-0.3, gain_high=0.1, share=0.5))
    log.close()
    with open_store(store_path) as store:
        (session,) = sessions(store)
    (data,) = session_data(session)["comparisons_of_all_replicas"]
    assert (data["n"], data["dropped"], data["share"], data["replicas"]) == (400, 2, 0.5, 2)
    assert [data[name] for name in ("agreement", "low", "high", "confidence")] == pytest.approx([0.8, 0.7, 0.9, 0.9])
    assert [data[name] for name in ("labelled", "gain", "gain_low", "gain_high")] == pytest.approx([40, 0, -0.2, 0.2])
    assert len(session_data(session)["comparisons"]) == 2
    sentence = session_sentences(session)[0]
    assert "agree on 80.0 % [70.0, 90.0] (at least 90 % confidence) of the newest 400 requests" in sentence
    assert "on 2 replicas" in sentence


def test_of_one_replica_nothing_changes_and_of_twenty_no_interval_is_left():
    (alone,) = [_summed([row("", 50, 0.9)])]
    assert (alone.low, alone.high, alone.confidence) == pytest.approx((0.8, 1.0, 0.95))
    many = _summed([row(f"r{place}", 50, 0.9) for place in range(20)])
    assert (many.low, many.high, many.confidence) == (0.0, 1.0, 0.0)


@pytest.mark.slow
def test_the_interval_of_several_replicas_covers_as_often_as_it_says():
    """Replicas may see different requests: the mean over all of them is what is covered."""
    chance = np.random.default_rng(0)
    truths, covered, trials = (0.9, 0.7, 0.8), 0, 60
    for _ in range(trials):
        rows = []
        for truth in truths:
            pair = ModelPair("b", "a")
            for agrees in chance.random(60) < truth:
                pair.add(np.array([0]), np.array([0 if agrees else 1]), 0.0)
            rows.append(pair.compared())
        summed = _summed(rows)
        covered += summed.low <= np.mean(truths) <= summed.high
    assert summed.confidence == pytest.approx(0.85)
    assert covered / trials >= 0.85
