"""The difference of a main metric has an interval only where the metric of one run has."""

from types import SimpleNamespace

import numpy as np
import pytest

from zoolens.findings.comparisons import vector_changes
from zoolens.findings.comparisons.behaviour import pair_answers
from zoolens.findings.comparisons.wording import silence_words
from zoolens.findings.measure.task_metrics import NOT_COVERED
from zoolens.inventory.tasks.judgement import Judgement, Metric
from zoolens.inventory.tasks.ragged import Ragged
from zoolens.inventory.tasks.task import Answers, task_named


@pytest.mark.parametrize("covered", [True, False])
def test_a_metric_that_resampling_does_not_cover_has_no_interval_of_its_difference(monkeypatch, covered):
    """Such as nDCG of fewer than 30 queries, however many documents there are."""
    random = np.random.default_rng(0)
    metric = Metric("ndcg_at_10", interval=covered)

    def judged(values):
        return Judgement((metric,), lambda weights: weights @ values[:, None] / weights.sum(axis=1, keepdims=True))

    sides = [SimpleNamespace(values=random.random(60), main=SimpleNamespace(task="embedding")) for _ in range(2)]
    for side in sides:
        side.known = np.ones(60, np.bool_)
    monkeypatch.setattr(vector_changes, "judgement_of", lambda side: judged(side.values))
    change = vector_changes._metric_change(*sides)
    assert change.b - change.a == pytest.approx(sides[1].values.mean() - sides[0].values.mean())
    assert (change.difference is not None) is covered
    assert (change.p_value is not None) is covered
    assert change.no_interval == ("" if covered else NOT_COVERED)


def test_inputs_that_neither_model_answers_are_told():
    """Two detectors that are sure of nothing agree fully, and on nothing."""
    no_boxes = {"boxes": Ragged.of([[], []], np.float32), "classes": Ragged.of([[], []], np.int32)}
    quiet = {**no_boxes, "scores": Ragged.of([[], []], np.float32)}
    loud = {
        "boxes": Ragged.of([[0, 0, 9, 9], [0, 0, 9, 9]], np.float32),
        "classes": Ragged.of([[0], [0]], np.int32),
        "scores": Ragged.of([[0.2], [0.9]], np.float32),
    }
    a, b = (Answers("out", "detection", columns) for columns in (quiet, loud))
    assert pair_answers(a, a).silent == 2
    assert pair_answers(a, b).silent == 1
    assert pair_answers(b, b).silent == 1
    assert silence_words(1, 2) == "neither answers anything on 50.0 % of the inputs"
    assert silence_words(0, 2) == ""


@pytest.mark.parametrize(
    ("task", "columns"),
    [
        ("multilabel", {"probability": np.array([[0.1, 0.2], [0.9, 0.1]]), "threshold": np.array([0.5, 0.5])}),
        ("token-classification", {"tags": Ragged.of([["O"], ["B-PER"]], object)}),
        ("question-answering", {"answer": np.array(["", "yes"], object)}),
        ("text-recognition", {"text": np.array(["", "yes"], object)}),
        ("voice-activity", {"probability": Ragged.of([[0.1], [0.9]], np.float32), "first": np.zeros(2),
                            "step": np.ones(2), "seconds": np.ones(2), "threshold": np.full(2, 0.5)}),
    ],
)  # fmt: skip
def test_every_task_whose_answers_may_be_empty_says_which_are(task, columns):
    assert task_named(task).silent(Answers("out", task, columns)).tolist() == [True, False]
