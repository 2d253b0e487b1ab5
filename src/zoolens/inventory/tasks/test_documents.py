"""Answers as JSON documents: every figure of them, and what is no JSON."""

import json

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.datasets.text_dataset import Words
from zoolens.inventory.preprocess.box_outputs import ImageBoxes
from zoolens.inventory.tasks.detection import Found
from zoolens.inventory.tasks.documents import AnswerClasses, as_json, shortest
from zoolens.inventory.tasks.multilabel import Probabilities
from zoolens.inventory.tasks.scoring.mask_runs import ELSEWHERE
from zoolens.inventory.tasks.task import Answers, task_named

# The dataset's class 0 is the client's 7, and class 1 has no number of the client's.
CLASSES = AnswerClasses({0: 7, 2: 3}, {0: "cat", 2: "dog"})


def document(name, values, classes=CLASSES, sample=None, place=0):
    task = task_named(name)
    answers = Answers("out", name, task.keep(values, None))
    return json.loads(as_json(task.document(answers, place, classes, sample)))


def test_boxes_are_corners_of_the_image_with_the_classes_of_the_client():
    boxes = ImageBoxes(np.array([[1, 2, 10, 20.5], [0, 0, 4, 4]]), np.array([0, 2]), np.array([0.9, 0.25]))
    nothing = ImageBoxes(np.zeros((0, 4)), np.zeros(0, int), np.zeros(0))
    assert document("detection", [Found(boxes, 0)]) == [
        {"label": "cat", "class": 7, "score": 0.9, "box": [1.0, 2.0, 11.0, 22.5]},
        {"label": "dog", "class": 3, "score": 0.25, "box": [0.0, 0.0, 4.0, 4.0]},
    ]
    assert document("detection", [Found(boxes, 0), Found(nothing, 0)], place=1) == []


def test_a_mask_is_told_in_runs_that_give_the_mask_again():
    mask = np.array([[0, 0, 2], [2, 2, ELSEWHERE]], np.uint16)
    told = document("segmentation", [mask])
    assert (told["height"], told["width"]) == (2, 3)
    assert told["classes"] == [
        {"label": "cat", "class": 7, "pixels": 2},
        {"label": "dog", "class": 3, "pixels": 3},
        {"label": None, "class": None, "pixels": 1},
    ]
    assert told["runs"] == [[7, 2], [3, 3], [None, 1]]
    again = [number for number, length in told["runs"] for _ in range(length)]
    assert np.array(again, object).reshape(2, 3).tolist() == [[7, 7, 3], [3, 3, None]]


def test_labels_above_their_threshold_are_told_the_best_first():
    values = Probabilities(np.array([[0.6, 0.1, 0.8]], np.float32), 0.5)
    assert document("multilabel", values) == {
        "labels": [{"label": "dog", "class": 3, "score": 0.8}, {"label": "cat", "class": 7, "score": 0.6}],
        "threshold": 0.5,
    }


def test_tags_come_with_their_words_and_entities():
    tags = np.array(["B-PER", "I-PER", "O"], object)
    told = document("token-classification", [tags], sample=Words(("Ada", "Lovelace", "wrote")))
    assert told["words"] == ["Ada", "Lovelace", "wrote"]
    assert told["tags"] == ["B-PER", "I-PER", "O"]
    assert told["entities"] == [{"type": "PER", "first": 0, "last": 1, "words": ["Ada", "Lovelace"]}]


def test_numbers_and_answers_in_words():
    assert document("regression", np.array([[1.5, -0.1]], np.float32)) == {"values": [1.5, -0.1]}
    assert document("question-answering", ["in 1843"]) == {"answer": "in 1843"}


def test_what_is_no_json_is_refused_in_one_sentence():
    for wrong in (np.nan, np.inf):
        with pytest.raises(ModelError, match="NaN or infinity, which JSON cannot hold"):
            document("regression", np.array([[wrong]], np.float32))


def test_numbers_have_as_few_digits_as_give_them_again():
    values = np.random.default_rng(0).standard_normal(200).astype(np.float32) * np.float32(10) ** np.arange(
        -10, 10, 0.1
    )
    values = values.astype(np.float32)
    assert np.array(shortest(values), np.float32).tolist() == values.tolist()
    assert shortest(np.float32([0.9])) == [0.9]


def test_answers_know_how_large_they_are():
    task = task_named("segmentation")
    answers = Answers("out", "segmentation", task.keep([np.zeros((4, 4), np.uint16)], None))
    # One run: offsets of two columns, a length, a class, height and width.
    assert answers.nbytes == 2 * 16 + 4 + 2 + 4 + 4
