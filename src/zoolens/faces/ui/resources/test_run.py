"""/runs/{run} and what follows it, without a browser."""

import io
import json
from contextlib import closing
from dataclasses import asdict

import pytest

pytest.importorskip("starlette")

import numpy as np
from PIL import Image

from zoolens.base.present.figures import with_interval
from zoolens.base.store.records import DISTURBED, DatasetRecord, ModelRecord, Observation, StackRecord
from zoolens.faces.ui.endpoint import PREFIX
from zoolens.faces.ui.resources.run import facts_of
from zoolens.faces.ui.test_app import client, home, measured
from zoolens.findings.comparisons.conftest import class_columns, one_hot, vector_columns, write_run
from zoolens.findings.measure.answers import judged_predictions
from zoolens.findings.measure.confusion import confusion_of
from zoolens.findings.measure.reliability import reliability_of
from zoolens.inventory.datasets.opening import open_dataset

__all__ = ["client", "home"]  # fixtures
NAMES = ["cat", "dog", "<b>bird</b>"]
LABELS = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2])
GIVEN = np.array([0, 1, 2, 1, 1, 2, 1, 1, 2, 0, 0, 2])  # two cats are dogs, a dog is a cat


def answered(store, name="ours", labels=LABELS, given=GIVEN, **more):
    return write_run(store, name, one_hot(given, 3, sure=0.7), labels, classes=NAMES, **more)


def test_what_is_confused_leads_to_the_inputs(home, client):
    run = answered(home)
    ask = client()
    answer = ask.get(f"{PREFIX}/runs/{run.id}/confusion").json()
    confusion = confusion_of(judged_predictions(home, run))
    assert answer["reason"] == ""
    assert answer["pairs"] == [{"label": pair.label, "answer": pair.answer} for pair in confusion.pairs]
    assert answer["table"]["rows"][0][:3] == ["cat", "dog", "2 of 4"]
    (cell,) = (
        one for one in answer["chart"]["data"]["values"] if (one["label_number"], one["answer_number"]) == (0, 1)
    )
    assert cell["count"] == 2
    page = ask.get(f"{PREFIX}/runs/{run.id}/predictions", params=answer["pairs"][0]).json()
    assert ([row["index"] for row in page["rows"]], page["total"], page["inputs"]) == ([3, 6], 2, 12)
    assert [one["name"] for one in page["rows"][0]["ours"]["best"]][:1] == ["dog"]
    assert page["rows"][0]["ours"]["best"][0]["words"] == "70.0 %"
    assert page["rows"][0]["label_words"] == "15.0 %"


def test_each_bin_of_the_calibration_has_the_inputs_that_it_counts(home, client):
    random = np.random.default_rng(1)
    raw = random.random((60, 3)).astype(np.float32) ** 3
    probabilities = raw / raw.sum(axis=1, keepdims=True)
    probabilities[0] = [1, 0, 0]
    labels = random.integers(0, 3, 60)
    labels[:5] = -1
    columns = class_columns(probabilities, np.maximum(labels, 0))
    run = write_run(home, "half", columns, labels, classes=NAMES)
    ask = client()
    answer = ask.get(f"{PREFIX}/runs/{run.id}/calibration").json()
    reliability = reliability_of(judged_predictions(home, run))
    assert answer["ece"] == with_interval(reliability.ece)
    for number, part in enumerate(reliability.bins):
        page = ask.get(f"{PREFIX}/runs/{run.id}/predictions?bin={number}").json()
        assert page["total"] == part.n == int(answer["table"]["rows"][number][1])
        assert page["bin"] in answer["table"]["rows"][number][0]
    assert sum(part.n for part in reliability.bins) == 55


def test_classes_are_counted_and_have_the_recall_that_is_stored(home, client):
    run = answered(home)
    facts = [
        Observation("recall", value, scope=f"class={number}", unit="fraction")
        for number, value in ((1, 0.75), (0, 0.5))
    ]
    home.finish_stage(run.id, "metric:per_class", facts)
    rows = client().get(f"{PREFIX}/runs/{run.id}/classes?order=recall").json()["rows"]
    counts = [(row["name"], row["inputs"], row["answered"], row["figure"] and row["figure"]["words"]) for row in rows]
    assert counts == [("cat", 4, 3, "50.0 %"), ("dog", 4, 5, "75.0 %"), ("<b>bird</b>", 4, 4, None)]


@pytest.mark.parametrize(
    ("columns", "labels", "words"),
    [
        (one_hot(GIVEN, 3), np.full(12, -1), "No input of this run has a label"),
        (vector_columns(np.eye(12)), np.full(12, -1), "answers no class"),
        (None, LABELS, "no finished predictions"),
    ],
)
def test_what_cannot_be_told_is_said(home, client, columns, labels, words):
    about = [{"task": "embedding", "name": "features"}] if isinstance(columns, dict) else None
    if columns is None:
        run = answered(home, done=False)
    else:
        given = columns if isinstance(columns, dict) else class_columns(columns, np.maximum(labels, 0))
        run = write_run(home, "other", given, labels, about=about)
    ask = client()
    for part in ("confusion", "calibration"):
        answer = ask.get(f"{PREFIX}/runs/{run.id}/{part}").json()
        assert answer["chart"] is None
        assert words in answer["reason"]
    classes = ask.get(f"{PREFIX}/runs/{run.id}/classes").json()
    assert bool(classes["rows"]) == ("label" in words)


def test_wrong_questions_about_answers_are_refused(home, client):
    run = answered(home)
    ask = client()
    for wrong in ("label=-1", "answer=x", "bin=15", "bin=-1", "label=99999999999"):
        assert ask.get(f"{PREFIX}/runs/{run.id}/predictions?{wrong}").status_code == 400, wrong
    assert ask.get(f"{PREFIX}/runs/{run.id}/predictions?label=77").json()["total"] == 0


def test_a_run_says_what_a_reader_must_know(home, client):
    data = DatasetRecord("part", "part", 10, {"drawn_from": 500})
    model, stack = ModelRecord("m", "demo:m@1", "onnx", {}), StackRecord("s", "fake", {}, {})
    run = home.begin_run(model, data, stack, resolved={"origin": {"data": "demo", "limit": 10, "manifest": {"a": 1}}})
    again = home.begin_run(model, data, stack, attempt=1)
    ask = client()
    begun = ask.get(f"{PREFIX}/runs/{run.id}").json()
    assert begun["run"]["state"] == "begun"
    assert "zoolens eval" in begun["advice"]
    timing = Observation("latency_p50", 0.1, scope="batch=1", unit="s", details={DISTURBED: True})
    home.finish_stage(run.id, "latency", [timing])
    home.fail_stage(run.id, "predictions", "out of memory")
    answer = ask.get(f"{PREFIX}/runs/{run.id}").json()
    assert answer["run"]["failed"] == [{"stage": "predictions", "error": "out of memory"}]
    assert "measures what is missing" in answer["advice"]
    assert answer["notes"][0] == "It is about a part of the dataset: 10 of 500 inputs."
    assert "(disturbed)" in answer["notes"][1]
    assert "(disturbed)" in answer["figures"][0]["words"]
    assert answer["tiles"][0]["title"] == "median latency, one input at a time"
    assert {"name": "limit", "value": "10"} in answer["origin"]
    assert not any(fact["name"].startswith("manifest") for fact in answer["origin"])
    assert [(one["id"], one["attempt"]) for one in answer["attempts"]] == [(run.id, 0), (again.id, 1)]


def test_of_several_outputs_the_first_is_shown_and_it_is_said(home, client):
    columns = {**class_columns(one_hot(GIVEN, 3), LABELS), **vector_columns(np.eye(12), "out1.")}
    about = [{"name": "logits", "task": "classification"}, {"name": "features", "task": "embedding"}]
    run = write_run(home, "two", columns, LABELS, classes=NAMES, about=about)
    ask = client()
    detail = ask.get(f"{PREFIX}/runs/{run.id}").json()
    (note,) = detail["notes"]
    assert note.startswith(
        "It has 2 outputs. What the page says of single inputs and classes is about the first, logits;"
    )
    assert (detail["task"], detail["of_classes"]) == ("classification", True)
    assert ask.get(f"{PREFIX}/runs/{run.id}/confusion").json()["pairs"][0] == {"label": 0, "answer": 1}


def test_suspicious_answers_are_named(home, client):
    labels = np.arange(40) % 2
    run = write_run(home, "stuck", one_hot(np.zeros(40, int), 2), labels, classes=["a", "b"])
    (note,) = client().get(f"{PREFIX}/runs/{run.id}").json()["notes"]
    assert note.startswith("This cannot be right: it answers class 0 (a) for every one of 40 inputs")


def test_a_run_is_downloaded_as_the_command_prints_it(home, client):
    from zoolens.findings.measure.run_data import run_data

    run = measured(home, "demo:a@1")
    answer = client().get(f"{PREFIX}/runs/{run.id[:8]}/json")
    assert answer.headers["content-disposition"] == f'attachment; filename="run-{run.id}.json"'
    data = json.loads(answer.content)
    expected = run_data(home.run(run.id), home.stages(run.id), home.observations(run.id))
    assert data.keys() == expected.keys()
    assert data["observations"] == [json.loads(json.dumps(asdict(one))) for one in home.observations(run.id)]


def test_inputs_come_with_pictures_by_the_place_alone(home, client):
    with closing(open_dataset("demo", limit=20, seed=5)) as demo:
        record = DatasetRecord(demo.fingerprint(), demo.name, len(demo))
        third = demo.read(3)
    origin = {"data": "demo", "limit": 20, "seed": 5}
    model, stack = ModelRecord("m", "demo:m@1", "onnx", {}), StackRecord("s", "fake", {}, {})
    run = home.begin_run(model, record, stack, resolved={"origin": origin})
    other = home.begin_run(
        ModelRecord("n", "demo:n@1", "onnx", {}), record, stack, resolved={"origin": {"data": "/etc"}}
    )
    ask = client()
    path = f"{PREFIX}/runs/{run.id}/inputs"
    while (answer := ask.get(f"{path}?index=3&index=7").json())["state"] == "opening":
        pass
    assert (answer["state"], [row["index"] for row in answer["rows"]]) == ("ready", [3, 7])
    image = {"words": "28 × 28, grey", "picture": True, "width": 28, "height": 28}
    about = {**image, "tokens": [], "more_tokens": 0, "texts": [], "wave": [], "seconds": 0}
    assert answer["rows"][0] == {"index": 3, "name": third.id, **about}
    image = ask.get(f"{path}/3")
    assert image.headers["content-type"] == "image/png"
    assert "immutable" in image.headers["cache-control"]
    pixels = np.asarray(Image.open(io.BytesIO(image.content)))
    np.testing.assert_array_equal(pixels[::7, ::7], third.value[:, :, 0])
    assert ask.get(f"{PREFIX}/runs/{run.id[:8]}/inputs/3").headers["cache-control"] == "no-cache"
    for wrong, status in (("20", 404), ("-1", 400), ("%2e%2e%2fetc%2fpasswd", 404), ("x", 400)):
        assert ask.get(f"{path}/{wrong}").status_code == status, wrong
    assert ask.get(f"{path}?{'&'.join(['index=1'] * 101)}").status_code == 400
    refused = ask.get(f"{PREFIX}/runs/{other.id}/inputs/3")
    assert refused.status_code == 409
    assert "--allow" in refused.json()["error"]


def test_a_list_that_is_cut_says_how_long_it_is():
    short, long = facts_of({"short": [1, 2], "more": {"long": list(range(60))}})
    assert (short.name, short.value) == ("short", "1, 2")
    assert long.name == "more long"
    assert long.value.endswith("48, 49, … (60 in all)")
