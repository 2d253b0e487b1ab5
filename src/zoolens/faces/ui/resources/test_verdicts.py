"""The contract of pages that judge: same, different or not known, with coverage; totals that are lower bounds; marks
on figures that rest on guesses or were disturbed."""

import json
from dataclasses import replace

import pytest

pytest.importorskip("starlette")

import numpy as np

from zoolens.base.store.records import DISTURBED, DatasetRecord, ModelRecord, Observation, StackRecord
from zoolens.base.verdicts import Coverage, Gap, Tally, judged
from zoolens.faces.ui.endpoint import PREFIX
from zoolens.faces.ui.jobs.folder import make_job_folder
from zoolens.faces.ui.network_reader import comparison_data, layout_data
from zoolens.faces.ui.resources.networks import Network
from zoolens.faces.ui.test_app import client, home
from zoolens.findings.comparisons.conftest import one_hot, write_run
from zoolens.findings.graph.diff.conftest import resnet
from zoolens.findings.graph.diff.report import diff
from zoolens.findings.graph.ir.model import Graph, Node

__all__ = ["client", "home"]  # fixtures
LABELS = np.arange(20) % 4
PARTIAL = Coverage((Tally("layers", 6, 7),), (Gap("operator Swirl in B", 1, "Export it."),))
WHOLE = Coverage((Tally("layers", 7, 7),))
GUESSES = ["pixels are scaled to 0…1"]


def test_a_comparison_of_runs_without_answers_is_not_known(home, client):
    a = write_run(home, "a", one_hot(LABELS, 4), LABELS)
    alike = write_run(home, "a", one_hot(LABELS, 4), LABELS, runtime="another")
    other = write_run(home, "a", one_hot((LABELS + 1) % 4, 4), LABELS, runtime="third")
    timed = [home.begin_run(a.model, a.dataset, StackRecord(name, name, {}, {})) for name in ("one", "two")]
    for run in timed:
        home.finish_stage(run.id, "latency:batch=1", [Observation("latency_p50", 0.1, scope="batch=1", unit="s")])
    ask = client()
    for first, second, outcome in ((a, alike, "same"), (a, other, "different"), (*timed, "not known")):
        answer = ask.get(f"{PREFIX}/comparison", params={"a": first.id, "b": second.id})
        assert answer.status_code == 200, answer.text
        verdict = answer.json()["judged"]
        assert verdict["outcome"] == outcome
        assert ("answers of B" in verdict["coverage"]) == (outcome == "not known")
        assert bool(verdict["words"])
    assert ask.get(f"{PREFIX}/comparison", params={"a": a.id, "b": a.id}).json()["judged"] is None


def ended(kind, printed):
    job = make_job_folder(kind, "title", {}, [kind])
    job.output_file.write_text(json.dumps(printed))
    job.write_end(0)
    return job.id


def divergence(**verdict):
    side = {"title": "m", "runtime": "r", "version": "1", "precision": "float32", "layers": 0}
    return {
        "a": side, "b": side, "data": "d", "agrees": False, "verdict": "A sentence.", "first": None, "floor": "",
        "sentences": [], "causes": [], "layers": [], "answers": {"inputs": 1, "flips": 0, "flipped": []}, **verdict,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("coverage", "different", "outcome"),
    [(WHOLE, False, "same"), (PARTIAL, True, "different"), (PARTIAL, False, "not known")],
)
def test_a_divergence_has_the_outcome_and_the_coverage_that_were_printed(home, client, coverage, different, outcome):
    verdict = judged(coverage, different=different).as_data()
    found = client().get(f"{PREFIX}/divergences/{ended('diverge', divergence(**verdict))}").json()
    assert found["judged"]["outcome"] == outcome
    assert ("operator Swirl" in found["judged"]["coverage"]) == (coverage is PARTIAL)
    assert found["judged"]["remedies"] == (["Export it."] if coverage is PARTIAL else [])


def test_a_divergence_of_an_earlier_version_claims_no_outcome(home, client):
    found = client().get(f"{PREFIX}/divergences/{ended('diverge', divergence(agrees=True))}").json()
    assert found["judged"] == {"outcome": None, "words": "A sentence.", "coverage": "", "remedies": []}


def test_an_audit_that_could_not_read_a_network_is_not_known(home, client):
    facts = {"facts": {"summary": "1 name."}, "notes": [], "architectures": [], "findings": []}
    for coverage, different, outcome in ((PARTIAL, False, "not known"), (PARTIAL, True, None), (WHOLE, False, None)):
        printed = {**facts, **judged(coverage, different=different).as_data()}
        found = client().get(f"{PREFIX}/audits/{ended('audit', printed)}").json()["judged"]
        assert found["outcome"] == outcome
        assert ("operator Swirl" in found["coverage"]) == (coverage is PARTIAL)


# --- networks


def with_an_odd_operator(graph):
    """The same graph with an operator that nobody knows before its output."""
    last = graph.nodes[-1]
    odd = Node("odd", "unknown", (last.name,), last.shape, {"operator": "com.example:Swirl"})
    return Graph("net", (*graph.nodes, odd), ("odd",))


def test_a_network_with_an_operator_that_nobody_knows_costs_at_least_what_is_counted():
    answer = Network.model_validate(layout_data(with_an_odd_operator(resnet()), "net"))
    assert answer.macs_words.startswith("≥ ")
    assert answer.heats[-1] == "not known"
    costs = [part.costs[0] for stage in answer.stages for part in stage.parts]
    assert [cost.words for cost in costs if cost and cost.heat == len(answer.heats) - 1] == ["not known"]
    holding = answer.stages[-1].costs[0]
    assert holding is not None
    assert holding.words.startswith("≥ ")
    known = Network.model_validate(layout_data(resnet(), "net"))
    assert "not known" not in known.heats
    assert not any("≥" in cost.words for stage in known.stages for cost in stage.costs if cost)


def test_two_networks_that_are_not_understood_are_not_known():
    odd = with_an_odd_operator(resnet())
    data = comparison_data(diff(odd, odd, names=("a", "b")))
    assert data["judged"]["outcome"] == "not known"
    assert data["judged"]["coverage"]["not_understood"]
    assert comparison_data(diff(resnet(), resnet(), names=("a", "b")))["judged"]["outcome"] == "same"
    assert "not known" in {part["state"] for part in data["parts"]}


def test_one_file_is_the_same_whatever_is_understood():
    odd = with_an_odd_operator(resnet())
    data = comparison_data(replace(diff(odd, odd, names=("a", "b")), one_file=True))
    assert data["judged"]["outcome"] == "same"
    assert {part["state"] for part in data["parts"]} == {"same"}


# --- figures


@pytest.fixture
def guessed(home):
    manifest = {"attributes": {"guessed": GUESSES}}
    model, data = ModelRecord("m", "zoo:drafted@1", "onnx", {}), DatasetRecord("d", "digits", 10)
    run = home.begin_run(model, data, StackRecord("s", "fake", {}, {}), resolved={"origin": {"manifest": manifest}})
    top1 = Observation("top1", 0.5, unit="fraction", low=0.4, high=0.6)
    home.finish_stage(run.id, "metric:topk", [top1])
    home.finish_stage(run.id, "size", [Observation("file_size", 9e3, unit="B"), Observation("parameters", 7.0)])
    timing = Observation("latency_p50", 0.1, scope="batch=1", unit="s", details={DISTURBED: True})
    home.finish_stage(run.id, "latency:batch=1", [timing])
    return run


def test_a_figure_that_rests_on_guesses_is_marked_on_every_page(home, client, guessed):
    ask = client()
    run = ask.get(f"{PREFIX}/runs/{guessed.id}").json()
    words = {figure["metric"]: figure["words"] for figure in run["figures"]}
    assert words["top1"] == "50.0 % (guessed)"
    assert not [name for name, text in words.items() if name != "top1" and "guessed" in text]
    assert any("rests on guesses (pixels are scaled to 0…1)" in note for note in run["notes"])
    assert run["tiles"][0]["figure"] == "50.0 % [40.0, 60.0] (guessed)"
    (listed,) = ask.get(f"{PREFIX}/runs").json()["rows"]
    assert listed["judged"]["interval"] == "50.0 % [40.0, 60.0] (guessed)"
    page = ask.get(f"{PREFIX}/runs/{guessed.id}/observations").json()
    assert {row["stage"] for row in page["rows"]} == {"metric:topk", "size", "latency:batch=1"}


def test_what_was_checked_since_is_not_marked(home, client, guessed):
    home.set_resolved(guessed.id, {"guessed": []})
    figures = client().get(f"{PREFIX}/runs/{guessed.id}").json()["figures"]
    assert not any("guessed" in figure["words"] for figure in figures)
