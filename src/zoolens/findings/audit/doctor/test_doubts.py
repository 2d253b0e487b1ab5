"""Figures that look right and prove nothing: one class, one answer, data of two kinds, answers without a meaning."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from zoolens.findings.audit.doctor.bench import Level
from zoolens.findings.audit.doctor.diagnosis import Diagnosis, Status
from zoolens.findings.audit.doctor.evidence import Contrast, Evidence
from zoolens.findings.audit.doctor.evidence_figures import JudgedAnswers, RightAnswers
from zoolens.findings.audit.doctor.label_order import doubt
from zoolens.findings.audit.doctor.mixed_inputs import doubt_mixed
from zoolens.findings.audit.doctor.nothing_works import doubt_nothing
from zoolens.findings.audit.doctor.variants import DECLARED, AxisChoice
from zoolens.inventory.tasks.judgement import Metric
from zoolens.inventory.tasks.multilabel import MultiLabel, Probabilities
from zoolens.inventory.tasks.ragged import Ragged
from zoolens.inventory.tasks.task import TRUTH_KNOWN, Answers

OFFSET = DECLARED.choosing(AxisChoice("labels", "label offset", "one higher", lambda manifest: manifest))
RANDOM = np.random.default_rng(0)


def diagnosed(status=Status.RIGHT, metric="top1"):
    trial = SimpleNamespace(error=None)
    return Diagnosis(
        "zoo:net", "onnxruntime", "data", metric, "fraction", False, "images", status, "The manifest is right.",
        (), None, (trial, trial), (), ("an equal",), (), None, None,
    )  # fmt: skip


def classified(answers, labels):
    answers, labels = np.asarray(answers), np.asarray(labels)
    one = len(np.unique(answers)) == 1 < len(np.unique(labels))
    figure = RightAnswers(Metric("top1"), answers == labels)
    return Evidence("run", np.arange(len(labels)).astype(str), figure, None, answers - labels, one_answer=one)


def bench(evidence, labels=None):
    """`evidence`: of each variant."""
    n = evidence[DECLARED].n
    return SimpleNamespace(
        noun="images",
        enough=True,
        sizes=dict.fromkeys(Level, n),
        data={Level.SELECTION: SimpleNamespace(labels=lambda: labels)},
        measure=lambda variant, level: evidence[variant],
        seen=lambda level: [variant for variant in evidence if variant != DECLARED],
        contrast=lambda base, other, level: Contrast(evidence[base], evidence[other]),
    )


def of_classes(answers, labels):
    return doubt(diagnosed(), bench({DECLARED: classified(answers, labels)}, np.asarray(labels)), DECLARED)


def test_one_answer_to_all_images_of_several_classes_is_suspicious():
    found = of_classes([0] * 200, [0] * 190 + [1] * 10)
    assert found.status is Status.SUSPICIOUS
    assert "every one of 200 images of several classes is answered with class 0" in found.sentence
    assert found.equals == ()


@pytest.mark.parametrize("rare", [0, 1, 4])
def test_images_of_hardly_more_than_one_class_decide_nothing(rare):
    labels = [3] * (200 - rare) + [4] * rare
    found = of_classes(labels, labels)
    assert found.status is Status.UNDECIDED
    assert "not higher by more than noise than that of answering the commonest class always" in found.sentence


def test_images_of_several_classes_decide():
    labels = [3] * 180 + [4] * 20
    assert of_classes(labels, labels).status is Status.RIGHT


def test_labels_that_are_numbered_in_two_ways_leave_no_manifest_right():
    labels = RANDOM.integers(0, 9, 200)
    shifted = np.where(np.arange(200) % 2, labels, labels + 1)
    evidence = {DECLARED: classified(labels, shifted), OFFSET: classified(labels + 1, shifted)}
    found = doubt_mixed(diagnosed(), bench(evidence))
    assert found.status is Status.UNDECIDED
    assert found.remedy == "Examine the images of each kind alone."
    assert (
        "100 of 200 images are answered well as declared alone, and 100 with label offset: one higher" in found.sentence
    )
    wrong = doubt_mixed(diagnosed(Status.WRONG), bench(evidence))
    assert wrong.status is Status.WRONG
    assert "of two kinds" in wrong.notes[0]


def test_two_classes_that_are_exchanged_are_no_two_kinds():
    """A weak model of two classes: what is wrong as declared is right the other way round."""
    labels = RANDOM.integers(0, 2, 200)
    answers = np.where(np.arange(200) % 20 < 13, labels, 1 - labels)
    evidence = {DECLARED: classified(answers, labels), OFFSET: classified(1 - answers, labels)}
    assert doubt_mixed(diagnosed(), bench(evidence, labels)).status is Status.RIGHT


def test_variants_that_err_by_chance_are_no_two_kinds():
    """Two that are right on half of the images each differ on a quarter both ways."""
    right = RANDOM.random((2, 200)) < 0.5
    evidence = {
        variant: classified(flags.astype(int), np.ones(200, int))
        for variant, flags in zip((DECLARED, OFFSET), right, strict=True)
    }
    assert doubt_mixed(diagnosed(), bench(evidence)).status is Status.RIGHT


def labelled(scores, present):
    columns = MultiLabel().keep(Probabilities(np.asarray(scores, np.float32), 0.5), None)
    truths = {
        "present": Ragged.of(list(np.asarray(present, np.int8)), np.int8),
        TRUTH_KNOWN: np.ones(len(present), np.int8),
    }
    answers = Answers("out", "multilabel", columns, truths=truths)
    figure = JudgedAnswers(answers, np.full(len(present), -1, np.int32))
    return Evidence("run", np.arange(len(present)).astype(str), figure, figure.scores)


def of_labels(scores, present):
    return doubt_nothing(diagnosed(metric="map"), bench({DECLARED: labelled(scores, present)}), DECLARED)


def test_scores_that_have_nothing_to_do_with_the_labels_are_not_right():
    scores = RANDOM.random((100, 3))
    assert of_labels(scores, scores + RANDOM.normal(0, 0.2, (100, 3)) > 0.5).status is Status.RIGHT
    assert of_labels(np.full((100, 3), 0.3), scores > 0.5).status is Status.SUSPICIOUS
    noise = next(
        one
        for one in (RANDOM.permutation(scores) for _ in range(100))
        if 0.02 < labelled(one, scores > 0.5).figure.value - labelled(one, scores > 0.5).figure.metric.blind < 0.04
    )
    by_chance = of_labels(noise, scores > 0.5)
    assert by_chance.status is Status.UNDECIDED
    assert "not better by more than noise than that of answers that have nothing to do with" in by_chance.sentence
    assert by_chance.remedy == "Use more labelled images."


def tagged(right, n):
    """Sentences of one entity each, of which the first `right` are found: F1 of blind answers is 0."""
    from zoolens.findings.audit.doctor.test_evidence_figures import evidence

    return evidence([1] * right + [0] * (n - right))


def test_a_figure_near_a_blind_value_of_nought_is_not_right():
    """The interval of a share never reaches 0, so that it cannot tell."""
    few = doubt_nothing(diagnosed(metric="f1"), bench({DECLARED: tagged(3, 60)}), DECLARED)
    assert few.status is Status.UNDECIDED
    many = doubt_nothing(diagnosed(metric="f1"), bench({DECLARED: tagged(40, 60)}), DECLARED)
    assert many.status is Status.RIGHT


@pytest.mark.parametrize("without", [0, 1])
def test_labels_that_nearly_all_images_have_decide_nothing(without):
    """Blind answers are nearly perfect, so that a perfect model is not suspected of being blind."""
    present = np.ones((200, 2), int)
    present[:without, 0] = 0
    found = of_labels(np.where(present, 0.9, 0.1), present)
    assert found.status is Status.UNDECIDED
    assert ("(the best there is: 100.0 %)" in found.sentence) is bool(without)
    assert found.remedy == "Use images whose truths differ."
    assert found.corrected is None


def test_a_model_that_answers_all_images_with_the_same_numbers_is_suspicious():
    """Where every image has the same truth, its figure is perfect."""
    dead = replace(labelled(np.tile([0.9, 0.1], (40, 1)), np.tile([1, 0], (40, 1))), one_answer=True)
    found = doubt_nothing(diagnosed(metric="map"), bench({DECLARED: dead}), DECLARED)
    assert found.status is Status.SUSPICIOUS
    assert "the same numbers for every one of 40 images, whatever map (100.0 %) that makes" in found.sentence


def test_images_that_all_have_the_same_truth_decide_nothing():
    scores = RANDOM.random((40, 3))
    found = of_labels(scores, np.tile([1, 0, 0], (40, 1)))
    assert found.status is Status.UNDECIDED
    assert found.sentence.startswith("Undecided: all 40 images have the same truth, so that map does not show")
