"""Endpoints that were asked which model they have, as pages are told of them."""

import pytest

pytest.importorskip("starlette")

from zoolens.faces.ui.endpoint import PREFIX
from zoolens.faces.ui.test_app import client, home
from zoolens.findings.endpoints.questions import By
from zoolens.testing.endpoint_runs import Teller, verification_run
from zoolens.testing.store_records import begin

__all__ = ["client", "home"]  # fixtures

THERE, ELSEWHERE = "http://127.0.0.1:8080/v1", "https://models.example/v1"


@pytest.fixture
def runs(home):
    honest = verification_run(home, {"file:own": 0.001}, Teller(stated={"owned_by": "llamacpp", "n_params": 134515008}))
    swapped = verification_run(home, {"file:own": 0.2, "file:other": 0.001})
    tokens = verification_run(home, {"file:own": 0.0}, Teller(ELSEWHERE, By.TOKENS), most=12)
    return honest.id, swapped.id, tokens.id


def test_each_endpoint_is_listed_once_with_its_newest_verdict(client, runs):
    told = client().get(f"{PREFIX}/endpoints").json()
    assert told["total"] == 2
    newest = {row["newest"]["address"]: (row["newest"]["outcome"], row["verifications"]) for row in told["rows"]}
    assert newest == {THERE: ("different", 2), ELSEWHERE: ("not known", 1)}
    (second,) = client().get(f"{PREFIX}/endpoints", params={"offset": 1}).json()["rows"]
    assert second["newest"]["address"] == THERE


def test_a_verification_tells_its_evidence_and_what_was_found_before(client, runs):
    honest, swapped, _ = runs
    told = client().get(f"{PREFIX}/endpoints/{swapped}").json()
    assert told["verdict"]["outcome"] == "different"
    assert told["verdict"]["words"].startswith("It is not file:own: at ")
    assert [row[:2] for row in told["models"]["rows"]] == [["file:own", "rejected"], ["file:other", "fits"]]
    assert [row["run"] for row in told["history"]] == [swapped, honest]
    assert told["evidence_known"]
    assert told["distances"]
    assert told["verdicts"]
    assert {"name": "about its model", "value": "it states nothing"} in told["told"]
    assert told["stated"] == []
    stated = client().get(f"{PREFIX}/endpoints/{honest}").json()["stated"]
    assert {"name": "owned_by", "value": "llamacpp"} in stated


def test_what_tokens_do_not_tell_is_not_shown(client, runs):
    told = client().get(f"{PREFIX}/endpoints/{runs[2]}").json()
    assert (told["distances"], told["verdicts"], told["evidence_known"]) == (None, None, False)
    assert told["models"]["rows"][0][3:] == ["–", "–"]
    assert told["told"][0]["value"] == "none were compared: only the tokens that it chose"
    assert told["limits"][0].startswith("Tokens alone")


def test_an_asking_that_ended_early_says_how_much_was_told(client, home):
    run = verification_run(home, {"file:own": 0.001}, Teller(untold=4, failure="It does not answer."), most=20)
    facts = {fact["name"]: fact["value"] for fact in client().get(f"{PREFIX}/endpoints/{run.id}").json()["told"]}
    assert facts["log-probabilities"] == "enough of them for 16 of 20 prompts"
    assert facts["not told"] == "4 prompts: it refused them, or told too few likely tokens"
    assert facts["asking ended early"] == "It does not answer."


def test_the_run_of_a_verification_has_no_classes(client, runs):
    told = client().get(f"{PREFIX}/runs/{runs[0]}").json()
    assert (told["run"]["kind"], told["of_classes"], told["has_classes"]) == ("verification", False, False)
    assert "evidence against" in [figure["title"] for figure in told["figures"]]


def test_another_run_is_no_verification(client, home):
    answer = client().get(f"{PREFIX}/endpoints/{begin(home).id}")
    assert answer.status_code == 404
    assert "is no verification of an endpoint" in answer.text
