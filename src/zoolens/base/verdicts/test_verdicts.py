"""A verdict is "same" only where everything was understood."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoolens.base.errors import GateFailed
from zoolens.base.verdicts import (
    Coverage,
    Gap,
    NotKnown,
    Outcome,
    Tally,
    UnknownGate,
    Verdict,
    at_least,
    combined,
    enforce,
    judged,
    refuse_unknown,
)
from zoolens.base.verdicts.coverage import coverage_of

WHOLE = Coverage((Tally("layers", 7, 7),))
PARTIAL = Coverage((Tally("layers", 6, 7), Tally("MACs", 12, None)), (Gap("operator Swirl in B", 1, "Export it."),))
coverages = st.builds(
    Coverage,
    st.lists(
        st.integers(0, 9).flatmap(lambda n: st.builds(Tally, st.just("layers"), st.integers(0, n), st.just(n))),
        max_size=2,
    ).map(tuple),
    st.lists(st.builds(Gap, st.sampled_from(["x", "y"])), max_size=2).map(tuple),
)


@given(coverages)
def test_coverage_is_read_back_from_what_was_printed(coverage):
    units = [tally.unit for tally in coverage.tallies]
    if len(set(units)) == len(units):
        assert coverage_of(json.loads(json.dumps(coverage.as_data()))) == coverage


@given(coverages, st.booleans())
def test_the_rule(coverage, different):
    outcome = judged(coverage, different=different).outcome
    if different:
        assert outcome is Outcome.DIFFERENT
    else:
        assert outcome is (Outcome.SAME if coverage.whole else Outcome.NOT_KNOWN)


@given(st.lists(st.tuples(coverages, st.booleans()), max_size=4))
def test_a_whole_is_known_only_through_all_of_its_parts(parts):
    verdicts = [judged(coverage, different=different) for coverage, different in parts]
    outcome = combined(verdicts).outcome
    if any(different for _, different in parts):
        assert outcome is Outcome.DIFFERENT
    else:
        assert (outcome is Outcome.SAME) == (bool(parts) and all(coverage.whole for coverage, _ in parts))


def test_nothing_looked_at_is_not_agreement():
    assert judged(Coverage(), different=False).outcome is Outcome.NOT_KNOWN
    assert judged(Coverage((Tally("layers", 0, 0),)), different=False).outcome is Outcome.NOT_KNOWN
    assert combined([]).outcome is Outcome.NOT_KNOWN


def test_the_same_cannot_be_said_of_partial_coverage():
    with pytest.raises(ValueError, match="partial"):
        Verdict(Outcome.SAME, PARTIAL)
    with pytest.raises(ValueError, match="cannot have been understood"):
        Tally("layers", 3, 2)


def test_words_and_data():
    assert PARTIAL.text == (
        "Understood: 6 of 7 layers, 12 MACs of a total that is not known. Not understood: operator Swirl in B."
    )
    assert judged(PARTIAL, different=False).as_data() == {
        "outcome": "not known",
        "coverage": {
            "whole": False,
            "understood": {
                "layers": {"understood": 6, "total": 7, "share": 6 / 7},
                "MACs": {"understood": 12, "total": None, "share": None},
            },
            "not_understood": [{"what": "operator Swirl in B", "count": 1, "remedy": "Export it."}],
        },
    }
    twice = combined([judged(PARTIAL, different=False)] * 2).coverage
    assert twice.gaps == (Gap("operator Swirl in B", 2, "Export it."),)
    assert twice.tallies[0] == Tally("layers", 12, 14)
    assert twice.remedies == ("Export it.",)


def test_totals():
    assert at_least("1.2 M", whole=True) == "1.2 M"
    assert at_least("1.2 M", whole=False) == "≥ 1.2 M"
    assert at_least("1.2 M", "MACs", whole=False) == "≥ 1.2 M MACs"
    assert at_least("0", "MACs", whole=True) == "0 MACs"
    for nothing in ("0", "0.0", "0.00 %", "0 s", "–"):
        assert at_least(nothing, whole=False) == "not known"
        assert at_least(nothing, "MACs", whole=False) == "MACs not known"


class _Figure(float):
    """A condition on a number that may not be known."""

    def verdict(self, judged):
        if math.isnan(judged):
            raise NotKnown("The figure is not known.")
        return judged > self, f"{judged} > {float(self)}"


def test_a_gate_that_fails_counts_more_than_one_that_cannot_be_judged():
    unknown = UnknownGate(lambda _: judged(PARTIAL, different=False), "the structures")
    enforce([_Figure(3)], 2)
    with pytest.raises(GateFailed, match="5 > 3"):
        enforce([unknown, _Figure(3), _Figure(9)], 5)
    with pytest.raises(NotKnown, match="operator Swirl"):
        enforce([_Figure(9), unknown], 5)
    with pytest.raises(NotKnown, match="figure"):
        enforce([_Figure(9)], math.nan)
    enforce([UnknownGate(lambda _: judged(PARTIAL, different=True), "the structures")], 5)


def test_exit_codes_are_all_different_and_the_gate_uses_that_of_not_known():
    assert len({outcome.exit_code for outcome in Outcome}) == 3
    with pytest.raises(NotKnown, match="operator Swirl") as refused:
        refuse_unknown(judged(PARTIAL, different=False), "the structures")
    assert refused.value.exit_code == Outcome.NOT_KNOWN.exit_code == 4
    refuse_unknown(judged(WHOLE, different=False), "the structures")
    refuse_unknown(judged(PARTIAL, different=True), "the structures")
