"""The three values of a divergence's verdict, and causes that must add up."""

import math
from dataclasses import replace

import pytest

from zoolens.base.numerics.deviation import Deviation
from zoolens.base.verdicts import Coverage, Gap, NotKnown, Outcome
from zoolens.findings.divergence.adding_up import adding_up
from zoolens.findings.divergence.divergence_causes import Cause, Kind, Proof
from zoolens.findings.divergence.divergence_words import as_data, headline, lines
from zoolens.findings.divergence.diverging import diverge_jobs
from zoolens.findings.divergence.gates import parse_divergence_gate
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.datasets.opening import open_dataset

UNREAD = Coverage((), (Gap("the graph of B (odd)", remedy="Export it."),))


@pytest.fixture(scope="module")
def data():
    return open_dataset("demo", limit=2)


@pytest.fixture
def same(data, plain_job):
    job = plain_job(find("demo:lenet-torch"))
    return diverge_jobs(job, job, data, examined=1)


def moved(divergence, error, **changes):
    """The same comparison whose first answers are this far apart."""
    row, *others = divergence.answers.rows
    rows = (replace(row, error=error, deviation=Deviation(error)), *others)
    return replace(divergence, answers=replace(divergence.answers, rows=rows), **changes)


def test_what_two_files_say_of_a_layer_is_nought_or_not_known(same):
    assert {layer["files"] for layer in as_data(same)["layers"]} == {0.0}
    unknown = replace(same.layers[0], layer=replace(same.layers[0].layer, files=None))
    (layer,) = as_data(replace(same, layers=(unknown,)))["layers"]
    assert (layer["files"], layer["files_why"]) == (None, None)


def test_the_verdict_rests_on_all_layers_of_both_graphs(same):
    assert same.verdict.outcome is Outcome.SAME
    rounded = moved(same, 1e-9)
    assert rounded.verdict.outcome is Outcome.SAME
    assert {tally.unit for tally in rounded.verdict.coverage.tallies} == {"inputs", "layers of A", "layers of B"}
    assert as_data(rounded)["outcome"] == "same"
    assert as_data(rounded)["coverage"]["whole"] is True


@pytest.mark.parametrize(("error", "outcome"), [(0.0, Outcome.SAME), (1e-7, Outcome.NOT_KNOWN),
                                                (1e-4, Outcome.NOT_KNOWN), (0.5, Outcome.DIFFERENT)])  # fmt: skip
def test_without_a_graph_only_equal_numbers_are_the_same_and_only_large_differences_are_different(same, error, outcome):
    unread = moved(same, error, measured_floor=False, floor=1e-5, layers=(), first=None, understood=UNREAD)
    assert unread.verdict.outcome is outcome
    assert unread.agrees is (outcome is Outcome.SAME)
    if outcome is Outcome.NOT_KNOWN:
        assert "not known" in headline(unread)
        assert any("the graph of B (odd)" in line and "Export it." in line for line in lines(unread))


def test_a_floor_that_lets_anything_pass_is_not_agreement(same):
    blind = moved(same, 0.9, floor=1.5)
    assert blind.verdict.outcome is Outcome.NOT_KNOWN
    with pytest.raises(NotKnown, match="move by their own size"):
        parse_divergence_gate("unknown").verdict(blind)
    assert parse_divergence_gate("unknown").verdict(same)[0] is False


def test_a_gate_that_cannot_be_judged_neither_passes_nor_fails(same):
    with pytest.raises(NotKnown, match="max_error is not a number") as refused:
        parse_divergence_gate("max_error > 0.1").verdict(moved(same, math.nan))
    assert refused.value.exit_code == 4
    with pytest.raises(NotKnown, match="no layer was compared"):
        parse_divergence_gate("layers_beyond > 0").verdict(replace(same, layers=()))


# --- causes and proofs


def test_a_proof_must_remove_what_it_explains():
    assert Proof("changed", 1e-2, 1e-6, 1e-5).holds
    assert not Proof("changed", 6e-5, 5e-5, 1e-4).holds  # it was below the floor before
    assert not Proof("changed", 1.0, 0.9, 1.5).holds  # so is anything
    assert Proof("changed", math.inf, 1e-6, 1e-5).holds
    assert Proof("changed", 1e-2, 1e-3, 1e-5).removed == pytest.approx(0.9)


def cause(side, before, after=0.0, kind=Kind.KERNEL):
    return Cause(kind, "something", side, "layer", "layer", Proof("changed", before, after, 1e-4))


def test_a_cause_that_explains_next_to_nothing_is_withdrawn_and_the_rest_is_named():
    small, rest = adding_up([cause("B", 6e-5)], 1.0, 1e-5)
    assert not small.proved
    assert small.withdrawn == ("it removes 6.0e-05 of a difference of 1.0e+00",)
    assert (rest.kind, rest.proved) == (Kind.UNEXPLAINED, False)
    assert rest.words.startswith("1.0e+00 of the difference of 1.0e+00 is not explained")


def test_causes_that_explain_a_part_stay_beside_the_rest():
    half, rest = adding_up([cause("A", 0.5)], 1.0, 1e-5)
    assert half.proved
    assert rest.words.startswith("5.0e-01 of the difference of 1.0e+00")


@pytest.mark.parametrize(
    "causes",
    [
        [cause(None, 1.0, kind=Kind.WEIGHTS), cause("B", 6e-5)],
        [cause("A", 0.5), cause("B", 0.48)],
        [cause(None, 1.0, 1e-5, Kind.WEIGHTS), cause(None, 1.0, 1e-5, Kind.WEIGHTS)],
    ],
)
def test_causes_that_add_up_are_left_as_they_are(causes):
    assert adding_up(causes, 1.0, 1e-5) == tuple(causes)


def test_nothing_is_taken_from_an_infinite_difference():
    causes = [cause("B", math.inf)]
    assert adding_up(causes, math.inf, 1e-5) == tuple(causes)
