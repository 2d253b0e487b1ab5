"""/comparison without a browser."""

import json

import pytest

pytest.importorskip("starlette")

import numpy as np

from zoolens.base.store.records import Observation
from zoolens.faces.ui.endpoint import PREFIX
from zoolens.faces.ui.jobs.folder import make_job_folder
from zoolens.faces.ui.test_app import client, home, measured
from zoolens.findings.comparisons.compare import compare_runs
from zoolens.findings.comparisons.conftest import one_hot, write_run
from zoolens.findings.comparisons.report_page import verdict
from zoolens.findings.measure.predictions import KIND

__all__ = ["client", "home"]  # fixtures
LABELS = np.arange(20) % 4
WRONG = np.where(np.arange(20) < 3, (LABELS + 1) % 4, LABELS)


@pytest.fixture
def pair(home):
    """One model in two stacks, which answer three of twenty inputs differently."""
    right = write_run(home, "a", one_hot(LABELS, 4), LABELS)
    wrong = write_run(home, "a", one_hot(WRONG, 4, sure=0.6), LABELS, runtime="another")
    for run, times in ((right, (1.0, 0.9, 1.1)), (wrong, (1.05, 1.0, 1.2))):
        value, low, high = times
        home.finish_stage(
            run.id, "latency", [Observation("latency_p50", value, scope="batch=1", unit="s", low=low, high=high)]
        )
    home.finish_stage(right.id, "size", [Observation("file_size", 10.0, unit="B")])
    return right, wrong


def test_a_comparison_says_what_the_command_says(home, client, pair):
    a, b = pair
    report = compare_runs(home, a, b)
    answer = client().get(f"{PREFIX}/comparison", params={"a": a.id, "b": b.id[:8]}).json()
    assert answer["verdict"] == verdict(report)
    assert (answer["a"]["id"], answer["b"]["id"]) == (a.id, b.id)
    assert {"figure": "3", "title": "only A correct"} in answer["tiles"]
    assert (answer["differing"], answer["parts_by_stack"], answer["answered"], answer["labelled"]) == (
        3,
        True,
        True,
        True,
    )
    assert answer["cause"] == report.cause
    assert not answer["cause_in_files"]
    assert [line["what"] for line in answer["environment"]] == [line.what for line in report.environment]
    assert len(answer["flips_chart"]["data"]["values"]) == 3
    assert answer["changed_classes"] == len(answer["classes"]) == 3
    figures = {row["metric"]: row for row in answer["figures"]}
    assert (figures["latency_p50"]["change"], figures["latency_p50"]["overlap"]) == ("+5.0 %", True)
    assert (figures["file_size"]["a"]["value"], figures["file_size"]["b"]) == (10.0, None)


def test_a_comparison_says_who_is_better_and_where(home, client, pair):
    a, b = pair
    answers = compare_runs(home, a, b).answers
    answer = client().get(f"{PREFIX}/comparison", params={"a": a.id, "b": b.id}).json()
    difference = answer["difference"]
    assert (difference["metric"], difference["unit"], difference["clear"]) == ("top-1 accuracy", "points", False)
    assert difference["more_is_better"]
    shown = [difference[name] for name in ("value", "low", "high")]
    assert shown == pytest.approx([-15.0, *(100 * end for end in answers.difference)])
    assert [(row["outcome"], row["inputs"]) for row in answer["outcomes"]] == [
        ("both right", 17), ("only A right", 3), ("only B right", 0), ("both wrong", 0),
    ]  # fmt: skip
    assert [(row["title"], row["part"]) for row in answer["key_figures"]] == [("median latency", "one input at a time")]


def test_without_labels_nobody_is_better(home, client):
    unknown = np.full(20, -1)
    a, b = (write_run(home, name, one_hot(rows, 4), unknown) for name, rows in (("a", LABELS), ("b", WRONG)))
    answer = client().get(f"{PREFIX}/comparison", params={"a": a.id, "b": b.id}).json()
    assert answer["difference"] is None
    assert [(row["outcome"], row["inputs"]) for row in answer["outcomes"]] == [
        ("same answer", 17), ("different answers", 3),
    ]  # fmt: skip


def test_the_files_of_two_models_are_left_to_a_job(home, client, pair):
    other = write_run(home, "b", one_hot(WRONG, 4), LABELS)
    answer = client().get(f"{PREFIX}/comparison", params={"a": pair[0].id, "b": other.id}).json()
    assert (answer["cause"], answer["cause_in_files"], answer["parts_by_stack"]) == ("", True, False)


def test_what_nothing_explains_is_not_said_to_be_in_the_files(home, client, pair):
    twice = home.begin_run(pair[0].model, pair[0].dataset, pair[0].stack, attempt=1)
    home.add_part(twice.id, KIND, 0, home.table(pair[1].id, KIND))
    home.finish_stage(twice.id, "predictions")
    answer = client().get(f"{PREFIX}/comparison", params={"a": pair[0].id, "b": twice.id}).json()
    assert (answer["cause"], answer["cause_in_files"], answer["parts_by_stack"]) == ("", False, True)


def test_a_run_is_the_same_as_itself(client, pair):
    answer = client().get(f"{PREFIX}/comparison", params={"a": pair[0].id, "b": pair[0].id}).json()
    assert answer["verdict"] == "A and B are the same run."
    assert (answer["differing"], answer["cause"], answer["cause_in_files"]) == (0, "", False)


def test_runs_on_other_inputs_and_runs_that_are_not_there_are_refused(home, client, pair):
    ask = client()
    other = measured(home, "demo:a@1", dataset="letters")
    refused = ask.get(f"{PREFIX}/comparison", params={"a": pair[0].id, "b": other.id})
    assert refused.status_code == 400
    assert "only runs on the same inputs" in refused.json()["error"]
    assert ask.get(f"{PREFIX}/comparison", params={"a": pair[0].id, "b": "0" * 16}).status_code in (400, 404)
    assert ask.get(f"{PREFIX}/comparison", params={"a": pair[0].id, "b": "/etc/passwd"}).status_code in (400, 404)


def test_a_finding_is_of_the_two_runs_that_are_asked_for(client, pair):
    ask = client()
    a, b = (run.id for run in pair)
    found = make_job_folder("diverge", "Diverge", {"a": a, "b": b}, ["diverge"])
    asked = {"job": found.id, "a": a, "b": b}
    assert ask.get(f"{PREFIX}/comparison/finding", params=asked).json()["error"].startswith("This job ")
    proof = {"sentence": "with exact weights nothing is left", "holds": True}
    causes = [
        {"sentence": "other weights", "proved": True, "proof": proof},
        {"sentence": "another kernel", "proved": False, "proof": {**proof, "holds": False}},
    ]
    found.output_file.write_text(
        json.dumps({"verdict": "They differ.", "causes": causes, "notes": []}), encoding="utf-8"
    )
    found.write_end(0)
    assert ask.get(f"{PREFIX}/comparison/finding", params=asked).json()["sentences"] == [
        "They differ.",
        "Cause: other weights.",
        "Proof: with exact weights nothing is left.",
        "Suspected, not proved: another kernel.",
    ]
    swapped = ask.get(f"{PREFIX}/comparison/finding", params={"job": found.id, "a": b, "b": a})
    assert (swapped.status_code, swapped.json()["error"]) == (404, "This job is about other runs.")
