"""Boxes, maps of classes and what is right, as the gallery of a run is told of them."""

import io

import pytest

pytest.importorskip("starlette")

import numpy as np
from PIL import Image

from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, StackRecord, fingerprint
from zoolens.faces.ui.endpoint import PREFIX
from zoolens.faces.ui.resources.run_drawings import MOST_BOXES
from zoolens.faces.ui.test_app import client, home
from zoolens.findings.measure.prediction_buffer import AnswerBatch, PredictionBuffer
from zoolens.findings.measure.predictions import KIND
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.preprocess.box_outputs import ImageBoxes
from zoolens.inventory.tasks.detection import Found
from zoolens.inventory.tasks.voice_activity import Frames

__all__ = ["client", "home"]  # fixtures


def write(store, task, values, truths, classes, name="one"):
    raw = {"all": np.arange(len(values), dtype=np.int64)[:, None]}
    buffer = PredictionBuffer(tasks=[task])
    names = [f"photo {place}" for place in range(len(values))]
    buffer.add(names, np.full(len(values), -1), [AnswerBatch(values, raw)], truths)
    manifest = {"name": name, "inputs": [{"shape": [None, 8, 8, 3]}], "outputs": [{"task": task}]}
    run = store.begin_run(
        ModelRecord(fingerprint(manifest), f"zoo:{name}@1", "fake", manifest),
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
    dog = {**box, "name": "<b>dog</b>", "style": 1}
    assert first["ours"]["drawn"]["boxes"] == [{**dog, "score": pytest.approx(0.9)}]
    assert (first["right"]["boxes"], first["truth"]) == ([{**dog, "score": None}], "1 box: <b>dog</b>")
    assert (first["ours"]["judged"], first["ours"]["judged_words"]) == (1.0, "100.0 %")
    assert (second["ours"]["drawn"]["boxes"], second["ours"]["judged"]) == ([], 0.0)
    assert (len(third["ours"]["drawn"]["boxes"]), third["ours"]["drawn"]["more_boxes"]) == (MOST_BOXES, 3)
    assert (third["right"], third["ours"]["judged"]) == (None, None)


def test_a_run_without_classes_says_its_task_here_and_on_the_pages_of_models(client, detector):
    ask = client()
    detail = ask.get(f"{PREFIX}/runs/{detector}").json()
    assert (detail["task"], detail["of_classes"]) == ("detection", False)
    # Only the store knows the model.
    (row,) = ask.get(f"{PREFIX}/models?zoo=zoo").json()["rows"]
    assert (row["listed"], row["task"]) == (False, "detection")
    assert ask.get(f"{PREFIX}/models?task=detection").json()["total"] == 1
    model = ask.get(f"{PREFIX}/model/zoo:one@1").json()
    assert model["task"] == "detection"
    assert model["replacement"].startswith("TASK detection CORR zoo:one WITHIN 50% ON size")


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
    assert row["ours"]["drawn"]["legend"] == [{"name": "cat", "words": "50.0 %", "style": 1}]
    assert row["truth"] == "cat 100 %"
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


def test_tags_are_told_as_marks_of_words_that_the_dataset_has(home, client):
    tags = np.array(["B-PER", "I-PER", "O", "B-<b>"], object)
    right = Truth("tags", {"tags": np.array(["B-PER", "I-PER", "O", "O"])})
    run = write(home, "token-classification", [tags], [right], None)
    (row,) = rows_of(client(), run)
    person = {"first": 0, "last": 1, "name": "PER", "style": 7}
    assert row["ours"]["drawn"]["marks"] == [person, {"first": 3, "last": 3, "name": "<b>", "style": 4}]
    assert (row["right"]["marks"], row["truth"]) == ([person], "PER 0–1 (words)")


def test_spoken_stretches_and_answers_in_words(home, client):
    frames = Frames(np.array([0.1, 0.9, 0.9, 0.2], np.float32), 0.05, 0.1, 0.4, 0.5)
    timed = Truth("activity", {"intervals": np.array([[0.1, 0.2]]), "timed": np.array([True])})
    untimed = Truth("activity", {"intervals": np.array([[0.0, 0.4]]), "timed": np.array([False])})
    run = write(home, "voice-activity", [frames, frames], [timed, untimed], None)
    first, second = rows_of(client(), run)
    (span,) = first["ours"]["drawn"]["spans"]
    assert (span["begin"], span["end"]) == (pytest.approx(0.1), pytest.approx(0.3))
    assert first["right"]["spans"] == [{"begin": 0.1, "end": 0.2}]
    assert (first["truth"], second["truth"]) == ("speech: 0.10 to 0.20 s", "speech")
    assert second["right"] is None  # when somebody speaks is not known
    answers = np.array(["in\nParis", ""], object)
    texts = [Truth("spans", {"texts": np.array(["Paris", "in Paris"])})] * 2
    first, second = rows_of(client(), write(home, "question-answering", answers, texts, None))
    assert (first["ours"]["drawn"]["texts"], first["right"]["texts"]) == (["in Paris"], ["Paris", "in Paris"])
    assert (second["ours"]["drawn"]["texts"], second["truth"]) == ([], "'Paris' or 'in Paris'")


def test_disagreement_puts_the_lowest_agreement_first(home, client):
    same, near, far = ([10, 20, 30, 40], [12, 20, 30, 40], [60, 60, 8, 8])
    truths = [true_boxes([same], [0])] * 3
    ours, theirs = (
        write(home, "detection", [found([box], [0], [0.9]) for box in boxes], truths, ["cat"], name)
        for name, boxes in (("ours", (same, same, same)), ("theirs", (same, far, near)))
    )
    rows = rows_of(client(), ours, other=theirs, order="disagreement", shown="disagreeing")
    assert [row["index"] for row in rows] == [1, 2]
    assert rows[0]["agreement"] == 0 < rows[1]["agreement"] < 1
    assert rows[0]["theirs"]["drawn"]["boxes"][0]["left"] == 60


def test_classes_of_a_task_have_its_own_figure(home, client, detector):
    facts = [
        Observation("class_ap", 0.25, scope="class=1", unit="fraction", details={"class": "<b>dog</b>"}),
        Observation("class_ap", 0.5, scope="class=0", unit="fraction", details={"class": "cat"}),
        Observation("ap", 0.375, unit="fraction"),
    ]
    home.finish_stage(detector, "metric:task", facts)
    classes = client().get(f"{PREFIX}/runs/{detector}/classes", params={"order": "recall"}).json()
    assert (classes["metric"], classes["reason"], classes["judged"]) == ("class_ap", "", True)
    named = [(row["name"], row["inputs"], row["figure"]["words"]) for row in classes["rows"]]
    assert named == [("<b>dog</b>", None, "25.0 %"), ("cat", None, "50.0 %")]
    (listed,) = client().get(f"{PREFIX}/runs").json()["rows"]
    assert (listed["judged"]["metric"], listed["judged"]["words"]) == ("ap", "37.5 %")
