"""The difference of a main metric has an interval only where the metric of one run has."""

from types import SimpleNamespace

import numpy as np
import pytest

from zoolens.findings.comparisons import vector_changes
from zoolens.findings.measure.task_metrics import NOT_COVERED
from zoolens.inventory.tasks.judgement import Judgement, Metric


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
