"""Causes that add up, and what they leave, at the limits. `make mutants` runs these."""

import math

import pytest

from zoolens.findings.divergence.adding_up import adding_up
from zoolens.findings.divergence.divergence_causes import Cause, Kind, Proof


def cause(side, before, after=0.0, **more):
    return Cause(Kind.KERNEL, "something", side, proof=Proof("changed", before, after, 1e-2), **more)


UNPROVED = Cause(Kind.KERNEL, "perhaps", "A", withdrawn=("it was tried",))


@pytest.mark.parametrize(
    ("causes", "difference", "floor"),
    [
        ([cause("A", 0.5), cause("B", 0.48)], 1.0, 1e-5),  # 2 % are left
        ([cause("A", 0.5), cause(None, 0.25), cause("B", 0.25)], 1.0, 1e-5),
        ([cause("A", 0.9)], 1.0, 1e-5),  # a tenth may be left
        ([cause("A", 0.5)], 1.0, 0.5),  # what is left is rounding
        ([cause("A", 0.5)], math.inf, 1e-5),
        ([cause("A", 0.5)], math.nan, 1e-5),
        ([UNPROVED], 1.0, 1e-5),  # nothing was proved, so that nothing is left of it
        ([Cause(Kind.RANDOM, "drawn", seen=True)], 1.0, 1e-5),
        ([], 1.0, 1e-5),
    ],
)
def test_what_adds_up_or_claims_nothing_stays(causes, difference, floor):
    assert adding_up(causes, difference, floor) == tuple(causes)


def test_what_is_left_is_named_with_its_size():
    *kept, rest = adding_up([cause("A", 0.5), cause("B", 0.25, 0.005)], 1.0, 1e-5)
    assert kept == [cause("A", 0.5), cause("B", 0.25, 0.005)]
    assert rest == Cause(
        Kind.UNEXPLAINED, "2.6e-01 of the difference of 1.0e+00 is not explained by what was found"
    )  # fmt: skip
    assert not rest.proved


def test_causes_of_one_part_share_its_proof():
    """Both remove the same half of the files' part, so that together they remove no more."""
    both = [cause(None, 0.5), cause(None, 0.5, 0.001)]
    assert adding_up(both, 1.0, 1e-5)[2].words.startswith("5.0e-01 of the difference of 1.0e+00")
    parts = [cause("A", 0.5), cause("B", 0.5, 0.001)]
    assert len(adding_up(parts, 1.0, 1e-5)) == 2


def test_a_cause_that_removes_a_tenth_or_less_is_withdrawn():
    small, large, _ = adding_up([cause("A", 0.1, withdrawn=("it was tried",)), cause("B", 0.11)], 1.0, 1e-5)
    assert small.withdrawn == ("it was tried", "it removes 1.0e-01 of a difference of 1.0e+00")
    assert (small.proof, small.proved) == (None, False)
    assert large == cause("B", 0.11)


def test_what_was_not_proved_is_left_as_it_is():
    seen = Cause(Kind.RANDOM, "drawn", seen=True)
    failed = cause("B", 0.5, 0.4)  # most of it stays
    assert not failed.proved
    found = adding_up([UNPROVED, seen, failed, cause("A", 0.2)], 1.0, 1e-5)
    assert found[:4] == (UNPROVED, seen, failed, cause("A", 0.2))
    assert found[4].words.startswith("8.0e-01 of")  # what failed explains nothing


def test_shares_are_those_of_the_difference():
    """Of 0.01 a tenth is 0.001."""
    half, tiny, rest = adding_up([cause("A", 0.005), cause("B", 0.0009, 0.00001)], 0.01, 1e-6)
    assert half.proved
    assert tiny.withdrawn == ("it removes 8.9e-04 of a difference of 1.0e-02",)
    assert rest.words.startswith("4.1e-03 of the difference of 1.0e-02")
