"""Verifications as they are read again, and the evidence that is computed anew."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from zoolens.base.store.store import open_store
from zoolens.base.verdicts.verdict import Outcome
from zoolens.findings.endpoints.endpoint_charts import distance_chart, evidence_chart, verdicts_chart
from zoolens.findings.endpoints.endpoint_history import evidence_of, prompts_of, read_verification, verifications
from zoolens.findings.endpoints.questions import By
from zoolens.testing.endpoint_runs import Teller, verification_run


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def read(store, run):
    found = read_verification(run)
    prompts = prompts_of(store, run)
    return found, prompts, evidence_of(found, prompts)


def test_a_line_that_decides_reaches_the_border_with_the_last_prompt(store):
    found, prompts, evidence = read(store, verification_run(store, {"file:own": 0.001}))
    assert found.outcome is Outcome.SAME
    assert (found.prompts, found.by) == (len(prompts), By.LOGPROBS)
    ends = {kind: line[-1] for kind, line in evidence.other.items()}
    assert min(ends.values()) >= evidence.decides
    assert min(line[-2] for line in evidence.other.values()) < evidence.decides
    assert evidence.against[-1] < 0


def test_a_rejected_model_is_the_line_that_reaches_it(store):
    run = verification_run(store, {"file:zeta": 0.2, "file:alpha": 0.001})
    found, prompts, evidence = read(store, run)
    assert found.outcome is Outcome.DIFFERENT
    assert list(found.models) == ["file:zeta", "file:alpha"]
    assert max(evidence.against) >= evidence.decides == pytest.approx(2)
    assert all(prompt.distances[0] > prompt.distances[1] for prompt in prompts)


def test_evidence_that_cannot_be_computed_again_is_not_known(store):
    run = verification_run(store, {"file:own": 0.001})
    found, prompts, _ = read(store, run)
    changed = [*prompts[:3], replace(prompts[3], against=prompts[3].against + 0.1), *prompts[4:]]
    assert evidence_of(found, changed).other == {}
    tokens, chosen, evidence = read(store, verification_run(store, {"file:own": 0.0}, Teller(by=By.TOKENS), most=12))
    assert (tokens.outcome, evidence.other) == (Outcome.NOT_KNOWN, {})
    assert distance_chart(tokens, chosen) is None
    assert "any other model" not in str(evidence_chart(tokens, evidence).spec)


def test_prompts_of_which_too_little_was_told_confirm_nobody(store):
    told, _, known = read(store, verification_run(store, {"file:own": 0.001}, most=28))
    found, prompts, evidence = read(store, verification_run(store, {"file:own": 0.001}, Teller(untold=10), most=28))
    assert [math.isnan(prompt.distances[0]) for prompt in prompts].count(True) == 10
    assert all(evidence.other[kind][-1] < known.other[kind][-1] for kind in evidence.other)
    assert len(distance_chart(found, prompts).spec["layer"][1]["data"]["values"]) == 18
    assert told.outcome is Outcome.NOT_KNOWN


def test_verdicts_of_an_earlier_version_say_less(store):
    run = verification_run(store, {"file:own": 0.001})
    told = {name: value for name, value in run.resolved["verification"].items() if name not in ("by", "limits")}
    store.set_resolved(run.id, {"verification": told})
    found = read_verification(store.run(run.id))
    assert (found.by, found.limits) == (None, ())
    assert evidence_of(found, prompts_of(store, run)).other == {}


def test_all_are_listed_and_charted_with_their_outcome(store):
    for distance in (0.001, 0.3, 0.001):
        verification_run(store, {"file:own": distance})
    known = verifications(store)
    assert [found.outcome.value for found in known] == ["same", "different", "same"]
    rows = verdicts_chart(known, [0.0, 2.5, 0.0]).spec["layer"][1]["data"]["values"]
    assert [row["of"] for row in rows] == ["it is the model", "it is not", "it is the model"]


def test_each_error_level_has_a_line_of_its_own(store):
    first, second = (read_verification(verification_run(store, {"file:own": 0.001}, most=3)) for _ in range(2))
    looser = replace(second, settings={**second.settings, "error": 0.1})
    same, mixed = (verdicts_chart((first, other), [0.5, 1.5]).spec for other in (second, looser))
    assert (len(same["layer"]), len(mixed["layer"])) == (2, 3)
    assert [layer["data"]["values"][0]["y"] for layer in mixed["layer"][:2]] == [2.0, 1.0]
