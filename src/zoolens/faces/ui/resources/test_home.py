"""/home, /datasets, /search and /folder without a browser."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

pytest.importorskip("starlette")

from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, RunKind, StackRecord
from zoolens.base.store.store import Store
from zoolens.faces.ui import recent_changes
from zoolens.faces.ui.endpoint import PREFIX
from zoolens.faces.ui.jobs.folder import make_job_folder
from zoolens.faces.ui.test_app import client, home, measured
from zoolens.findings.audit.audit_findings import Finding, Severity
from zoolens.findings.audit.report.test_report import audit as made_audit

__all__ = ["client", "home"]  # fixtures


def evaluated(store, model, top1, low, high, *, dataset="digits", task="classification", metric="top1", again=False):
    begin = store.begin_attempt if again else store.begin_run
    run = begin(
        ModelRecord(model, model, "onnx", {"outputs": [{"task": task}]}),
        DatasetRecord(f"of {dataset}", dataset, 10),
        StackRecord("here", "fake", {}, {}),
    )
    facts = [Observation(metric, top1, low=low, high=high, unit="fraction", n=10)]
    store.finish_stage(run.id, "metric", facts)
    return run


def test_the_best_model_of_each_dataset_is_told_with_what_may_be_as_good(home, client):
    evaluated(home, "demo:a@1", 0.9, 0.85, 0.95)
    evaluated(home, "demo:b@1", 0.7, 0.6, 0.8)
    evaluated(home, "demo:c@1", 0.88, 0.83, 0.93)
    evaluated(home, "demo:d@1", 12.0, 11.0, 13.0, dataset="houses", task="regression", metric="mae")
    evaluated(home, "demo:e@1", 15.0, 14.5, 16.0, dataset="houses", task="regression", metric="mae")
    answer = client().get(f"{PREFIX}/home").json()
    assert (answer["runs"], answer["datasets"]) == (5, 2)
    houses, digits = answer["best"]
    assert [row["run"]["model"] for row in digits["rows"]] == ["demo:a@1", "demo:c@1", "demo:b@1"]
    assert digits["note"].startswith("demo:c has an interval that reaches into that of the first")
    assert [row["run"]["model"] for row in houses["rows"]] == ["demo:d@1", "demo:e@1"]  # less is better
    assert houses["note"] == "Its interval lies beyond those of all others."
    assert (houses["task"], houses["title"], digits["models"]) == ("regression", "mean absolute error", 3)
    chosen = client().get(f"{PREFIX}/home?data=digits").json()
    assert (chosen["runs"], [best["dataset"] for best in chosen["best"]]) == (3, ["digits"])
    of_task = client().get(f"{PREFIX}/home?task=regression").json()
    assert [best["dataset"] for best in of_task["best"]] == ["houses"]
    assert client().get(f"{PREFIX}/home?task=detection").json()["runs"] == 0


def test_an_empty_store_has_an_empty_home(home, client):
    answer = client().get(f"{PREFIX}/home").json()
    assert (answer["runs"], answer["best"], answer["newest"], answer["changes"]["days"]) == (0, [], [], 0)


def test_what_changed_is_told_beyond_both_intervals_alone(home, client, monkeypatch):
    evaluated(home, "demo:a@1", 0.9, 0.85, 0.95)
    steady = evaluated(home, "demo:b@1", 0.7, 0.6, 0.8)
    worse = evaluated(home, "demo:a@1", 0.5, 0.4, 0.6, again=True)
    evaluated(home, "demo:b@1", 0.72, 0.62, 0.82, again=True)
    changes = client().get(f"{PREFIX}/home").json()["changes"]
    assert (changes["days"], changes["runs"], changes["models"], changes["compared"]) == (1, 4, 2, 2)
    (line,) = changes["lines"]
    assert line["run"] == worse.id
    assert line["sentence"] == "top-1 accuracy of demo:a in fake: 90.0 % [85.0, 95.0] → 50.0 % [40.0, 60.0]"

    class Later(recent_changes.datetime):
        @classmethod
        def now(cls, zone):
            return steady.created + timedelta(days=3)

    monkeypatch.setattr(recent_changes, "datetime", Later)
    assert client().get(f"{PREFIX}/home").json()["changes"]["days"] == 7
    assert client().get(f"{PREFIX}/home?days=1").json()["changes"]["days"] == 0


def test_another_best_model_is_a_change(home, client, monkeypatch):
    before = evaluated(home, "demo:a@1", 0.7, 0.6, 0.8)
    after = evaluated(home, "demo:b@1", 0.9, 0.85, 0.95)

    class Between(recent_changes.datetime):
        @classmethod
        def now(cls, zone):
            return before.created + (after.created - before.created) / 2 + timedelta(days=1)

    monkeypatch.setattr(recent_changes, "datetime", Between)
    (line,) = client().get(f"{PREFIX}/home?days=1").json()["changes"]["lines"]
    assert (line["run"], line["before"]) == (after.id, before.id)
    assert line["sentence"].startswith(
        "demo:b comes first on digits by top-1 accuracy: 90.0 % [85.0, 95.0]; demo:a did"
    )


def timed(store, seconds, cpu, *, mode="default", top1=0.9, version="1", others=0.0):
    """An evaluation of one model on a machine, with an interval of a hundredth around each figure."""
    identity = {"machine": {"cpu": cpu}, "options": {"mode": mode}, "version": version}
    stack = StackRecord(f"{cpu} {mode} {version}", "fake", identity, {})
    begun = (ModelRecord("a", "demo:a@1", "onnx", {}), DatasetRecord("digits", "digits", 10), stack)
    run = store.begin_attempt(*begun)
    right = Observation("top1", top1, low=top1 - 0.01, high=top1 + 0.01, unit="fraction", n=10)
    store.finish_stage(run.id, "metric", [right])
    ends = {"low": 0.99 * seconds, "high": 1.01 * seconds}
    time = Observation("latency_p50", seconds, scope="batch=1", unit="s", details={"others": others}, **ends)
    store.finish_stage(run.id, "latency:batch=1", [time])
    return run


def lines(client):
    changes = client().get(f"{PREFIX}/home").json()["changes"]
    return changes["compared"], [line["sentence"] for line in changes["lines"]]


def test_times_are_held_against_those_of_the_same_machine_alone(home, client):
    timed(home, 0.1, "slow")
    timed(home, 0.001, "fast")
    assert lines(client) == (1, [])
    timed(home, 0.002, "fast", version="2")
    assert lines(client) == (
        1, ["median latency of demo:a in fake: 1 ms [0.99, 1.01] → 2 ms [1.98, 2.02] (fake 2 instead of 1)"]
    )  # fmt: skip
    timed(home, 0.004, "fast", version="3", others=0.9)
    assert lines(client) == (1, [])


def test_runs_that_were_asked_for_otherwise_are_not_held_against_each_other(home, client):
    timed(home, 0.1, "slow", top1=0.9)
    timed(home, 0.1, "slow", mode="int8", top1=0.7)
    assert lines(client) == (0, [])
    again = timed(home, 0.1, "slow", mode="int8", top1=0.5)
    compared, (line,) = lines(client)
    assert (compared, line) == (1, "top-1 accuracy of demo:a in fake: 70.0 % [69.0, 71.0] → 50.0 % [49.0, 51.0]")
    assert client().get(f"{PREFIX}/home").json()["changes"]["lines"][0]["run"] == again.id


def test_a_repetition_does_not_hide_a_change_since_before_the_span(home, client, monkeypatch):
    old = timed(home, 0.1, "slow", top1=0.9)
    timed(home, 0.1, "slow", top1=0.5)
    last = timed(home, 0.1, "slow", top1=0.5)

    class Between(recent_changes.datetime):
        @classmethod
        def now(cls, zone):
            return old.created + timedelta(days=1, microseconds=1)

    monkeypatch.setattr(recent_changes, "datetime", Between)
    (line,) = client().get(f"{PREFIX}/home?days=1").json()["changes"]["lines"]
    assert (line["run"], line["before"]) == (last.id, old.id)


def test_a_best_model_within_the_interval_of_the_former_is_no_change(home, client, monkeypatch):
    before = evaluated(home, "demo:a@1", 0.7, 0.6, 0.8)
    evaluated(home, "demo:b@1", 0.72, 0.62, 0.82)

    class Between(recent_changes.datetime):
        @classmethod
        def now(cls, zone):
            return before.created + timedelta(days=1, microseconds=1)

    monkeypatch.setattr(recent_changes, "datetime", Between)
    assert client().get(f"{PREFIX}/home?days=1").json()["changes"]["lines"] == []


def test_nothing_is_clearly_the_best_by_intervals_that_promise_nothing(home, client):
    for name, score, interval in (("a", 0.9, "bootstrap"), ("b", 0.5, "bootstrap"), ("c", 0.4, "t")):
        run = evaluated(home, f"demo:{name}@1", 0.1, 0.05, 0.15, task="detection", metric="other")
        ends = {"low": score - 0.01, "high": score + 0.01, "details": {"interval": interval}}
        home.finish_stage(run.id, "metric:score", [Observation("score", score, n=10, **ends)])
    notes = [best["note"] for best in client().get(f"{PREFIX}/home").json()["best"]]
    assert notes == ["Without an interval nobody knows whether it is clearly the best."]


def test_what_failed_needs_a_look(home, client):
    run = measured(home, "demo:a@1")
    assert client().get(f"{PREFIX}/home").json()["alarms"] == []
    home.fail_stage(run.id, "latency:batch=1", "no memory")
    (alarm,) = client().get(f"{PREFIX}/home").json()["alarms"]
    assert (alarm["sentence"], alarm["page"]) == ("The evaluation of demo:a has a stage that failed.", "run")
    assert alarm["rest"] == run.id


def test_other_failures_are_another_alarm_in_the_same_words(home, client):
    """Who has hidden the failures of two models sees those of two other ones."""
    ask = client()
    seen = []
    for names in (("a", "b"), ("c", "d")):
        for name in names:
            failed_again(home, f"demo:{name}@1")
        (alarm,) = ask.get(f"{PREFIX}/home").json()["alarms"]
        assert alarm == ask.get(f"{PREFIX}/home").json()["alarms"][0]
        seen.append((alarm["sentence"], alarm["about"]))
        for name in names:
            evaluated(home, f"demo:{name}@1", 0.9, 0.8, 1.0, again=True)
    assert seen[0][0] == seen[1][0]
    assert seen[0][1] != seen[1][1]


def failed_again(store, model, *, dataset="digits"):
    run = evaluated(store, model, 0.5, 0.4, 0.6, dataset=dataset, again=True)
    store.fail_stage(run.id, "latency:batch=1", "no memory")
    return run


def test_what_failed_needs_no_look_once_it_was_done_again(home, client):
    ask = client()
    failed_again(home, "demo:a@1")
    failed_again(home, "demo:a@1")  # twice the same
    failed_again(home, "demo:b@1")
    failed_again(home, "demo:b@1", dataset="letters")
    evaluated(home, "demo:a@1", 0.9, 0.8, 1.0, dataset="letters", again=True)  # mends nothing of the other dataset
    alarms = [alarm["sentence"] for alarm in ask.get(f"{PREFIX}/home").json()["alarms"]]
    assert alarms == ["3 evaluations have a stage that failed; none was repeated with success."]
    evaluated(home, "demo:a@1", 0.9, 0.8, 1.0, again=True)
    evaluated(home, "demo:b@1", 0.9, 0.8, 1.0, again=True)
    (alarm,) = ask.get(f"{PREFIX}/home").json()["alarms"]
    assert alarm["sentence"] == "The evaluation of demo:b has a stage that failed."
    assert ask.get(f"{PREFIX}/home?data=digits").json()["alarms"] == []
    evaluated(home, "demo:b@1", 0.9, 0.8, 1.0, dataset="letters", again=True)
    assert ask.get(f"{PREFIX}/home").json()["alarms"] == []


def test_two_tasks_of_one_metric_have_their_own_best_models(home, client):
    evaluated(home, "demo:a@1", 0.5, 0.4, 0.6, metric="score", task="detection")
    evaluated(home, "demo:b@1", 0.9, 0.8, 1.0, metric="score", task="segmentation")
    best = client().get(f"{PREFIX}/home").json()["best"]
    assert {one["task"]: [row["run"]["model"] for row in one["rows"]] for one in best} == {
        "detection": ["demo:a@1"],
        "segmentation": ["demo:b@1"],
    }


def test_of_an_audit_what_is_about_models_of_the_chosen_data_needs_a_look(home, client):
    evaluated(home, "demo:a@1", 0.9, 0.85, 0.95)
    evaluated(home, "demo:b@1", 0.9, 0.85, 0.95, dataset="letters")
    job = make_job_folder("audit", "an audit", {}, ["audit"])
    finding = Finding("claims/top1", Severity.HIGH, "a", ("demo:a@2",), "It is off", ("so it is",), "Mend it.")
    job.output_file.write_text(json.dumps(replace(made_audit(), findings=(finding,)).as_data()), encoding="utf-8")
    job.write_end(0)
    ask = client()

    def told(query):
        return [(one["level"], one["sentence"]) for one in ask.get(f"{PREFIX}/home{query}").json()["alarms"]]

    assert told("") == [("high", "The last audit found: 1 high.")]
    assert told("?data=digits") == [("high", "The last audit found about models that were run on this data: 1 high.")]
    assert told("?data=letters") == []


def test_datasets_are_those_of_evaluations_with_their_tasks(home, client):
    evaluated(home, "demo:a@1", 0.9, 0.85, 0.95)
    evaluated(home, "demo:d@1", 0.5, 0.4, 0.6, dataset="streets", task="detection", metric="ap")
    rows = client().get(f"{PREFIX}/datasets").json()["rows"]
    assert [(row["name"], row["tasks"], row["runs"]) for row in rows] == [
        ("streets", ["detection"], 1),
        ("digits", ["classification"], 1),
    ]


def test_the_list_of_datasets_reads_each_run_once(home, client, monkeypatch):
    evaluated(home, "demo:a@1", 0.9, 0.85, 0.95)
    ask, asked = client(), []
    read = Store.runs_of

    def counted(store, ids, **rest):
        asked.append(list(ids))
        return read(store, ids, **rest)

    monkeypatch.setattr(Store, "runs_of", counted)
    assert len(ask.get(f"{PREFIX}/datasets").json()["rows"]) == 1
    new = evaluated(home, "demo:d@1", 0.5, 0.4, 0.6, dataset="streets", task="detection", metric="ap")
    assert [row["tasks"] for row in ask.get(f"{PREFIX}/datasets").json()["rows"]] == [["detection"], ["classification"]]
    assert asked[1:] == [[new.id]]


def test_models_follow_the_chosen_dataset(home, client):
    evaluated(home, "demo:a@1", 0.9, 0.85, 0.95)
    letters = evaluated(home, "demo:a@1", 0.4, 0.3, 0.5, dataset="letters")
    ask = client()
    (row,) = [row for row in ask.get(f"{PREFIX}/models?measured=yes").json()["rows"] if row["ref"] == "demo:a@1"]
    assert (row["runs"], row["latest"]["id"]) == (2, letters.id)
    (row,) = ask.get(f"{PREFIX}/models?measured=yes&data=digits").json()["rows"]
    assert (row["runs"], row["latest"]["dataset"]) == (1, "digits")
    figures = ask.get(f"{PREFIX}/measured/demo:a@1?data=digits").json()["figures"]
    assert [figure["dataset"] for figure in figures] == ["digits"]
    assert ask.get(f"{PREFIX}/measured/demo:a@1?data=nothing").json()["figures"] == []
    assert ask.get(f"{PREFIX}/history/demo:a@1?data=letters").json()["runs"] == 1


def test_everything_is_found_by_its_name(home, client):
    run = evaluated(home, "demo:lenet@1", 0.9, 0.85, 0.95)
    trace = home.begin_run(
        ModelRecord("t", "demo:lenet@1", "onnx", {}), DatasetRecord("t", "trace", 1), StackRecord("t", "fake", {}, {}),
        kind=RunKind.TRACE,
    )  # fmt: skip
    ask = client()
    ask.post(f"{PREFIX}/reports", json={"title": "Why we ship lenet"})
    hits = ask.get(f"{PREFIX}/search?q=LENET").json()["rows"]
    found = {(hit["kind"], hit["page"], hit["rest"]) for hit in hits}
    assert {("model", "model", "demo:lenet@1"), ("run", "run", run.id), ("trace", "traces", trace.id)} <= found
    assert "report" in {hit["kind"] for hit in hits}
    (dataset,) = ask.get(f"{PREFIX}/search?q=digits+dataset").json()["rows"]
    assert (dataset["page"], dataset["data"]) == ("home", "digits")
    assert ask.get(f"{PREFIX}/search?q={run.id[:8]}").json()["rows"][0]["rest"] == run.id
    assert ask.get(f"{PREFIX}/search?q=").json()["rows"] == []


def test_a_folder_is_looked_into_only_where_it_is_allowed(home, client, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    assert client().get(f"{PREFIX}/folder", params={"path": str(folder)}).status_code == 403
    ask = client(allowed=(folder,))
    assert ask.get(f"{PREFIX}/folder", params={"path": str(folder)}).json() == {
        "models": [],
        "data": [],
        "left_out": [],
    }
    (folder / "net.onnx").write_bytes(b"no model")
    (row,) = ask.get(f"{PREFIX}/folder", params={"path": str(folder)}).json()["models"]
    assert (row["name"], row["described"]) == ("net.onnx", False)
    assert ask.get(f"{PREFIX}/folder", params={"path": str(folder / "..")}).status_code == 403
    assert ask.get(f"{PREFIX}/folder", params={"path": str(folder / "gone")}).status_code == 404
