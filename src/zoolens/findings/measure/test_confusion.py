import json

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.present.charts import for_file
from zoolens.base.statistics.intervals import wilson
from zoolens.findings.measure.confusion import MOST_PAIRS, confusion_chart, confusion_of
from zoolens.findings.measure.predictions import Predictions
from zoolens.inventory.tasks.task import Answers


def predicted(labels, answers, classes=None):
    labels = np.asarray(labels, np.int32)
    columns = {"top": np.asarray(answers, np.int32)[:, None]}
    return Predictions(
        np.arange(len(labels)).astype(str), labels, (Answers("scores", "classification", columns),), classes
    )


def test_the_matrix_counts_labels_against_answers():
    confusion = confusion_of(predicted([0, 0, 0, 1, 2], [0, 1, 1, 1, 0], ("cat", "dog", "owl")))
    assert confusion.names == ("cat", "dog", "owl")
    assert confusion.counts == ((1, 2, 0), (0, 1, 0), (1, 0, 0))
    assert (confusion.n, confusion.right, confusion.confused_pairs) == (5, 2, 2)
    first = confusion.pairs[0]
    assert (first.label_name, first.answer_name, first.count, first.of) == ("cat", "dog", 2, 3)
    assert (first.low, first.high) == wilson(2, 3)


def test_classes_that_only_a_model_knows_and_gaps_in_the_numbers_have_their_rows():
    confusion = confusion_of(predicted([0, 7], [0, 1000]))
    assert confusion.numbers == (0, 7, 1000)
    assert confusion.counts[1] == (0, 0, 1)
    json.dumps(for_file(confusion_chart(confusion)), allow_nan=False)  # class 1000 has no inputs


def test_inputs_without_a_label_are_left_out_and_told():
    confusion = confusion_of(predicted([0, -1, 1], [0, 0, 1]))
    assert (confusion.n, confusion.unlabelled, confusion.right) == (2, 1, 2)
    assert "1 without a label" in confusion_chart(confusion).spec["title"]["subtitle"]
    with pytest.raises(ZoolensError, match="No input of this run has a label"):
        confusion_of(predicted([-1, -1], [0, 1]))


def test_of_thousands_of_classes_the_pairs_confused_most_are_told():
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(1000), 5)
    answers = np.where(random.random(5000) < 0.5, random.integers(0, 1000, 5000), labels)
    labels[:40], answers[:40] = 17, 23
    confusion = confusion_of(predicted(labels, answers))
    assert not confusion.names
    assert len(confusion.pairs) == MOST_PAIRS
    assert (confusion.pairs[0].label, confusion.pairs[0].answer) == (17, 23)
    chart = confusion_chart(confusion)
    told = f"25 of {confusion.confused_pairs:,} confused pairs of {confusion.classes:,} classes"
    assert told in chart.spec["title"]["subtitle"]


def test_classes_of_one_name_are_told_apart():
    names = confusion_of(predicted([0, 1, 2], [0, 1, 2], ("crane", "crane", "<b>"))).names
    assert names == ("crane #0", "crane #1", "<b>")


def test_without_a_mistake_there_is_a_picture_too():
    chart = confusion_chart(confusion_of(predicted(range(40), range(40))))
    assert "no mistake" in chart.spec["title"]["subtitle"]
    json.dumps(for_file(chart), allow_nan=False)
