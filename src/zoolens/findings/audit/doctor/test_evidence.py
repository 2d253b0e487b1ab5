import numpy as np
import pytest

from zoolens.base.statistics.significance import exact_mcnemar
from zoolens.findings.audit.doctor.bench import MIN_HELD_OUT
from zoolens.findings.audit.doctor.evidence import Contrast, Evidence, could_tell, failed
from zoolens.findings.audit.doctor.evidence_figures import MCNEMAR, RightAnswers
from zoolens.inventory.tasks.judgement import Metric
from zoolens.inventory.tasks.task import task_named


def evidence(correct, log_score=None):
    right = np.array(correct, bool)
    scores = np.zeros(len(right)) if log_score is None else np.array(log_score, float)
    figure = RightAnswers(Metric("top1"), right)
    return Evidence("run", np.arange(len(right)).astype(str), figure, scores, np.zeros(len(right), np.int64))


def test_a_contrast_counts_the_images_on_which_the_two_differ():
    contrast = Contrast(evidence([1, 1, 0, 0, 0]), evidence([0, 1, 1, 1, 0]))
    assert (contrast.p_value, contrast.difference.test) == (exact_mcnemar(1, 2), MCNEMAR)
    assert contrast.change == pytest.approx(0.2)
    assert contrast.interval.contains(0.2)


def test_better_and_worse_need_more_than_noise():
    none, ten = evidence([0] * 20), evidence([1] * 10 + [0] * 10)
    assert Contrast(none, ten).better
    assert Contrast(ten, none).worse
    assert not Contrast(none, evidence([1] * 3 + [0] * 17)).better


def test_probability_sees_what_answers_do_not():
    spread = np.linspace(-0.1, 0.1, 40)
    sure, unsure = evidence([1] * 40, spread), evidence([1] * 40, spread * 2 - 0.5)
    assert Contrast(sure, unsure).less_likely
    assert not Contrast(unsure, sure).less_likely
    assert not Contrast(sure, unsure).worse


def test_fresh_images_are_those_that_were_not_used():
    assert evidence([1, 0, 1]).without(np.array(["0"])).right.tolist() == [False, True]


def test_what_cannot_run_ranks_last():
    inputs = np.array(["0", "1"])
    assert failed(None, inputs, task_named("classification"), "It broke.").rank < evidence([0, 0]).rank
    assert failed(None, inputs, task_named("detection"), "It broke.").rank < evidence([0, 0]).rank


def test_how_many_images_can_tell():
    assert could_tell(MIN_HELD_OUT, tests=1)
    assert not could_tell(50, tests=1)
    assert not could_tell(80, tests=20)
    assert could_tell(2 * MIN_HELD_OUT - 1, tests=100)
    assert not could_tell(3, tests=1)
