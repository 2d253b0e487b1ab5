import numpy as np
import pytest

from zoolens.base.statistics.calibration import calibration_error

BINS = 15
UNIFORM, SURE, ALMOST_SURE, TWO = "uniform", "sure", "almost sure", "two values"


def confidences(kind, n, random):
    if kind == UNIFORM:
        return random.uniform(0.3, 1, n)
    if kind == SURE:
        return 1 - random.beta(0.5, 6, n)
    return np.full(n, 0.99) if kind == ALMOST_SURE else np.where(random.random(n) < 0.5, 0.55, 0.97)


def bins_of(confidence):
    return np.minimum((confidence * BINS).astype(np.int64), BINS - 1)


def drawn(kind, n, overconfident, random):
    """What a model shows that is right less often than it says, by `overconfident` at every confidence."""
    confidence = confidences(kind, n, random)
    right = random.random(n) < np.clip(confidence - overconfident, 0, 1)
    return confidence, right.astype(float)


def true_error(kind, overconfident):
    """The error over the bins that so many inputs have that none of it is noise."""
    confidence = confidences(kind, 400_000, np.random.default_rng(9))
    gap = np.clip(confidence - overconfident, 0, 1) - confidence
    return np.abs(np.bincount(bins_of(confidence), gap)).sum() / len(confidence)


def coverage(kind, n, overconfident, draws):
    random = np.random.default_rng(1)
    true, covered = true_error(kind, overconfident), 0
    for _ in range(draws):
        confidence, right = drawn(kind, n, overconfident, random)
        low, high = calibration_error(confidence, right, bins_of(confidence)).interval
        covered += low <= true <= high
    return covered / draws


@pytest.mark.parametrize("overconfident", [0, 0.01, 0.03, 0.1])
@pytest.mark.parametrize("n", [200, 2000])
def test_the_interval_covers(n, overconfident):
    assert coverage(UNIFORM, n, overconfident, 200) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 200)


@pytest.mark.slow
@pytest.mark.parametrize("overconfident", [0, 0.01, 0.03, 0.1, -0.03])
@pytest.mark.parametrize("n", [50, 200, 500, 2000, 10_000])
@pytest.mark.parametrize("kind", [UNIFORM, SURE, ALMOST_SURE, TWO])
def test_the_interval_covers_whatever_the_confidences_are(kind, n, overconfident):
    assert coverage(kind, n, overconfident, 600) >= 0.93


@pytest.mark.parametrize(("n", "overconfident"), [(300, 0.0), (2000, 0.0), (2000, 0.03), (2000, 0.2)])
def test_the_debiased_error_is_nearer_to_the_truth(n, overconfident):
    random = np.random.default_rng(2)
    found = []
    for _ in range(60):
        confidence, right = drawn(UNIFORM, n, overconfident, random)
        found.append(calibration_error(confidence, right, bins_of(confidence)))
    true = true_error(UNIFORM, overconfident)
    measured, debiased = (np.mean([getattr(one, name) for one in found]) for name in ("measured", "debiased"))
    assert abs(debiased - true) <= abs(measured - true) + 0.002
    if not overconfident:
        assert measured == pytest.approx(np.mean([one.noise for one in found]), rel=0.1)


def test_the_error_is_the_plain_sum_over_the_bins_and_lies_in_its_interval():
    confidence, right = drawn(SURE, 500, 0.05, np.random.default_rng(3))
    bins = bins_of(confidence)
    expected = sum(abs((right - confidence)[bins == one].sum()) for one in range(BINS)) / 500
    found = calibration_error(confidence, right, bins)
    assert found.measured == pytest.approx(expected)
    assert 0 <= found.interval.low < found.measured < found.interval.high <= 1
    assert found == calibration_error(confidence, right, bins)


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_one_input_says_almost_nothing(right):
    found = calibration_error(np.array([0.9]), np.array([right]), np.array([13]))
    assert found.interval.high - found.interval.low > 0.5


def test_a_higher_confidence_is_wider():
    confidence, right = drawn(UNIFORM, 300, 0.1, np.random.default_rng(4))
    ends = [calibration_error(confidence, right, bins_of(confidence), level).interval for level in (0.8, 0.99)]
    assert ends[1].low < ends[0].low < ends[0].high < ends[1].high
