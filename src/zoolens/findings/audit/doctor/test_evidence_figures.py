"""Figures that are no share of right answers: which changes count as better, and how often chance alone does."""

import numpy as np
import pytest

from zoolens.base.statistics.significance import sign_flip
from zoolens.findings.audit.doctor.evidence import ALPHA, Contrast, Evidence, failed, rules_out_better
from zoolens.findings.audit.doctor.evidence_figures import (
    LEAST_GAIN,
    RESAMPLING,
    SIGN_FLIPS,
    Difference,
    JudgedAnswers,
    _flipped,
    _mean_at_most,
    difference,
)
from zoolens.inventory.tasks.ragged import Ragged
from zoolens.inventory.tasks.task import TRUTH_KNOWN, Answers, task_named


def answered(right):
    """Answers to questions, each right or wrong: the main metric is the mean F1, whose value is the share of them."""
    true = [f"one{number} two{number}" for number in range(len(right))]
    texts = np.array([text if one else "nothing" for text, one in zip(true, right, strict=True)], object)
    truths = {"texts": Ragged.of([np.array([text], object) for text in true], object)}
    known = {TRUTH_KNOWN: np.ones(len(right), np.int8)}
    answers = Answers("answers", "question-answering", {"answer": texts}, truths={**truths, **known})
    return JudgedAnswers(answers, np.full(len(right), -1, np.int32))


def evidence(right):
    figure = answered(right)
    return Evidence("run", np.arange(len(right)).astype(str), figure, figure.scores)


def is_better(contrast):
    return contrast.gain > 0 and contrast.p_value < ALPHA


def shares(better, worse, equal):
    """Two variants: one is better on some inputs and worse on others."""
    return evidence([0] * better + [1] * worse + [1] * equal), evidence([1] * better + [0] * worse + [1] * equal)


def test_the_main_metric_is_climbed_and_both_tests_are_made():
    contrast = Contrast(*shares(better=12, worse=2, equal=36))
    assert contrast.change == pytest.approx(0.2)
    assert contrast.interval.contains(0.2)
    assert contrast.difference.test == f"{SIGN_FLIPS} and {RESAMPLING}"
    assert is_better(contrast)
    assert not is_better(Contrast(*shares(better=3, worse=2, equal=45)))
    assert Contrast(*shares(better=2, worse=12, equal=36)).worse


def test_few_inputs_have_no_interval_and_still_an_exact_test():
    contrast = Contrast(evidence([0] * 10), evidence([1] * 10))
    assert contrast.interval is None
    assert contrast.p_value == sign_flip(np.ones(10))[0]
    assert is_better(contrast)


def test_what_is_adjusted_for_many_variants_must_be_seen_in_the_metric_too():
    clear = Difference(0.2, p_metric=0.002, p_inputs=0.00005)
    assert clear.adjusted(60) == pytest.approx(2 * 60 * 0.00005)
    # Of the metric alone, sixty variants would leave nothing of it.
    assert Difference(0.2, p_metric=0.002).adjusted(60) == pytest.approx(0.12)
    # Scores of inputs see a threshold that the metric does not: without the metric they prove nothing.
    assert Difference(0.001, p_metric=0.6, p_inputs=0.00005).adjusted(60) == 1.0
    assert Difference(0.2, p_inputs=0.0005).adjusted(60) == pytest.approx(0.03)
    assert Difference(0.2).adjusted(1) == 1.0
    assert not Difference(0.2).tested


@pytest.mark.parametrize(
    ("n", "pairs", "most"), [(30, 60, 7), pytest.param(60, 500, 37, marks=pytest.mark.slow)], ids=["quick", "slow"]
)
def test_variants_that_are_equally_good_are_seldom_called_better(n, pairs, most):
    """At most 5 % of pairs. `most`: what a true 5 % exceeds in one of a hundred cases."""
    random = np.random.default_rng(n)
    called = 0
    for _ in range(pairs):
        first, second = (random.random((2, n)) < 0.6).tolist()
        called += difference(answered(first), answered(second)).p_value() < 0.05
    assert called <= most


def test_a_variant_that_may_be_much_better_is_not_ruled_out():
    assert rules_out_better([Contrast(*shares(better=1, worse=20, equal=79))])
    assert not rules_out_better([Contrast(*shares(better=6, worse=4, equal=40))])
    # The same answers are no better; three of them say nothing of a hundred.
    assert rules_out_better([Contrast(evidence([1, 0] * 20), evidence([1, 0] * 20))])
    assert not rules_out_better([Contrast(evidence([1, 0, 0]), evidence([1, 0, 0]))])
    # Nothing is better than all there is; five perfect answers do not show that it is all.
    assert rules_out_better([Contrast(evidence([1] * 40), evidence([0] * 40))])
    assert not rules_out_better([Contrast(evidence([1] * 5), evidence([1, 1, 0, 1, 1]))])
    # Without a variant that could be evaluated nothing is ruled out.
    broken = failed(None, np.arange(40).astype(str), task_named("question-answering"), "It broke.")
    assert not rules_out_better([])
    assert not rules_out_better([Contrast(evidence([1] * 40), broken)])
    assert not rules_out_better([Contrast(evidence([0] * 5), evidence([0] * 4 + [1]))])


def test_a_metric_without_an_interval_is_ruled_out_only_where_it_hardly_moved():
    """Scores of inputs that hardly rise say nothing of a metric that does."""
    moved = np.tile([0.01, -0.01, 0.0], 20)
    assert _mean_at_most(moved, gain=0.01) < 0.1
    assert _mean_at_most(moved, gain=0.07) >= 0.1
    assert _mean_at_most(None, gain=0.0) is None


def test_a_metric_without_noise_of_its_own_must_rise_by_a_point():
    """Scores of inputs that all rise a little decide nothing by themselves."""
    moved = np.full(20, 0.001)
    assert _flipped(moved, 0.001, LEAST_GAIN) == 1.0
    assert _flipped(moved, 0.02, LEAST_GAIN) < 1e-3
    assert _flipped(moved, 0.001, 0.0) < 1e-3


def paired(cosines, true):
    """Pairs of texts: the main metric is Spearman's correlation of these cosines with the true similarities."""
    vectors = np.stack([np.ones(len(true)), np.zeros(len(true)), cosines, np.sqrt(1 - np.square(cosines))], axis=1)
    truths = {"similarity": np.asarray(true, float), TRUTH_KNOWN: np.ones(len(true), np.int8)}
    answers = Answers("points", "embedding", {"vector": vectors}, truths=truths)
    return Evidence("run", np.arange(len(true)).astype(str), JudgedAnswers(answers, np.full(len(true), -1, np.int32)))


def test_what_beats_a_manifest_without_a_figure_must_beat_blind_answers():
    random = np.random.default_rng(1)
    true = random.random(60)
    broken = failed(None, np.arange(60).astype(str), task_named("embedding"), "It broke.")
    good, noise = paired(true, true + random.normal(0, 0.1, 60)), paired(random.random(60), true)
    assert Contrast(broken, good).difference.adjusted(60) < ALPHA
    assert Contrast(broken, noise).p_value > ALPHA
    # Few inputs show nothing.
    assert Contrast(broken, paired(true[:8], true[:8])).p_value == 1.0


def test_fresh_inputs_on_which_the_metric_is_undefined_have_no_figure():
    true = np.array([0.1, 0.5, 0.9, 0.5, 0.5])
    fresh = paired(np.linspace(0.1, 0.9, 5), true).without(np.array(["0", "2"]))
    assert fresh.value is None
    assert "define no figure" in fresh.error


def test_against_a_manifest_that_cannot_run_scores_decide():
    broken = failed(None, np.arange(20).astype(str), task_named("question-answering"), "It broke.")
    contrast = Contrast(broken, evidence([1] * 20))
    assert is_better(contrast)
    assert not is_better(Contrast(broken, evidence([0] * 20)))
    assert not is_better(Contrast(evidence([1] * 20), broken))
    assert Contrast(evidence([1] * 20), broken).gain < 0
