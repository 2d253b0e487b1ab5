"""Metrics of several labels an input equal scikit-learn's, except that an undefined class is left out."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, roc_auc_score

from zoolens.base.errors import ZoolensError
from zoolens.inventory.tasks.scoring.label_sets import (
    f1_by_class,
    label_parts,
    macro_label_f1,
    mean_average_precision,
    mean_input_f1,
    mean_roc_auc,
    micro_label_f1,
    rank_classes,
    subset_accuracy,
)


def sample(seed):
    rng = np.random.default_rng(seed)
    true = rng.random((60, 5)) < [0.1, 0.3, 0.5, 0.7, 0.9]
    scores = np.round(rng.normal(size=true.shape) + true, 1)
    # Each class has a weighted input that is true and one that is not; scikit-learn counts others as 0.
    true[0], true[1] = True, False
    weights = rng.integers(0, 4, 60)
    weights[:2] = 1
    return scores, true, weights


@pytest.mark.parametrize("seed", range(5))
def test_means_are_those_of_scikit_learn(seed):
    scores, true, weights = sample(seed)
    classes = rank_classes(scores, true)
    for counts in (None, weights):
        expected = average_precision_score(true, scores, average="macro", sample_weight=counts)
        assert mean_average_precision(classes, counts).value == pytest.approx(expected, rel=1e-12)
        expected = roc_auc_score(true, scores, average="macro", sample_weight=counts)
        assert mean_roc_auc(classes, counts).value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_decided_labels_are_counted_as_scikit_learn_counts_them(seed):
    scores, true, weights = sample(seed)
    predicted = scores > 0.5
    # A class and an input without any label.
    true[:, 2] = predicted[:, 2] = False
    true[0] = predicted[0] = False
    parts = label_parts(predicted, true)
    for counts in (None, weights):
        ours = {
            "micro": micro_label_f1(parts, counts),
            "macro": macro_label_f1(parts, counts),
            "samples": mean_input_f1(parts, counts),
        }
        for average, score in ours.items():
            expected = f1_score(true, predicted, average=average, sample_weight=counts, zero_division=np.nan)
            assert score.value == pytest.approx(expected, rel=1e-12)
        expected = accuracy_score(true, predicted, sample_weight=counts)
        assert subset_accuracy(parts, counts).value == pytest.approx(expected, rel=1e-12)
    assert (ours["macro"].used, ours["macro"].total) == (4, 5)
    assert f1_by_class(parts)[2].reason == "No input has the class, neither true nor predicted."


def test_undefined_classes_are_counted():
    true = np.array([[1, 0, 1], [0, 0, 1]])
    classes = rank_classes(np.array([[0.9, 0.1, 0.2], [0.1, 0.2, 0.3]]), true)
    precision, area = mean_average_precision(classes), mean_roc_auc(classes)
    assert (precision.value, precision.used, precision.total) == (1.0, 2, 3)
    assert (area.value, area.used, area.total) == (1.0, 1, 3)


def test_a_class_with_nan_scores_is_undefined():
    scores = np.array([[np.nan], [0.1]])
    mean = mean_average_precision(rank_classes(scores, [[1], [0]]))
    assert (mean.used, mean.reason) == (0, "The scores of 1 of 2 inputs are NaN.")


def test_nothing_labelled_is_undefined():
    parts = label_parts(np.zeros((2, 3)), np.zeros((2, 3)))
    for score in (micro_label_f1(parts), macro_label_f1(parts), mean_input_f1(parts)):
        assert not score.defined
        assert score.reason
    assert subset_accuracy(parts).value == 1
    assert subset_accuracy(label_parts(np.zeros((0, 3)), np.zeros((0, 3)))).reason == "There are no inputs."


@pytest.mark.parametrize("labels", [[[2]], [[-1]], [[np.nan]], [[0.5]]])
def test_other_labels_are_refused(labels):
    with pytest.raises(ZoolensError, match="Labels must be 0 or 1"):
        label_parts([[0]], labels)


def test_shapes_are_checked():
    with pytest.raises(ZoolensError, match="table of inputs × classes"):
        label_parts([0, 1], [0, 1])
    with pytest.raises(ZoolensError, match="must have one shape"):
        label_parts([[0, 1]], [[0]])
    with pytest.raises(ZoolensError, match="must have one shape"):
        rank_classes(np.zeros((1, 2)), [[0]])
