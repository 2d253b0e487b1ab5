"""/runs without a browser."""

import pytest

pytest.importorskip("starlette")

import numpy as np

from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, RunKind, StackRecord, unavailable
from zoolens.faces.ui.endpoint import PREFIX
from zoolens.faces.ui.test_app import client, home, measured
from zoolens.findings.measure.prediction_buffer import AnswerBatch, PredictionBuffer
from zoolens.findings.measure.predictions import KIND

__all__ = ["client", "home"]  # fixtures
NAMES = ["cat", "dog"]


def ids(page):
    return [row["id"] for row in page["rows"]]


def facet(page, name):
    return {one["value"]: one["count"] for facet in page["facets"] if facet["name"] == name for one in facet["values"]}


def test_runs_are_filtered_counted_and_sorted(home, client):
    first = measured(home, "demo:a@1", top1=0.7)
    second = measured(home, "demo:b@1", "torch", dataset="letters", top1=0.9)
    failed = measured(home, "demo:c@1", "torch", top1=0.8)
    home.fail_stage(failed.id, "latency:batch=1", "no memory\n<script>alert(1)</script>")
    ask = client()
    page = ask.get(f"{PREFIX}/runs").json()
    assert ids(page) == [failed.id, second.id, first.id]
    assert (page["total"], page["lacking"]) == (3, 0)
    row = page["rows"][0]
    assert (row["model"], row["dataset"], row["runtime"], row["state"]) == ("demo:c@1", "digits", "torch", "failed")
    assert row["failed"] == [{"stage": "latency:batch=1", "error": "no memory\ufffd<script>alert(1)</script>"}]
    assert row["judged"]["interval"] == "80.0 % [80.0, 95.0]"
    assert row["latency_p50"] is None
    assert facet(page, "runtime") == {"torch": 2, "fake": 1}
    assert facet(page, "state") == {"measured": 2, "failed": 1}
    assert ids(ask.get(f"{PREFIX}/runs?sort=-top1").json()) == [second.id, failed.id, first.id]
    by_top1 = ask.get(f"{PREFIX}/runs?sort=top1&runtime=torch&limit=1").json()
    assert (ids(by_top1), by_top1["total"]) == ([failed.id], 2)
    assert by_top1["rows"][0]["sorted_by"]["value"] == 0.8
    assert ids(ask.get(f"{PREFIX}/runs?q=LETTERS+b").json()) == [second.id]
    assert ids(ask.get(f"{PREFIX}/runs?state=failed&state=begun").json()) == [failed.id]
    moment = second.created.isoformat().replace("+", "%2B")
    assert ids(ask.get(f"{PREFIX}/runs?since={moment}").json()) == [failed.id, second.id]
    lacking = ask.get(f"{PREFIX}/runs?sort=latency_p50@batch=1").json()
    assert (lacking["total"], lacking["lacking"], lacking["rows"][0]["sorted_by"]) == (3, 3, None)
    for wrong in ("sort=-", "kind=nothing", "since=yesterday", "limit=0", "limit=100000", "model=" + "a" * 300, "x=1"):
        assert ask.get(f"{PREFIX}/runs?{wrong}").status_code == 400, wrong


def test_other_kinds_come_when_they_are_asked_for(home, client):
    measured(home, "demo:a@1")
    model, data = ModelRecord("m", "demo:a@1", "onnx", {}), DatasetRecord("d", "digits", 10)
    claim = home.begin_run(model, data, StackRecord("s", "claim:paper", {}, {}), kind=RunKind.CLAIM)
    ask = client()
    page = ask.get(f"{PREFIX}/runs").json()
    assert page["total"] == 1
    assert facet(page, "kind") == {"claim": 1, "evaluation": 1}
    assert ids(ask.get(f"{PREFIX}/runs?kind=claim").json()) == [claim.id]
    assert ask.get(f"{PREFIX}/runs?kind=claim&kind=evaluation").json()["total"] == 2


def test_a_dataset_with_a_strange_name_can_still_be_chosen(home, client):
    measured(home, "demo:a@1")
    model, data = ModelRecord("m", "demo:b@1", "onnx", {}), DatasetRecord("0a" * 32, "a*\u202eb", 10)
    home.begin_run(model, data, StackRecord("s", "fake", {}, {}))
    ask = client()
    names = facet(ask.get(f"{PREFIX}/runs").json(), "dataset")
    assert "a*\ufffdb" not in names
    (strange,) = set(names) - {"digits"}
    assert ask.get(f"{PREFIX}/runs", params={"dataset": strange}).json()["total"] == 1


def test_one_run_with_its_figures_and_observations(home, client):
    run = measured(home, "demo:a@1")
    classes = [Observation("recall", 0.5, scope=f"class={number}", details={"class": "cat"}) for number in range(30)]
    home.finish_stage(run.id, "metric:per_class", classes)
    home.finish_stage(run.id, "energy", [unavailable("energy", "no counters", scope="batch=1")])
    home.set_resolved(run.id, {"precision": "int8", "sandbox": "landlock"})
    ask = client()
    detail = ask.get(f"{PREFIX}/runs/{run.id[:6]}").json()
    assert detail["run"]["id"] == run.id
    assert [figure["metric"] for figure in detail["figures"]] == ["top1", "energy"]
    assert detail["figures"][1]["reason"] == "no counters"
    assert (detail["observations"], detail["precision"], detail["answered"]) == (32, "int8", False)
    assert {"name": "sandbox", "value": "landlock"} in detail["resolved"]
    assert [stage["stage"] for stage in detail["stages"]] == ["metric:topk", "metric:per_class", "energy"]
    page = ask.get(f"{PREFIX}/runs/{run.id}/observations?metric=recall&limit=2&offset=29").json()
    assert (page["total"], len(page["rows"])) == (30, 1)
    row = page["rows"][0]
    assert (row["stage"], row["figure"]["scope"], row["details"]) == (
        "metric:per_class", "class=29", [{"name": "class", "value": "cat"}]
    )  # fmt: skip
    assert {one["value"]: one["count"] for one in page["metrics"]} == {"recall": 30, "energy": 1, "top1": 1}
    missing = ask.get(f"{PREFIX}/runs/0123456789abcdef")
    assert missing.status_code == 404
    assert "run" in missing.json()["error"]


def answering(store, name, probabilities, labels=(0, 1, 1)):
    data = DatasetRecord("three", "three", 3, {"classes": NAMES})
    run = store.begin_run(ModelRecord(name, f"demo:{name}@1", "onnx", {}), data, StackRecord("s", "fake", {}, {}))
    values = np.array(probabilities, np.float32)
    buffer = PredictionBuffer()
    buffer.add(["one", "two <b>", "three"], np.array(labels), [AnswerBatch(values, values)])
    store.add_part(run.id, KIND, 0, buffer.take())
    store.finish_stage(run.id, KIND)
    return run


def test_what_a_run_answered_comes_in_pages_beside_another(home, client):
    ours = answering(home, "ours", [[0.9, 0.1], [0.7, 0.3], [0.4, 0.6]])
    theirs = answering(home, "theirs", [[0.8, 0.2], [0.1, 0.9], [0.3, 0.7]])
    ask = client()
    path = f"{PREFIX}/runs/{ours.id}/predictions"
    page = ask.get(path, params={"order": "least sure", "limit": 2}).json()
    assert ([row["index"] for row in page["rows"]], page["total"], page["inputs"]) == ([2, 1], 3, 3)
    wrong = ask.get(path, params={"shown": "wrong"}).json()["rows"]
    assert [(row["input"], row["truth"], row["ours"]["words"]) for row in wrong] == [("two <b>", "dog", "cat (70 %)")]
    apart = ask.get(path, params={"other": theirs.id, "order": "disagreement", "shown": "disagreeing"}).json()
    (row,) = apart["rows"]
    assert (row["index"], row["ours"]["right"], row["theirs"]["right"], row["agreement"]) == (1, False, True, 0)
    for parameters, words in (
        ({"order": "disagreement"}, "beside another run"),
        ({"order": "size"}, "order"),
        ({"other": "nosuch"}, "nosuch"),
        ({"other": measured(home, "demo:x@1").id}, "no finished predictions"),
    ):
        refused = ask.get(path, params=parameters)
        assert refused.status_code in (400, 404)
        assert words in refused.json()["error"]


def test_accuracy_in_a_wrong_order_of_classes_is_left_out_and_said(home, client):
    manifest = {"outputs": [{"labels": ["dog", "cat"]}]}
    data = DatasetRecord("three", "three", 3, {"classes": NAMES})
    run = home.begin_run(ModelRecord("m", "demo:m@1", "onnx", manifest), data, StackRecord("s", "fake", {}, {}))
    home.finish_stage(run.id, "metric:topk", [Observation("top1", 0.1, unit="fraction")])
    ask = client()
    row = ask.get(f"{PREFIX}/runs").json()["rows"][0]
    assert row["judged"] is None
    assert "accuracy is not shown" in row["note"]
    (model,) = ask.get(f"{PREFIX}/models?q=demo:m@1").json()["rows"]
    assert model["latest"]["judged"] is None


def test_what_runs_can_be_sorted_by(home, client):
    run = measured(home, "demo:a@1")
    home.finish_stage(run.id, "latency", [Observation("latency_p50", 0.1, scope="batch=1", unit="s")])
    rows = client().get(f"{PREFIX}/figures").json()["rows"]
    assert [row["value"] for row in rows] == ["latency_p50@batch=1", "top1"]
