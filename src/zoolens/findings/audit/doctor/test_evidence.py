from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.statistics.significance import exact_mcnemar
from zoolens.findings.audit.doctor.bench import MIN_HELD_OUT
from zoolens.findings.audit.doctor.evidence import ALPHA, Contrast, Evidence, could_tell, failed
from zoolens.findings.audit.doctor.evidence_figures import MCNEMAR, RightAnswers
from zoolens.inventory.tasks.judgement import Metric
from zoolens.inventory.tasks.task import task_named


def evidence(correct, log_score=None):
    right = np.array(correct, bool)
    scores = np.zeros(len(right)) if log_score is None else np.array(log_score, float)
    figure = RightAnswers(Metric("top1"), right)
    return Evidence("run", np.arange(len(right)).astype(str), figure, scores, np.zeros(len(right), np.int64))


def is_better(contrast):
    return contrast.gain > 0 and contrast.p_value < ALPHA


def test_a_contrast_counts_the_images_on_which_the_two_differ():
    contrast = Contrast(evidence([1, 1, 0, 0, 0]), evidence([0, 1, 1, 1, 0]))
    assert (contrast.p_value, contrast.difference.test) == (exact_mcnemar(1, 2), MCNEMAR)
    assert contrast.change == pytest.approx(0.2)
    assert contrast.interval.contains(0.2)


def test_better_and_worse_need_more_than_noise():
    none, ten = evidence([0] * 20), evidence([1] * 10 + [0] * 10)
    assert is_better(Contrast(none, ten))
    assert Contrast(ten, none).worse
    assert not is_better(Contrast(none, evidence([1] * 3 + [0] * 17)))


def test_one_answer_to_all_images_is_never_better():
    """On data of which most are of one class, it is right more often than many a good model."""
    good, common = evidence([1] * 60 + [0] * 40), replace(evidence([1] * 95 + [0] * 5), one_answer=True)
    assert not is_better(Contrast(good, common))
    assert Contrast(good, common).difference.adjusted(1) == 1.0
    assert Contrast(common, good).worse
    assert is_better(Contrast(replace(good, one_answer=True), evidence([1] * 95 + [0] * 5)))


def test_probability_sees_what_answers_do_not():
    spread = np.linspace(-0.1, 0.1, 40)
    sure, unsure = evidence([1] * 40, spread), evidence([1] * 40, spread * 2 - 0.5)
    assert Contrast(sure, unsure).less_likely
    assert not Contrast(unsure, sure).less_likely
    assert not Contrast(sure, unsure).worse


def test_fresh_images_are_those_that_were_not_used():
    assert evidence([1, 0, 1]).without(np.array(["0"])).right.tolist() == [False, True]


def test_where_no_fresh_image_is_left_there_is_no_figure():
    nothing = evidence([1, 0]).without(np.array(["0", "1"]))
    assert (nothing.n, nothing.value) == (0, None)
    assert nothing.error
    contrast = Contrast(nothing, nothing)
    assert (contrast.known_change, contrast.p_value) == (None, 1.0)


def test_an_unknown_probability_is_not_higher_than_a_known_one():
    known, unknown = evidence([1, 0], [-0.5, -1.5]), replace(evidence([1, 0]), finer=None)
    assert unknown.rank < known.rank


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
