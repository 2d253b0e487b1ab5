import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoolens.base.store.records import Provenance
from zoolens.findings.index.tables.rows import Figure
from zoolens.findings.queries.answers.wording import amount, at_least, at_most, mark, predicate_words, rejection_words
from zoolens.findings.queries.language.syntax import Bound, Quantity
from zoolens.findings.queries.planning.metrics import ResolvedMetric
from zoolens.findings.queries.planning.predicates import Predicate, resolve

MEMORY = ResolvedMetric("memory", "peak_memory@process", "B", derived=False, answers=False)
ACCURACY = ResolvedMetric("accuracy", "top1", "fraction", derived=False, answers=True)


@given(
    st.sampled_from(["<", "<=", ">", ">=", "="]),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.lists(st.floats(width=32)),
)
def test_range_passes_and_violation_say_the_same(comparison, threshold, values):
    predicate = Predicate(MEMORY, comparison, threshold)
    array = np.array([*values, threshold, math.nan], np.float64)
    passes = predicate.passes(array)
    assert passes.tolist() == predicate.range.holds(array).tolist()
    violation = predicate.violation(array)
    assert (violation[passes] == 0).all()
    assert not (violation[~passes] == 0).any()
    assert (np.isnan(violation) == np.isnan(array)).all()


def test_relative_quantities_become_absolute():
    predicate = resolve(Bound("memory", "<=", Quantity(0.2, "%", relative=True)), MEMORY, 117e6)
    assert predicate.threshold == pytest.approx(23.4e6)
    assert predicate_words(predicate) == "memory <= 23.4 MB (20 % of the reference's 117 MB)"


@pytest.mark.parametrize("percent", [7, 14, 28, 29, 55, 57, 58, 110, 115])
def test_a_share_of_the_reference_is_what_a_person_would_work_out(percent):
    """0.29 * 100 is 28.999999999999996: a model of exactly 29 % would not be at most 29 %."""
    share = Quantity(percent / 100, "%", relative=True)
    predicate = resolve(Bound("memory", "<=", share), MEMORY, 100.0)
    assert predicate.passes(np.array([float(percent)])).all()
    assert not resolve(Bound("memory", "<", share), MEMORY, 100.0).passes(np.array([float(percent)])).any()


def test_what_the_reference_only_claims_is_told():
    asked = Bound("memory", "<=", Quantity(0.2, "%", relative=True))
    told = predicate_words(resolve(asked, MEMORY, 117e6, "which is claimed"))
    assert told == "memory <= 23.4 MB (20 % of the reference's 117 MB, which is claimed)"


def test_marks():
    assert mark(Figure(1.0)) == mark(None) == ""
    assert mark(Figure(1.0, provenance=Provenance.CLAIMED)) == " (claimed)"
    assert mark(Figure(1.0, provenance=Provenance.ESTIMATED, error=0.12)) == " (estimated ±12 %)"


def test_rejections_in_words():
    memory = Predicate(MEMORY, "<=", 20e6)
    assert rejection_words(memory, 25e6, 0.25) == "memory is 25 MB, 25 % above 20 MB"
    assert rejection_words(memory, None, None) == "memory is unknown"
    accuracy = Predicate(ACCURACY, ">=", 0.7)
    assert rejection_words(accuracy, 0.68, 0.02) == "accuracy is 68 %, 2 points below 70 %"
    assert rejection_words(Predicate(MEMORY, "<", 20e6), 20e6, 5e-324) == "memory is 20 MB, not beyond 20 MB"
    nothing = Predicate(MEMORY, "<", 0.0)
    assert not nothing.has_scale
    assert rejection_words(nothing, 45e6, None, " (claimed)") == "memory is 45 MB (claimed), above 0 B"


def test_bounds_are_never_rounded_to_the_better_side():
    assert at_least(0.92069) == "≥ 92.0 %"
    assert at_least(1.0) == "≥ 100.0 %"
    assert at_most(0.01921) == "≤ 2.0 %"


def test_fractions_are_violated_in_points():
    assert Predicate(ACCURACY, ">=", 0.7).violation(np.array([0.68]))[0] == pytest.approx(0.02)
    assert Predicate(MEMORY, "<=", 20e6).violation(np.array([25e6]))[0] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.953, "fraction", "95.3 %"),
        (0.0123, "s", "12.3 ms"),
        (3e-7, "s", "0.3 µs"),
        (25557032, "", "25.56M"),
        (9999, "", "9,999"),
        (812.4, "inputs/s", "812.4 inputs/s"),
        (0, "B", "0 B"),
        (577_100, "", "577.1k"),
        (57_710, "", "57.71k"),
        (10_000, "", "10k"),
    ],
)
def test_amounts(value, unit, text):
    assert amount(value, unit) == text
