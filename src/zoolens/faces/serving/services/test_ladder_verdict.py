"""A check that cannot tell says so, and a promise that nobody can keep fails it."""

from dataclasses import replace

import pytest

from zoolens.base.verdicts import Outcome
from zoolens.faces.serving.contracts.ladder import Ladder, LatencyProfile
from zoolens.faces.serving.services.candidate_outcomes import Excluded
from zoolens.faces.serving.services.definition import Service
from zoolens.faces.serving.services.ladder_query import LadderBuilder
from zoolens.faces.serving.services.ladder_verdict import candidates_verdict, checked_data, ladder_verdict
from zoolens.faces.serving.services.ladder_words import described, left_out

pytestmark = pytest.mark.usefixtures("trusted_models")
UNKNOWN = Excluded("zoo:other@1", "onnxruntime", "It was not evaluated.", Outcome.NOT_KNOWN, "Evaluate it.")
OUTSIDE = Excluded("zoo:far@1", "onnxruntime", "Equivalence is 10 %.", Outcome.DIFFERENT)


@pytest.fixture(scope="module")
def built(measured_store, quick):
    service = Service(reference="demo:lenet-wide", within=0.8, batch={"size": 1}, where="name = 'mlp-wide'")
    return LadderBuilder("fashion", service, measured_store, latency=quick).build()


def with_times(built, low, high, excluded=(), **settings):
    profile = LatencyProfile({1: (low + high) / 2}, {1: low}, {1: high})
    rungs = tuple(replace(rung, profile=profile, memory_bytes=60_000_000) for rung in built.ladder.rungs)
    service = Service(**{**built.service.model_dump(exclude_defaults=True), **settings})
    return replace(built, service=service, ladder=Ladder(rungs), excluded=tuple(excluded))


@pytest.mark.parametrize(
    ("low", "high", "outcome", "words"),
    [
        (0.001, 0.002, Outcome.SAME, None),
        (0.02, 0.03, Outcome.DIFFERENT, "No tier answers within 10 ms: the quickest tier, "),
        (0.002, 0.03, Outcome.NOT_KNOWN, "Whether any tier answers within 10 ms is not known: the quickest tier, "),
    ],
)
def test_a_latency_bound(built, low, high, outcome, words):
    found = ladder_verdict(with_times(built, low, high, objectives={"latency": {"bound": "10 ms"}}))
    assert found.verdict.outcome is outcome
    assert found.sentences == () if words is None else found.sentences[0].startswith(words)


@pytest.mark.parametrize(("limit", "outcome"), [("1 GB", Outcome.SAME), ("1 MB", Outcome.DIFFERENT)])
def test_a_memory_limit(built, limit, outcome):
    ladder = with_times(built, 0.1, 0.1, policy={"name": "memory", "limit": limit})
    assert ladder_verdict(ladder).verdict.outcome is outcome
    unmeasured = tuple(replace(rung, memory_bytes=None) for rung in ladder.ladder.rungs)
    unknown = ladder_verdict(replace(ladder, ladder=Ladder(unmeasured)))
    assert unknown.verdict.outcome is Outcome.NOT_KNOWN


def test_a_limit_in_a_file(built, tmp_path):
    file = tmp_path / "memory.max"
    file.write_text("1000")
    ladder = with_times(built, 0.1, 0.1, memory_limit_file=str(file))
    assert ladder_verdict(ladder).verdict.outcome is Outcome.DIFFERENT
    file.write_text("max")
    assert ladder_verdict(ladder).verdict.outcome is Outcome.SAME


def test_a_model_that_was_not_judged_matters_where_nobody_else_could_answer(built):
    settings = {"objectives": {"latency": {"bound": "10 s"}}}
    several = with_times(built, 0.1, 0.1, [UNKNOWN, OUTSIDE], **settings)
    assert ladder_verdict(several).verdict.outcome is Outcome.SAME
    assert candidates_verdict(several).outcome is Outcome.NOT_KNOWN  # --fail-on unknown
    alone = replace(several, ladder=Ladder(several.ladder.rungs[:1]), candidates=several.candidates[:1])
    assert ladder_verdict(alone).verdict.outcome is Outcome.NOT_KNOWN
    assert ladder_verdict(replace(alone, excluded=(OUTSIDE,))).verdict.outcome is Outcome.SAME
    assert candidates_verdict(replace(alone, excluded=(OUTSIDE,))).outcome is Outcome.SAME
    data = checked_data(alone)
    assert (data["outcome"], data["coverage"]["whole"]) == ("not known", False)
    assert [other["outcome"] for other in data["excluded"]] == ["not known", "different"]


@pytest.mark.parametrize(
    ("equivalence", "lower", "confidence", "outcome"),
    [
        (0.9, 0.85, None, "same"),
        (0.9, 0.85, 0.95, "same"),
        (0.9, 0.79, 0.95, "not known"),  # more inputs may prove it
        (0.9, 0.79, None, "same"),
        (0.7, 0.6, None, "different"),
        (0.7, 0.6, 0.95, "different"),
    ],
)
def test_a_rung_keeps_the_promise_of_equivalence_only_where_that_is_measured(
    built, equivalence, lower, confidence, outcome
):
    """A fallback that the definition names is a tier however little it is equivalent."""
    bound = {"latency": {"bound": "10 s"}}
    ladder = with_times(built, 0.1, 0.1, [UNKNOWN], confidence=confidence, objectives=bound)
    rung = replace(ladder.ladder.rungs[1], equivalence=equivalence, equivalence_lower=lower)
    ladder = replace(ladder, ladder=Ladder((ladder.ladder.rungs[0], rung)))
    assert [told["outcome"] for told in checked_data(ladder)["rungs"]] == ["same", outcome]
    of_all = Outcome.SAME if outcome == "same" else Outcome.NOT_KNOWN
    assert ladder_verdict(ladder).verdict.outcome is of_all


def test_what_is_left_out_is_said_in_an_order(built):
    same = Excluded("zoo:slow@1", "onnxruntime", "It is no cheaper.", Outcome.SAME)
    many = [OUTSIDE] * 7
    sentences = list(left_out(with_times(built, 0.1, 0.1, [*many, UNKNOWN, same])))
    assert sentences[0] == "Not used: zoo:slow@1 in onnxruntime. It is no cheaper."
    assert sentences[1] == "Unknown: zoo:other@1 in onnxruntime. It was not evaluated. Evaluate it."
    assert sentences[-1] == "Not within the bound: 2 more (--check --json lists them)."
    assert "Unknown: zoo:other@1. It was not evaluated." in described(with_times(built, 0.1, 0.1, [UNKNOWN, OUTSIDE]))
    assert "zoo:far" not in described(with_times(built, 0.1, 0.1, [OUTSIDE]))


def test_an_event_names_few_of_many_models_that_were_left_out_for_one_reason(built):
    unread = [replace(UNKNOWN, model=f"zoo:m{place}@1") for place in range(15)]
    text = described(with_times(built, 0.1, 0.1, unread))
    assert "Unknown: zoo:m0@1, zoo:m1@1, zoo:m2@1 and 12 more. It was not evaluated." in text
    assert len(text) < 1000  # of which pages show no more
