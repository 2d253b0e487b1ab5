"""Every interval that is printed covers the truth as often as it says: simulated, or counted exactly.

`TABLE` has every function of `base.statistics` that makes an interval or a bound, and the tests of its coverage.
docs/bounds.md shows the same table with the coverage that was measured. A function that is not in it fails a test.
"""

import ast
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from zoolens.base.statistics.anytime import (
    bounded_mean,
    bounded_mean_lower,
    paired_interval,
    paired_lowers,
    paired_upper,
    share_interval,
)
from zoolens.base.statistics.binomial import binomial_lowers, binomial_upper
from zoolens.base.statistics.intervals import bootstrap_mean, median_difference, quantile, wilson
from zoolens.base.statistics.series import series_quantile, series_share
from zoolens.base.statistics.student import mean_estimate
from zoolens.faces.load.exchanges import Exchanges
from zoolens.faces.load.results import _accuracy
from zoolens.faces.serving.services.comparison import ModelPair

ROOT = Path(__file__).parent.parent
STATISTICS = ROOT / "src" / "zoolens" / "base" / "statistics"
HERE = "tests/test_interval_coverage.py"
_ANYTIME = "src/zoolens/base/statistics/test_anytime.py::test_at_no_moment_is_the_truth_refuted_more_often_than_alpha"
_RESAMPLING = "src/zoolens/base/statistics/test_resampling_coverage.py"

TABLE = {
    "wilson": f"{HERE}::test_wilson_covers_on_average",
    "wilson_share": f"{HERE}::test_percentiles_of_a_queue_cover_or_are_not_given",
    "paired_difference": "src/zoolens/base/statistics/test_intervals.py::"
    "test_paired_difference_covers_the_truth_also_where_few_inputs_are_answered_differently",
    "quantile": f"{HERE}::test_order_statistics_cover",
    "median_difference": f"{HERE}::test_differences_of_medians_cover",
    "bootstrap": f"{HERE}::test_the_accuracy_of_inputs_that_are_sent_again_and_again_covers",
    "bootstrap_mean": f"{HERE}::test_the_accuracy_of_inputs_that_are_sent_again_and_again_covers",
    "calibration_error": "src/zoolens/base/statistics/test_calibration.py::test_the_interval_covers",
    "bounded_mean": f"{HERE}::test_means_of_bounded_scores_cover",
    "bounded_mean_lower": f"{HERE}::test_graded_agreement_is_bounded_from_below",
    "share_interval": f"{HERE}::test_graded_scores_cover_also_where_all_of_them_are_equal",
    "binomial_lower": f"{HERE}::test_exact_bounds_hold",
    "binomial_lowers": f"{HERE}::test_exact_bounds_hold",
    "binomial_upper": f"{HERE}::test_exact_bounds_hold",
    "worst_group": "src/zoolens/base/statistics/test_groups.py::"
    "test_the_worst_of_several_groups_is_covered_without_correction_and_all_together_with_it",
    "paired_interval": f"{HERE}::test_paired_bounds_hold_for_graded_differences",
    "paired_lower": _ANYTIME,
    "paired_upper": f"{HERE}::test_paired_bounds_hold_for_graded_differences",
    "paired_lowers": _ANYTIME,
    "lowers_in_order": _ANYTIME,
    "RunningBound.interval": "src/zoolens/base/statistics/test_anytime.py::"
    "test_a_running_bound_narrows_and_ends_where_the_whole_does",
    "StreamingBound.interval": f"{HERE}::test_a_service_may_be_looked_at_at_any_moment",
    "series_quantile": f"{HERE}::test_percentiles_of_a_queue_cover_or_are_not_given",
    "series_share": f"{HERE}::test_goodput_of_a_queue_covers_or_is_not_given",
    "mean_estimate": f"{HERE}::test_means_over_seeds_cover",
    "ratio_interval": "src/zoolens/base/statistics/test_student.py::test_ratio_intervals_cover",
    "pooled_estimate": "src/zoolens/base/statistics/test_heterogeneity.py::test_pooled_intervals_cover",
    "time_factor": "src/zoolens/base/statistics/test_heterogeneity.py::test_the_factor_of_two_times_covers",
    "beyond_its_sitting": "src/zoolens/base/statistics/test_heterogeneity.py::test_the_factor_of_two_times_covers",
    "seed_noise": "src/zoolens/base/statistics/test_seeds.py::"
    "test_the_excess_interval_covers_also_where_sides_share_their_weights",
    "resampled_estimate": f"{_RESAMPLING}::test_intervals_of_mean_iou_cover_or_are_not_given_where_a_class_is_rare",
    "resampled_estimates": "src/zoolens/base/statistics/test_resampling.py::"
    "test_several_metrics_in_one_pass_have_the_estimates_of_each_alone",
    "lowered": "src/zoolens/inventory/tasks/scoring/test_precision_optimism.py::"
    "test_the_interval_of_a_mean_over_many_classes_covers",
    "resampled_difference": f"{_RESAMPLING}::test_intervals_of_a_difference_of_f1_cover",
}
# Types that hold ends of intervals.
MAKES = ("Interval", "Estimate", "KnownTime", "WorstGroup", "CalibrationError", "SeedNoise")
BOUNDS = ("lower", "upper", "lowers", "uppers", "lowers_in_order")  # endings of names that return a bound alone
QUANTILES = ("quantile", "series_quantile")  # return a tuple with both ends
HOLD_ENDS = {"Interval.with_all_of"}  # which make no new ones


# --- the list is complete


def interval_makers():
    """Every public function and property of the room whose result holds an end of an interval."""
    for path in sorted(STATISTICS.glob("*.py")):
        if path.name.startswith("test_"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            owner = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
            for one in node.body if owner else [node]:
                if isinstance(one, ast.FunctionDef) and not one.name.startswith("_") and makes_interval(one):
                    yield f"{owner}{one.name}"


def makes_interval(function):
    returned = ast.unparse(function.returns) if function.returns else ""
    named = function.name in QUANTILES or function.name.split("_")[-1] in BOUNDS
    return named or function.name in BOUNDS or any(kind in returned for kind in MAKES)


def test_every_interval_is_in_the_table():
    assert set(interval_makers()) - HOLD_ENDS == set(TABLE)


@pytest.mark.parametrize("test", sorted(set(TABLE.values())))
def test_every_test_of_the_table_is_there(test):
    path, _, name = test.partition("::")
    functions = [
        node.name for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body if hasattr(node, "name")
    ]
    assert name in functions


def test_the_documentation_has_the_table():
    page = (ROOT / "docs" / "bounds.md").read_text(encoding="utf-8")
    assert [name for name in TABLE if f"`{name}`" not in page] == []


def test_intervals_are_made_in_one_room():
    """Who else builds one only maps the ends of another: each is named here with what it does."""
    allowed = {
        "inventory/tasks/task.py": "ends of a mean that a task knows within limits",
        "inventory/tasks/pair_figures.py": "the mark of an unknown distance",
        "inventory/tasks/text_agreement.py": "limits of samples: scoring/test_token_samples.py simulates them",
        "findings/comparisons/behaviour.py": "an exact mean, twice",
        "findings/comparisons/gate.py": "an exact agreement, twice",
        "findings/comparisons/text_disagreements.py": "means of both limits of a text over models",
        "inventory/tasks/classification.py": "limits that surely hold",
        "inventory/tasks/vectors.py": "an exact distance, twice",
        "findings/tracing/comparison.py": "ends of two medians subtracted, which is wider",
        "inventory/tasks/scoring/sample_tests.py": "from 0 to 1 brought to −2 to 2",
        "findings/tracing/stored.py": "ends of two medians divided, which is wider",
        "faces/serving/services/comparison.py": "from −1 to 1 brought to 0 to 1",
        "training/crosstrain/study/explanation/stored_explanations.py": "reads a stored one",
        "findings/audit/doctor/correction.py": "no change of what is compared with itself",
        "findings/comparisons/kind_changes.py": "reads a stored one",
        "findings/comparisons/reproduce.py": "room for the machine around a stored one",
    }
    source = ROOT / "src" / "zoolens"
    building = set()
    for path in source.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "statistics" in path.parts or path.name.startswith("test_") or "Interval(" not in text:
            continue
        if any(is_interval_call(node) for node in ast.walk(ast.parse(text))):
            building.add(path.relative_to(source).as_posix())
    assert building <= set(allowed)


def is_interval_call(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Interval"


# --- simulations


def least(draws, level=0.95):
    """What a simulation of so many draws must reach: the level less three of its standard errors."""
    return level - 3 * math.sqrt(level * (1 - level) / draws)


@pytest.mark.parametrize(("n", "lowest"), [(5, 0.83), (20, 0.83), (100, 0.83), (1000, 0.83)])
def test_wilson_covers_on_average(n, lowest):
    """Counted exactly. Wilson's interval is 95 % over all shares, and 83 % at single ones near 0 and 1."""
    shares = np.linspace(0, 1, 501)
    ends = np.array([wilson(k, n) for k in range(n + 1)])
    counts = stats.binom.pmf(np.arange(n + 1)[:, None], n, shares)
    covered = (counts * ((ends[:, :1] <= shares) & (shares <= ends[:, 1:]))).sum(axis=0)
    assert covered.mean() >= 0.945
    assert covered.min() >= lowest


def test_exact_bounds_hold():
    for n in (7, 60, 400):
        shares = np.linspace(0.01, 0.99, 99)
        lower = binomial_lowers(np.arange(n + 1), n, 0.05)
        upper = np.array([binomial_upper(k, n, 0.05) for k in range(n + 1)])
        counts = stats.binom.pmf(np.arange(n + 1)[:, None], n, shares)
        for holds in (lower[:, None] <= shares, upper[:, None] >= shares):
            assert (counts * holds).sum(axis=0).min() >= 0.95 - 1e-9


@pytest.mark.parametrize("q", [0.5, 0.9, 0.95, 0.99])
def test_order_statistics_cover(q):
    """Counted exactly: the ends are places in the sorted sample, and how many values lie below q is binomial."""
    lowest, given = 1.0, 0
    for n in range(1, 3000, 7):
        _, low, high = quantile(np.arange(n, dtype=float), q)
        if low is not None and high is not None:
            given += 1
            lowest = min(lowest, stats.binom.cdf(int(high), n, q) - stats.binom.cdf(int(low), n, q))
    assert given > 100
    assert lowest >= 0.93


@pytest.mark.parametrize("sizes", [(5, 5), (10, 30), (60, 40)])
def test_differences_of_medians_cover(sizes):
    random = np.random.default_rng(3)
    pairs = [(random.exponential(1, sizes[0]), 0.5 + random.exponential(1, sizes[1])) for _ in range(150)]
    assert np.mean([median_difference(*pair).contains(0.5) for pair in pairs]) >= least(150)


def probabilistic_scores(sureness, shape, random):
    """Brier scores and log-losses of a calibrated model of ten classes; `sureness`: the beta of its doubts."""
    best = 1 - random.beta(*sureness, shape)
    right = random.random(shape) < best
    of_label = np.where(right, best, (1 - best) / 9)
    brier = best**2 + (1 - best) ** 2 / 9 - 2 * of_label + 1
    return brier, -np.log(np.maximum(of_label, 1e-7))


@pytest.mark.parametrize(
    ("n", "sureness"),
    [
        (30, (0.7, 2)),
        (30, (1, 400)),
        (300, (0.3, 12)),
        *(
            pytest.param(n, sure, marks=pytest.mark.slow)
            for n in (100, 2000)
            for sure in ((0.7, 2), (0.3, 12), (1, 400))
        ),
    ],
)
def test_means_of_bounded_scores_cover(n, sureness):
    """With 30 inputs of a model that is right in 99.75 % of the cases, a bootstrap covers in 7 % of them."""
    truth = [scores.mean() for scores in probabilistic_scores(sureness, 600_000, np.random.default_rng(5))]
    drawn = probabilistic_scores(sureness, (100, n), np.random.default_rng(6))
    for rows, largest, true in zip(drawn, (2.0, -math.log(1e-7)), truth, strict=True):
        assert np.mean([bounded_mean(row, largest, 0.05).contains(true) for row in rows]) >= least(100)
    if sureness == (1, 400) and n == 30:
        assert np.mean([bootstrap_mean(row).contains(truth[0]) for row in drawn[0]]) < 0.5


def test_graded_scores_cover_also_where_all_of_them_are_equal():
    random = np.random.default_rng(7)
    for a, b in ((2, 2), (30, 1)):
        rows = random.beta(a, b, (100, 80))
        assert np.mean([share_interval(row)[0].contains(a / (a + b)) for row in rows]) >= least(100)
    for equal in (np.ones(50), np.full(50, 0.7)):
        low, high = share_interval(equal)[0]
        assert high - low > 0.05


@pytest.mark.parametrize("kind", ["tags", "grades", "rarely far"])
def test_graded_agreement_is_bounded_from_below(kind):
    """Agreements of tags that two models share, of grades that are one or two apart, and of answers that hardly ever
    differ but then wholly: where a count of full agreements is no mean, and where no spread is seen."""
    random = np.random.default_rng(8)
    choices, chances = {
        "tags": ([1, 2 / 3, 1 / 2, 0], [0.78, 0.1, 0.1, 0.02]),
        "grades": ([1, 0.75, 0.5], [0.92, 0.07, 0.01]),
        "rarely far": ([0.99, 0], [0.99, 0.01]),
    }[kind]
    rows = random.choice(choices, (200, 150), p=chances)
    lower = np.array([bounded_mean_lower(row, 0.05) for row in rows])
    assert np.mean(lower <= np.dot(choices, chances)) >= least(200)
    assert (lower <= rows.mean(axis=1)).all()


def test_paired_bounds_hold_for_graded_differences():
    random = np.random.default_rng(9)
    rows = random.choice([-1, -0.5, 0, 0.25, 1], (200, 150), p=[0.05, 0.05, 0.8, 0.05, 0.05])
    true = -0.5 * 0.05 + 0.25 * 0.05
    assert np.mean([paired_interval(row, 0.05).contains(true) for row in rows[:100]]) >= least(100)
    assert np.mean([paired_upper(row, 0.05) >= true for row in rows]) >= least(200)
    assert np.mean(paired_lowers(rows, 0.05) <= true) >= least(200)


def test_means_over_seeds_cover():
    random = np.random.default_rng(10)
    for seeds in (2, 4, 8):
        rows = random.normal(0.01, 0.02, (400, seeds))
        assert np.mean([mean_estimate(row).interval.contains(0.01) for row in rows]) >= least(400)


def waiting(n, load, random):
    """Times in a queue with one server, each the time to wait and to be served; served at a rate of 1."""
    settling = 3000
    served, between = random.exponential(1, n + settling), random.exponential(1 / load, n + settling)
    sums = np.concatenate([[0.0], np.cumsum(served[:-1] - between[1:])])
    return (sums - np.minimum.accumulate(sums) + served)[settling:]


QUICK = [(0.3, 2000), (0.6, 2000), (0.9, 2000)]
SLOW = [(load, n) for load in (0.01, 0.3, 0.6, 0.8, 0.9, 0.95) for n in (400, 2000, 10_000)]
LOADS = [*QUICK, *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW if each not in QUICK)]


@pytest.mark.parametrize(("load", "n"), LOADS)
def test_percentiles_of_a_queue_cover_or_are_not_given(load, n):
    """Where the queue is busy, neighbours are slow together: intervals of independent samples cover in 13 % there."""
    random, draws = np.random.default_rng(11), 100
    rows = [waiting(n, load, random) for _ in range(draws)]
    for q in (0.5, 0.95, 0.99):
        true = -math.log(1 - q) / (1 - load)
        ends = [series_quantile(row, q)[1:] for row in rows]
        wrong = sum(low is not None and not low <= true <= high for low, high in ends)
        assert wrong / draws <= 1 - least(draws)


@pytest.mark.parametrize(("load", "n"), LOADS)
def test_goodput_of_a_queue_covers_or_is_not_given(load, n):
    random, draws = np.random.default_rng(12), 100
    deadline = -math.log(0.05) / (1 - load)  # which 95 % keep
    rows = [waiting(n, load, random) for _ in range(draws)]
    found = [series_share(row <= deadline, row) for row in rows]
    assert sum(one is not None and not one.contains(0.95) for one in found) / draws <= 1 - least(draws)


def test_the_accuracy_of_inputs_that_are_sent_again_and_again_covers():
    random, draws, inputs = np.random.default_rng(13), 150, 60
    covered = 0
    for _ in range(draws):
        sent = random.integers(0, inputs, 600)
        exchanges = Exchanges(600)
        exchanges.input[:], exchanges.correct[:] = sent, (random.random(inputs) < 0.9)[sent]
        covered += _accuracy(exchanges, np.ones(600, bool)).interval.contains(0.9)
    assert covered / draws >= least(draws)


@pytest.mark.slow
def test_a_service_may_be_looked_at_at_any_moment():
    """Agreement and gain of a shadow model, judged at the moment at which their intervals look worst."""
    random, draws, wrong = np.random.default_rng(14), 25, 0
    for _ in range(draws):
        pair = ModelPair("a", "b")
        for _ in range(200):
            answered, labels = random.integers(0, 3, 1), random.integers(0, 3, 1)
            others = answered if random.random() < 0.8 else (answered + 1) % 3
            pair.add(answered, others, 0.0)
            pair.add_labels(answered, others, labels, 0.0)
            if not (pair.agreement_interval.contains(0.8) and pair.gain_interval.contains(0.0)):
                wrong += 1
                break
    assert wrong / draws <= 2 * (1 - least(draws))  # two intervals
