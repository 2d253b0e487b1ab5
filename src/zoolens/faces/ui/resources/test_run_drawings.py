"""Boxes, maps of classes and what is right, as the gallery of a run is told of them."""

import io

import pytest

pytest.importorskip("starlette")

import numpy as np
from PIL import Image

from zoolens.base.store.records import DatasetRecord, ModelRecord, StackRecord, fingerprint
from zoolens.faces.ui.endpoint import PREFIX
from zoolens.faces.ui.resources.run_drawings import MOST_BOXES
from zoolens.faces.ui.test_app import client, home
from zoolens.findings.measure.prediction_buffer import AnswerBatch, PredictionBuffer
from zoolens.findings.measure.predictions import KIND
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.preprocess.box_outputs import ImageBoxes
from zoolens.inventory.tasks.detection import Found

__all__ = ["client", "home"]  # fixtures


def write(store, task, values, truths, classes):
    raw = {"all": np.arange(len(values), dtype=np.int64)[:, None]}
    buffer = PredictionBuffer(tasks=[task])
    names = [f"photo {place}" for place in range(len(values))]
    buffer.add(names, np.full(len(values), -1), [AnswerBatch(values, raw)], truths)
    manifest = {"name": task, "inputs": [{"shape": [None, 8, 8, 3]}], "outputs": [{"task": task}]}
    run = store.begin_run(
        ModelRecord(fingerprint(manifest), f"zoo:{task}@1", "fake", manifest),
        DatasetRecord(fingerprint(task), "photos", len(values), {"classes": classes}),
        StackRecord(fingerprint("fake"), "fake", {"version": "1"}, {}),
        resolved={"outputs": [{"name": "out", "task": task, "width": None}]},
    )
    store.add_part(run.id, KIND, 0, buffer.take())
    store.finish_stage(run.id, "predictions")
    return run.id


def found(boxes, classes, scores):
    given = np.array(boxes, np.float64).reshape(-1, 4)
    return Found(ImageBoxes(given, np.array(classes, np.int64), np.array(scores, np.float64)), 0)


def true_boxes(boxes, classes):
    given = np.array(boxes, np.float64).reshape(-1, 4)
    flags = np.zeros(len(given), bool)
    parts = {"boxes": given, "classes": np.array(classes, np.int64), "areas": given[:, 2] * given[:, 3]}
    return Truth("boxes", {**parts, "crowds": flags})


def rows_of(ask, run, **asked):
    return ask.get(f"{PREFIX}/runs/{run}/predictions", params=asked).json()["rows"]


@pytest.fixture
def detector(home):
    values = [
        found([[10, 20, 30, 40], [0, 0, 5, 5]], [1, 0], [0.9, 0.1]),  # the second is too unsure to be shown
        found([], [], []),
        found([[10, 20, 30, 40]] * (MOST_BOXES + 3), [0] * (MOST_BOXES + 3), [0.5] * (MOST_BOXES + 3)),
    ]
    truths = [true_boxes([[10, 20, 30, 40]], [1]), true_boxes([[1, 2, 3, 4]], [0]), None]
    return write(home, "detection", values, truths, ["cat", "<b>dog</b>"])


def test_boxes_are_given_in_pixels_with_what_is_right(client, detector):
    first, second, third = rows_of(client(), detector)
    box = {"left": 10.0, "top": 20.0, "width": 30.0, "height": 40.0}
    assert first["ours"]["drawn"]["boxes"] == [{**box, "name": "<b>dog</b>", "score": pytest.approx(0.9)}]
    assert first["right"]["boxes"] == [{**box, "name": "<b>dog</b>", "score": None}]
    assert (first["ours"]["judged"], first["ours"]["judged_words"]) == (1.0, "100.0 %")
    assert (second["ours"]["drawn"]["boxes"], second["ours"]["judged"]) == ([], 0.0)
    assert (len(third["ours"]["drawn"]["boxes"]), third["ours"]["drawn"]["more_boxes"]) == (MOST_BOXES, 3)
    assert (third["right"], third["ours"]["judged"]) == (None, None)


def test_the_worst_answers_come_first_and_those_without_truth_last(client, detector):
    assert [row["index"] for row in rows_of(client(), detector, order="loss")] == [1, 0, 2]
    classes = client().get(f"{PREFIX}/runs/{detector}/classes").json()
    assert (classes["judged"], classes["rows"]) == (True, [])
    assert "it answers no class" in classes["reason"]


def test_a_map_of_classes_is_a_transparent_picture(home, client):
    answered, right = np.zeros((4, 6), np.uint16), np.full((4, 6), 255, np.uint8)
    answered[:, :3], right[:, :2] = 1, 1
    run = write(home, "segmentation", [answered], [Truth("mask", {"mask": right})], ["background", "cat"])
    ask = client()
    (row,) = rows_of(ask, run)
    assert (row["ours"]["drawn"]["overlay"], row["right"]["overlay"], row["ours"]["judged"]) == (True, True, 1.0)
    for truth, columns in ((False, 3), (True, 2)):
        sent = ask.get(f"{PREFIX}/runs/{run}/drawings/0", params={"truth": truth})
        assert sent.headers["content-type"] == "image/png"
        seen = np.asarray(Image.open(io.BytesIO(sent.content)))[:, :, 3] > 0
        assert seen[:, :columns].all()
        assert not seen[:, columns:].any()


def test_what_has_no_map_says_so(client, detector):
    for index, words in ((0, "There is no map of classes for input 0"), (9, "has 3 inputs; they are counted from 0")):
        answer = client().get(f"{PREFIX}/runs/{detector}/drawings/{index}")
        assert answer.status_code in (400, 404)
        assert words in answer.text
