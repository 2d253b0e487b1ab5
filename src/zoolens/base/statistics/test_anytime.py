import numpy as np
import pytest

from zoolens.base.statistics.anytime import (
    RunningBound,
    StreamingBound,
    lowers_in_order,
    paired_interval,
    paired_lower,
    paired_lowers,
    paired_upper,
)


def draw(generator, rows, n, disagreement, difference=0.0):
    """B − A right or wrong: 1, 0 or −1, with this mean."""
    chance = generator.random((rows, n))
    up = (disagreement + difference) / 2
    return (chance < up).astype(float) - ((chance >= up) & (chance < disagreement))


def capital(differences, stakes, mean):
    return np.cumprod(1 + np.minimum(stakes, 0.75 / (1 + mean)) * (differences - mean))


def test_the_bound_is_where_the_capital_reaches_one_over_alpha():
    """Worked out by hand on a few inputs: stakes from the variance before each input, the best moment counts."""
    differences = np.array([1, 0, 1, 1, -1, 1, 1, 1, 0, 1, 1, 1], float)
    mean, squares, stakes = 0.0, 0.0, []
    for t, d in enumerate(differences):
        mean = differences[:t].sum() / (t + 1)
        stakes.append(np.sqrt(2 * np.log(1 / 0.05) / (12 * (1 + squares) / (4 + t))))
        squares += (d - mean) ** 2
    low = lowers_in_order(differences[None], 0.05, "betting", 12)[0]
    assert capital(differences, stakes, low).max() == pytest.approx(20, rel=1e-4)
    assert -1 < low < differences.mean()


@pytest.mark.parametrize("method", ["betting", "bernstein"])
@pytest.mark.parametrize(("disagreement", "difference"), [(0.02, 0.0), (0.1, 0.04), (0.5, -0.2)])
def test_at_no_moment_is_the_truth_refuted_more_often_than_alpha(method, disagreement, difference):
    """The best moment of each sequence counts: whoever stops when the bound looks best still has the confidence."""
    rows = draw(np.random.default_rng(1), 1500, 300, disagreement, difference)
    for horizon in (300, None):
        misses = np.mean(lowers_in_order(rows, 0.1, method, horizon) > difference)
        assert misses <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 1500)


def test_the_betting_bound_is_not_so_wide_that_it_holds_trivially():
    rows = draw(np.random.default_rng(2), 2000, 300, 0.3)
    assert np.mean(lowers_in_order(rows, 0.1, "betting", 300) > 0) > 0.02


def test_a_bound_for_one_moment_only_would_fail_under_optional_stopping():
    """What the sequences are for: the normal interval, looked at after every input, is wrong far more often."""
    rows = draw(np.random.default_rng(3), 1000, 500, 0.2)
    inputs = np.arange(1, 501)
    means = np.cumsum(rows, axis=1) / inputs
    spread = np.sqrt(np.cumsum(rows**2, axis=1) / inputs - means**2)
    naive = (means - 1.2816 * spread / np.sqrt(inputs))[:, 50:].max(axis=1)
    assert np.mean(naive > 0) > 0.25
    assert np.mean(lowers_in_order(rows, 0.1, "betting", 500) > 0) <= 0.12


@pytest.mark.parametrize(("n", "one_sided", "half_width"), [(100, 8.5, 9.0), (1000, 3.0, 2.6), (10_000, 1.7, 0.8)])
def test_widths_at_ten_percent_disagreement(n, one_sided, half_width):
    rows = draw(np.random.default_rng(4), 40, n, 0.1)
    gap = 100 * np.mean(rows.mean(axis=1) - paired_lowers(rows, 0.05))
    intervals = [paired_interval(row, 0.05) for row in rows]
    assert gap <= one_sided
    assert 50 * np.mean([interval.high - interval.low for interval in intervals]) <= half_width


def test_many_candidates_at_once_are_the_same_as_one_by_one(monkeypatch):
    rows = draw(np.random.default_rng(5), 7, 50, 0.3)
    expected = [paired_lower(row, 0.05) for row in rows]
    monkeypatch.setattr("zoolens.base.statistics.anytime._BLOCK", 120)
    assert paired_lowers(rows, 0.05).tolist() == expected


@pytest.mark.parametrize("method", ["betting", "bernstein"])
def test_the_interval_is_symmetric_in_the_two_models(method):
    row = draw(np.random.default_rng(6), 1, 400, 0.2, 0.1)[0]
    low, high = paired_interval(row, 0.05, method)
    assert paired_interval(-row, 0.05, method) == pytest.approx((-high, -low))
    assert low == paired_lower(row, 0.025, method)
    assert high == paired_upper(row, 0.025, method)
    assert low < row.mean() < high


def test_inputs_sorted_by_class_are_put_in_random_order():
    """All disagreements at the end: in file order the stakes would be ruinous there."""
    row = np.concatenate([np.zeros(900), np.tile([1.0, -1.0], 50)])
    shuffled = np.random.default_rng(7).permutation(row)
    assert paired_lower(row, 0.05) == pytest.approx(paired_lower(shuffled, 0.05), abs=0.01)
    assert lowers_in_order(row[None], 0.05, "betting", 1000)[0] != pytest.approx(paired_lower(row, 0.05), abs=1e-4)
    assert paired_lower(row, 0.05) == paired_lower(row, 0.05)


@pytest.mark.parametrize("method", ["betting", "bernstein"])
def test_a_running_bound_narrows_and_ends_where_the_whole_does(method):
    row = draw(np.random.default_rng(8), 1, 600, 0.2, 0.1)[0]
    running = RunningBound(0.05, method, horizon=600)
    assert running.interval == (-1.0, 1.0)
    before = running.interval
    for part in np.split(row, 6):
        running.update(part)
        now = running.interval
        assert now.low >= before.low - 1e-6
        assert now.high <= before.high + 1e-6
        before = now
    assert len(running) == 600
    assert before.low == pytest.approx(lowers_in_order(row[None], 0.025, method, 600)[0])


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_a_streaming_bound_is_that_of_all_inputs_but_for_its_grid(share):
    row = draw(np.random.default_rng(9), 1, 400, share, share / 2)[0]
    running, streaming = RunningBound(0.05), StreamingBound(0.05)
    assert streaming.interval == (-1.0, 1.0)
    for part in np.split(row, 8):
        running.update(part)
        streaming.update(part)
        assert streaming.interval.low <= streaming.mean <= streaming.interval.high
        assert streaming.interval == pytest.approx(running.interval, abs=0.0011)
    assert streaming.n == 400
    assert streaming.mean == pytest.approx(row.mean())


def test_a_streaming_bound_takes_the_same_time_for_each_input():
    """It keeps nothing that grows with the number of inputs."""
    streaming = StreamingBound(0.05)
    streaming.update(np.ones(10))
    sizes = {name: np.size(value) for name, value in vars(streaming).items()}
    streaming.update(np.ones(1000))
    assert {name: np.size(value) for name, value in vars(streaming).items()} == sizes


def test_identical_models_are_bounded_and_extremes_stay_in_range():
    low, high = paired_interval(np.zeros(1000), 0.05)
    assert -0.01 < low < 0 < high < 0.01
    assert paired_interval(np.ones(3), 0.05).high == pytest.approx(1.0, abs=1e-6)
    assert paired_lower(-np.ones(50), 0.05) == -1.0
    assert paired_interval(np.empty(0), 0.05) == (-1.0, 1.0)


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="between −1 and 1"):
        paired_lower(np.array([0.0, 1.5]), 0.05)
    with pytest.raises(ValueError, match="between −1 and 1"):
        paired_lower(np.array([0.0, np.nan]), 0.05)
    with pytest.raises(ValueError, match="alpha"):
        paired_lower(np.zeros(3), 0.0)
    with pytest.raises(ValueError, match="alpha"):
        StreamingBound(1.0)
    with pytest.raises(ValueError, match="between −1 and 1"):
        StreamingBound(0.05).update(np.array([np.nan]))
