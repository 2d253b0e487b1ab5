import math

import numpy as np
import pytest

from zoolens.base.statistics.intervals import BLOCKS, RESAMPLES
from zoolens.base.statistics.resampling import (
    AT_LEAST_0,
    AT_MOST_1,
    LEAST_INPUTS,
    LEAST_WITHOUT_END,
    ROWS,
    SHARE,
    SWAPS,
    NoInterval,
    lowered,
    of_sums,
    one_by_one,
    resampled_difference,
    resampled_estimate,
    resampled_estimates,
    swap_test,
)
from zoolens.base.statistics.significance import exact_mcnemar, sign_flip
from zoolens.base.statistics.student import mean_estimate, t_quantile


def ratio(sums):
    with np.errstate(invalid="ignore", divide="ignore"):
        return sums[:, 0] / sums[:, 1]


def f1(sums):
    """From true positives, false positives and false negatives."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return 2 * sums[:, 0] / (2 * sums[:, 0] + sums[:, 1] + sums[:, 2])


def mean_of(values):
    return of_sums(np.stack([values, np.ones(len(values))], axis=1), ratio)


def tagged(n, seed=0, recall=0.8):
    """True positives, false positives and false negatives of n sentences."""
    random = np.random.default_rng(seed)
    entities = random.poisson(2, n)
    found = random.binomial(entities, recall)
    return np.stack([found, random.poisson(0.3, n), entities - found], axis=1)


def logit(share):
    return np.log(share / (1 - share))


def test_several_metrics_in_one_pass_have_the_estimates_of_each_alone():
    parts = np.column_stack([tagged(60), np.random.default_rng(1).normal(5, 1, 60), np.ones(60)])
    limits = [(0.0, 1.0), AT_LEAST_0, (0.0, 1.0)]
    alone = [
        of_sums(parts, f1),
        of_sums(parts, lambda sums: sums[:, 3] / sums[:, 4]),
        of_sums(parts, lambda sums: np.full(len(sums), np.nan)),
    ]
    together = resampled_estimates(
        lambda weights: np.column_stack([each(weights) for each in alone]), 60, limits, rows=3 * ROWS
    )
    for found, each, own in zip(together, alone, limits, strict=True):
        expected = resampled_estimate(each, 60, own)
        assert found.value == pytest.approx(expected.value, nan_ok=True)
        assert found.unknown is expected.unknown
        assert found.interval == pytest.approx(expected.interval)
    assert together[0].interval is not None
    assert together[1].unknown is NoInterval.FEW_LARGE
    assert together[2].unknown is NoInterval.UNDEFINED


# --- closed forms


@pytest.mark.parametrize("n", [40, 400, 3000])
def test_the_interval_of_a_mean_is_about_that_of_student(n):
    values = np.random.default_rng(n).normal(0.5, 0.1, n)
    found, expected = resampled_estimate(mean_of(values), n), mean_estimate(values)
    assert found.value == pytest.approx(expected.value)
    assert found.interval == pytest.approx(expected.interval, abs=0.12 * (expected.interval.high - expected.value))


@pytest.mark.parametrize("n", [40, 400])
def test_the_interval_of_an_f1_is_that_of_its_linearisation(n):
    parts = tagged(n)
    found = resampled_estimate(of_sums(parts, f1), n)
    value = 2 * parts[:, 0].sum() / (2 * parts[:, 0] + parts[:, 1] + parts[:, 2]).sum()
    influence = 2 * parts[:, 0] - value * (2 * parts[:, 0] + parts[:, 1] + parts[:, 2])
    error = math.sqrt((influence**2).sum()) / (2 * parts[:, 0] + parts[:, 1] + parts[:, 2]).sum()
    effective = (influence**2).sum() ** 2 / (influence**4).sum()
    assert found.value == pytest.approx(value)
    assert found.effective == pytest.approx(effective, rel=0.15)
    half = t_quantile(int(1.5 * found.effective)) * error / (value * (1 - value))
    low, high = logit(np.array(found.interval))
    assert (low + high) / 2 == pytest.approx(logit(value))
    assert (high - low) / 2 == pytest.approx(half, rel=0.1)


def test_inputs_that_hold_all_errors_are_counted():
    right = np.ones(200)
    right[:7] = 0
    assert resampled_estimate(mean_of(right), 200).effective == pytest.approx(7, abs=1)


@pytest.mark.parametrize("n", [40, 400])
def test_the_interval_of_a_difference_of_means_is_about_that_of_the_paired_differences(n):
    random = np.random.default_rng(n)
    a = random.uniform(0, 1, n)
    b = a + random.normal(0.02, 0.05, n)
    found, expected = resampled_difference(mean_of(a), mean_of(b), n), mean_estimate(b - a)
    assert found.value == pytest.approx(expected.value)
    assert found.interval == pytest.approx(expected.interval, abs=0.12 * (expected.interval.high - expected.value))


@pytest.mark.parametrize("n", [6, 10])
def test_few_swaps_of_means_are_all_sign_flips(n):
    random = np.random.default_rng(n)
    a, b = random.uniform(0, 1, (2, n))
    expected, exact = sign_flip(b - a)
    assert exact
    assert swap_test(mean_of(np.concatenate([a, b])), n) == pytest.approx(expected)


def test_many_swaps_of_right_answers_are_the_test_of_mcnemar():
    a, b = np.ones(80), np.ones(80)
    a[:14], b[10:14], b[70:73] = 0, 0, 0
    p_value = exact_mcnemar(3, 10)
    error = math.sqrt(p_value * (1 - p_value) / SWAPS)
    assert swap_test(mean_of(np.concatenate([a, b])), 80) == pytest.approx(p_value, abs=4 * error)


# --- what does not change the result


def test_the_same_data_give_the_same_digits():
    a, b = tagged(90), tagged(90, 1)
    for _ in range(2):
        assert resampled_estimate(of_sums(a, f1), 90) == resampled_estimate(of_sums(a.copy(), f1), 90)
        pooled = of_sums(np.concatenate([a, b]), f1)
        assert swap_test(pooled, 90) == swap_test(pooled, 90)


def test_two_models_that_change_places_have_the_mirrored_difference():
    a, b = of_sums(tagged(90), f1), of_sums(tagged(90, 1, 0.9), f1)
    there, back = resampled_difference(a, b, 90), resampled_difference(b, a, 90)
    assert (-back.interval.high, -back.interval.low) == pytest.approx(there.interval, abs=1e-12)
    assert back.p_value == pytest.approx(there.p_value, abs=1e-12)


def test_units_and_range_of_a_metric_do_not_matter():
    parts = tagged(90)
    share = resampled_estimate(of_sums(parts, f1), 90)
    doubled = resampled_estimate(of_sums(2 * parts, f1), 90)
    assert doubled.interval == pytest.approx(share.interval)
    stretched = resampled_estimate(of_sums(parts, lambda sums: 2 * f1(sums) - 1), 90, (-1.0, 1.0))
    assert stretched.interval == pytest.approx([2 * end - 1 for end in share.interval])


@pytest.mark.parametrize("unit", [1e-15, 1.0, 1e12])
def test_the_interval_of_an_error_has_the_units_of_the_error_and_stays_above_0(unit):
    errors = np.abs(np.random.default_rng(6).normal(size=120))
    plain = resampled_estimate(mean_of(errors), 120, AT_LEAST_0)
    scaled = resampled_estimate(mean_of(errors * unit), 120, AT_LEAST_0)
    assert scaled.interval == pytest.approx([end * unit for end in plain.interval], rel=1e-9)
    assert 0 < plain.interval.low < plain.value < plain.interval.high
    # The mirror image of a range with a least value alone is one with a largest value alone.
    mirrored = resampled_estimate(mean_of(1 - errors), 120, AT_MOST_1)
    assert (1 - mirrored.interval.high, 1 - mirrored.interval.low) == pytest.approx(plain.interval, rel=1e-9)


def test_a_range_without_ends_has_the_interval_of_student():
    values = np.random.default_rng(7).normal(5, 2, 120)
    found = resampled_estimate(mean_of(values), 120, (-math.inf, math.inf))
    half = t_quantile(119, 0.95) * values.std(ddof=1) / math.sqrt(120)
    assert found.interval == pytest.approx((values.mean() - half, values.mean() + half), abs=0.1 * half)


def test_ranges_without_an_end_need_more_inputs():
    few = np.abs(np.random.default_rng(8).normal(size=LEAST_WITHOUT_END))
    assert resampled_estimate(mean_of(few), LEAST_WITHOUT_END, AT_LEAST_0).interval is not None
    fewer = resampled_estimate(mean_of(few[1:]), LEAST_WITHOUT_END - 1, AT_LEAST_0)
    assert fewer.unknown is NoInterval.FEW_LARGE
    assert "100" in fewer.unknown.value


def test_errors_that_are_all_equal_have_no_interval():
    for size in (0.0, 1e-300, 3.0):
        assert resampled_estimate(mean_of(np.full(120, size)), 120, AT_LEAST_0).unknown is NoInterval.NO_SPREAD


def test_the_order_of_the_inputs_changes_little():
    parts = tagged(90)
    shuffled = np.random.default_rng(5).permutation(parts)
    (low, high), other = (resampled_estimate(of_sums(each, f1), 90).interval for each in (parts, shuffled))
    assert other == pytest.approx((low, high), abs=0.06 * (high - low))


def test_a_metric_of_one_resample_serves_as_well():
    parts = tagged(60)
    single = one_by_one(lambda weights: float(f1((weights @ parts)[None])[0]))
    assert resampled_estimate(single, 60).interval == pytest.approx(resampled_estimate(of_sums(parts, f1), 60).interval)


def test_a_metric_that_is_too_high_has_an_interval_that_reaches_further_down():
    aggregate = of_sums(tagged(60), f1)
    plain = resampled_estimate(aggregate, 60)
    found = lowered(plain, SHARE, 0.05)
    assert (found.value, found.interval.high) == (plain.value, plain.interval.high)
    distance = logit(plain.value) - logit(plain.interval.low)
    assert logit(plain.value - 0.05) - logit(found.interval.low) == pytest.approx(distance)
    assert lowered(plain, SHARE, 1.0).interval.low == 0
    assert lowered(plain, SHARE, 0.0) == plain
    without = resampled_estimate(of_sums(tagged(20), f1), 20)
    assert lowered(without, SHARE, 0.1) == without


def test_a_lower_confidence_is_narrower_and_inside():
    metric = of_sums(tagged(60), f1)
    wide, narrow = (resampled_estimate(metric, 60, confidence=level).interval for level in (0.95, 0.8))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_a_p_value_agrees_with_its_interval():
    for seed in range(12):
        a, b = of_sums(tagged(40, seed), f1), of_sums(tagged(40, 100 + seed, 0.9), f1)
        found = resampled_difference(a, b, 40)
        assert (found.p_value < 0.05) == (not found.interval.contains(0.0))
    assert resampled_estimate(a, 40).p_value is None


# --- what the aggregate is asked for


@pytest.mark.parametrize("n", [40, 500, 1300])
def test_weights_are_counts_in_pieces_of_bounded_size(n):
    seen = []

    def aggregate(weights):
        seen.append(weights)
        return weights @ np.linspace(0, 1, n) / weights.sum(axis=1)

    resampled_estimate(aggregate, n)
    assert all(np.issubdtype(weights.dtype, np.integer) and weights.min() >= 0 for weights in seen)
    assert max(len(weights) for weights in seen) <= ROWS
    rows = np.concatenate(seen)
    assert rows.shape == (1 + RESAMPLES + min(n, BLOCKS), n)
    if n <= BLOCKS:
        assert (rows[1 : 1 + RESAMPLES].sum(axis=1) == n).all()
        assert (rows[1 + RESAMPLES :].sum(axis=1) == n - 1).all()


def test_each_input_is_answered_once_by_either_model_in_a_swap():
    n, seen = 30, []

    def pooled(weights):
        seen.append(weights)
        return weights @ np.linspace(0, 1, 2 * n)

    swap_test(pooled, n)
    assert sum(map(len, seen)) == 2 * (1 + SWAPS)
    assert all(((weights[:, :n] + weights[:, n:]) == 1).all() for weights in seen)


# --- where nothing can be said


def test_few_inputs_have_no_interval():
    found = resampled_estimate(of_sums(tagged(LEAST_INPUTS - 1), f1), LEAST_INPUTS - 1)
    assert found.unknown is NoInterval.FEW_INPUTS
    assert found.interval is None
    assert 0 < found.value < 1
    assert resampled_estimate(of_sums(tagged(LEAST_INPUTS), f1), LEAST_INPUTS).interval is not None


@pytest.mark.parametrize("parts", [[2, 0, 0], [0, 1, 1], [3, 1, 2]])
def test_inputs_that_are_all_equal_have_no_interval(parts):
    """Among them a model without a mistake, and one without a correct answer."""
    metric = of_sums(np.tile(parts, (50, 1)), f1)
    assert resampled_estimate(metric, 50).unknown is NoInterval.NO_SPREAD


def test_a_perfect_model_has_no_interval_also_where_inputs_differ_in_size():
    parts = tagged(50, recall=1.0)
    parts[:, 1] = 0
    found = resampled_estimate(of_sums(parts, f1), 50)
    assert (found.value, found.unknown) == (1.0, NoInterval.NO_SPREAD)


def test_two_models_with_the_same_answers_have_no_interval_and_the_p_value_1():
    parts = tagged(50)
    metric = of_sums(parts, f1)
    found = resampled_difference(metric, metric, 50)
    assert (found.value, found.unknown, found.p_value) == (0.0, NoInterval.NO_SPREAD, None)
    assert swap_test(of_sums(np.concatenate([parts, parts]), f1), 50) == 1.0


def test_a_metric_that_is_not_defined_has_neither_interval_nor_p_value():
    nothing = of_sums(np.zeros((50, 3)), f1)
    found = resampled_estimate(nothing, 50)
    assert math.isnan(found.value)
    assert found.unknown is NoInterval.UNDEFINED
    assert swap_test(of_sums(np.zeros((100, 3)), f1), 50) is None


def test_swaps_on_which_the_metric_is_not_defined_only_enlarge_the_p_value():
    """Both models detect nothing, except A on the first two inputs and B on the others."""
    parts = np.zeros((12, 2))
    parts[[0, 1, 8, 9, 10, 11]] = [[1, 1], [1, 1], [0, 1], [0, 1], [0, 1], [0, 1]]
    counted = swap_test(of_sums(parts, lambda sums: np.nan_to_num(ratio(sums))), 6)
    assert swap_test(of_sums(parts, ratio), 6) >= counted


@pytest.mark.parametrize(("inputs_with_class", "known"), [(1, False), (2, False), (4, False), (8, True)])
def test_a_class_that_few_inputs_have_leaves_the_interval_unknown(inputs_with_class, known):
    random = np.random.default_rng(4)
    common, rare = random.uniform(0.3, 0.9, (2, 100))
    has_rare = np.arange(100) < inputs_with_class
    parts = np.stack([common, rare * has_rare, np.ones(100), has_rare], axis=1)

    def mean_iou(sums):
        with np.errstate(invalid="ignore"):
            return (sums[:, :2] / sums[:, 2:]).mean(axis=1)

    found = resampled_estimate(of_sums(parts, mean_iou), 100)
    assert found.unknown is (None if known else NoInterval.OFTEN_UNDEFINED)
    assert (found.interval is not None) == known


@pytest.mark.parametrize("errors", [1, 2, 5])
def test_an_interval_near_the_end_of_the_range_stays_inside_and_has_a_width(errors):
    parts = np.tile([2, 0, 0], (60, 1))
    parts[:errors] = [1, 0, 1]
    low, high = resampled_estimate(of_sums(parts, f1), 60).interval
    assert 0 <= low < 1 - errors / 120 < high <= 1
