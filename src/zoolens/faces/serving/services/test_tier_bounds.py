"""What is promised of a tier holds, whatever is not known of its answers."""

from pathlib import Path

import pytest

from zoolens.base.store.store import open_store
from zoolens.base.verdicts import Outcome
from zoolens.faces.serving.contracts.ladder import LatencyProfile, Rung
from zoolens.faces.serving.services.candidate_outcomes import outside_the_bound, promised_outcome
from zoolens.faces.serving.services.definition import Service, ServiceError
from zoolens.faces.serving.services.frozen_ladder import FrozenLadder, HeldRung, check_promises
from zoolens.faces.serving.services.tier_bounds import TierAgreement, TierBounds
from zoolens.findings.queries.query import query
from zoolens.inventory.tasks.task import task_named
from zoolens.testing.language_model_runs import scored, with_other_rests, written_book

PROFILE = LatencyProfile({1: 1.0})
TRUE = 0.8  # how far the two language models agree


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Two language models with the same most likely tokens everywhere, whose other tokens are not the same."""
    folder = tmp_path_factory.mktemp("rests")
    book = written_book(folder, "AB HELLO WORLD\nWHAT IS IT?\n1234 AB+CD, ABBA\n" * 20, 24)
    with open_store(folder / "store.sqlite") as opened:
        for name, scores in zip(("one", "two"), with_other_rests(book, 8, 1 - TRUE), strict=True):
            scored(opened, book, name, scores)
        yield opened


def asked(store, within):
    return query(ref="file:one", within=within, task="language-model", store=store)


def service(within, **settings):
    return Service(reference="file:one", within=within, texts={"prompt": 8, "answer": 8}, **settings)


def test_a_promise_of_a_language_model_is_not_above_the_truth(store):
    answer = asked(store, 0.5)
    agreement = TierBounds(answer).of(answer.matches[0])
    assert agreement.equivalence == pytest.approx(1, abs=1e-6)
    assert agreement.least == pytest.approx(TRUE, abs=1e-6)
    assert 0.6 < agreement.lower < TRUE


@pytest.mark.parametrize(
    ("within", "confidence", "outcome"),
    [
        (0.5, 0.95, Outcome.SAME), (0.79, 0.95, Outcome.NOT_KNOWN), (0.9, 0.95, Outcome.NOT_KNOWN),
        (0.79, None, Outcome.SAME), (0.9, None, Outcome.NOT_KNOWN),
    ],
)  # fmt: skip
def test_a_tier_is_known_to_keep_what_its_least_agreement_keeps(store, within, confidence, outcome):
    answer = asked(store, 0.5)
    agreement = TierBounds(answer, confidence).of(answer.matches[0])
    assert promised_outcome(service(within, confidence=confidence), agreement) is outcome


def test_of_a_model_that_may_agree_too_little_it_is_not_known(store):
    (left_out,) = outside_the_bound(asked(store, 0.9), service(0.9))
    assert left_out.outcome is Outcome.NOT_KNOWN
    assert left_out.reason == "Equivalence_least is 80 %, 10 points below 90 %."
    assert "top: 1000" in left_out.remedy


def test_a_model_that_surely_agrees_too_little_is_another():
    assert promised_outcome(service(0.9), TierAgreement(0.85, 0.3, 0.6)) is Outcome.DIFFERENT


@pytest.mark.parametrize(("lower", "least", "promised"), [(0.7, 0.8, 0.7), (None, 0.8, 0.8), (None, None, 0.9)])
def test_floors_are_held_against_the_least_that_is_known(lower, least, promised):
    rung = Rung("two", "llamacpp", 0.9, lower, LatencyProfile({1: 1.0}), equivalence_least=least)
    assert rung.promised == promised


def test_ladders_of_language_models_that_promised_too_much_are_refused():
    """With texts or without them."""
    language, classes = task_named("language-model"), task_named("classification")

    def frozen(least):
        rungs = (
            Rung("one", "torch", 1.0, 1.0, PROFILE),
            Rung("two", "torch", 0.9, 0.8, PROFILE, equivalence_least=least),
        )
        return FrozenLadder(Path("ladders.json"), tuple(HeldRung(rung, "run") for rung in rungs))

    check_promises(frozen(0.7), "writer", language)
    check_promises(frozen(None), "writer", classes)
    with pytest.raises(ServiceError, match="promised too much"):
        check_promises(frozen(None), "writer", language)
