"""The average precision of few inputs is too high, and by how much is estimated from halves of them."""

import math

import numpy as np
import pytest

from zoolens.base.statistics.resampling import SHARE, lowered, resampled_estimate
from zoolens.inventory.tasks.scoring import precision_optimism as precision_optimism_module
from zoolens.inventory.tasks.scoring.precision_optimism import OF_LARGEST, OF_PLAIN, SPLITS, precision_optimism
from zoolens.inventory.tasks.scoring.ranked_scores import rank_scores, weighted_areas

LABELS, HAVING, DISTANCE = 20, 0.15, 1.5


@pytest.mark.parametrize("power", [OF_LARGEST, OF_PLAIN])
def test_what_falls_with_a_power_of_the_inputs_is_found(power):
    present = np.zeros((64, 3), np.int64)
    present[:, 0], present[:32, 1], present[:1, 2] = 1, 1, 1  # the last class is in one input, and in no two halves

    def too_high(weights):
        having = (weights @ present).astype(float)
        return np.where(having > 0, 0.5 + 0.2 * np.maximum(having, 1) ** -power, np.nan)

    having = present.sum(axis=0)
    found = precision_optimism(too_high, 64, having, power)
    # Halves have somewhat more or fewer than half of a class, which adds a little.
    assert found.factor == pytest.approx(0.2, rel=0.1)
    assert found.of_class(32) == pytest.approx(0.2 / 32**power, rel=0.1)
    assert found.of_mean(having) == pytest.approx(0.2 * np.mean([64.0**-power, 32.0**-power, 1.0]), rel=0.1)
    assert found.of_mean(np.array([0, 32])) == found.of_class(32)
    assert found.of_mean(np.array([0, 0])) == 0


def test_what_falls_in_halves_is_not_too_high():
    found = precision_optimism(lambda weights: weights.sum(axis=1, keepdims=True) / 100.0, 40, np.array([40]), 1.0)
    assert found.factor == 0


def test_where_no_class_is_in_two_inputs_nothing_is_known():
    def alone(weights):
        return np.where(weights[:, :3] > 0, 0.7, np.nan)

    assert precision_optimism(alone, 30, np.array([1, 1, 1]), OF_LARGEST).of_mean(np.array([1, 1, 1])) == 1.0
    assert precision_optimism(alone, 30, np.array([1, 1, 1]), OF_LARGEST).of_class(1) == 1.0


def test_many_inputs_are_split_a_few_times_at_once(monkeypatch):
    seen = []

    def precisions(weights):
        seen.append(len(weights))
        return (weights @ np.linspace(0, 1, 50)[:, np.newaxis]) / 50

    found = precision_optimism(precisions, 50, np.array([50]), OF_LARGEST)
    assert seen == [1, SPLITS, SPLITS]
    seen.clear()
    monkeypatch.setattr(precision_optimism_module, "_CELLS", 250)
    assert precision_optimism(precisions, 50, np.array([50]), OF_LARGEST) == found
    assert max(seen) == 5


# --- coverage


def ranked_labels(n, random):
    present = random.random((n, LABELS)) < HAVING
    scores = random.normal(size=(n, LABELS)) + DISTANCE * present
    return [rank_scores(scores[:, label], present[:, label]) for label in range(LABELS)], present.sum(axis=0)


def precisions(ranked):
    return lambda weights: np.stack(
        [weighted_areas(one, np.ascontiguousarray(weights.T, np.float64))[0] for one in ranked], axis=1
    )


def coverage(n, samples):
    """How often the interval of mAP holds the truth: as it is, and without the optimism."""
    random = np.random.default_rng(31)
    large, _ = ranked_labels(40_000, random)
    truth = float(precisions(large)(np.ones((1, 40_000), np.int64)).mean())
    held = []
    for _ in range(samples):
        ranked, having = ranked_labels(n, random)
        of_labels = precisions(ranked)
        optimism = precision_optimism(of_labels, n, having, OF_PLAIN).of_mean(having)
        mean = lambda weights, of_labels=of_labels: of_labels(weights).mean(axis=1)  # noqa: E731
        estimate = resampled_estimate(mean, n)
        found = [lowered(estimate, SHARE, each).interval for each in (optimism, 0.0)]
        if None not in found:
            held.append([interval.contains(truth) for interval in found])
    return np.mean(held, axis=0), len(held)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "most"), [(100, 0.9), (300, 0.95)])
def test_the_interval_of_a_mean_over_many_classes_covers(n, most):
    """`most`: what the interval would cover at most without it."""
    (covered, without), given = coverage(n, 200)
    assert covered >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / given)
    assert without < most
