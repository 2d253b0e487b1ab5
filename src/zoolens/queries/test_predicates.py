import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoolens.queries.metrics import Meaning
from zoolens.queries.predicates import Predicate, resolve
from zoolens.queries.syntax import Bound, Quantity
from zoolens.queries.wording import amount, at_least, predicate_words, rejection_words

MEMORY = Meaning("memory", "peak_memory@process", "B", derived=False, answers=False)
ACCURACY = Meaning("accuracy", "top1", "fraction", derived=False, answers=True)


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


def test_rejections_in_words():
    memory = Predicate(MEMORY, "<=", 20e6)
    assert rejection_words(memory, 25e6, 0.25) == "memory is 25 MB, 25 % above 20 MB"
    assert rejection_words(memory, None, None) == "memory is unknown"
    accuracy = Predicate(ACCURACY, ">=", 0.7)
    assert rejection_words(accuracy, 0.68, 0.02) == "accuracy is 68 %, 2 points below 70 %"
    assert rejection_words(Predicate(MEMORY, "<", 20e6), 20e6, 5e-324) == "memory is 20 MB, not beyond 20 MB"


def test_a_lower_bound_is_never_rounded_up():
    assert at_least(0.92069) == "≥ 92.0 %"
    assert at_least(1.0) == "≥ 100.0 %"


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
    ],
)
def test_amounts(value, unit, text):
    assert amount(value, unit) == text
