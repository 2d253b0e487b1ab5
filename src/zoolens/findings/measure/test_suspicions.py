"""Figures that are measured correctly and still cannot be right."""

import pytest

from zoolens.base.store.records import Observation
from zoolens.findings.measure.suspicions import blind_answers, indifferent_data


@pytest.mark.parametrize(
    ("unit", "value", "blind", "suspected"),
    [
        # Errors in millimetres or in light years: a hundredth of those of blind answers is hardly better.
        ("", 0.0005, 0.001, False),
        ("", 0.000995, 0.001, True),
        ("", 995.0, 1000.0, True),
        ("", 900.0, 1000.0, False),
        ("fraction", 0.991, 1.0, True),
        ("fraction", 0.98, 1.0, False),
    ],
)
def test_hardly_better_is_relative_where_errors_are_in_units_of_the_data(unit, value, blind, suspected):
    details = {"blind": blind, "lower_is_better": True}
    found = Observation("mae", value, unit=unit, n=50, details=details)
    assert bool(list(blind_answers(found))) is suspected
    assert not list(blind_answers(Observation("mae", value, unit=unit, n=19, details=details)))


@pytest.mark.parametrize(
    ("unit", "value", "blind", "lower"),
    [
        ("fraction", 1.0, 1.0, False),  # masks of one class: everybody gets the best mIoU
        ("fraction", 1.0, 0.995, False),  # a label that 199 of 200 inputs have
        ("fraction", 0.92, 0.995, False),
        ("mm", 0.3, 0.0, True),  # the true value is the same for all inputs
    ],
)
def test_data_on_which_blind_answers_are_the_best_suspect_nobody(unit, value, blind, lower):
    found = Observation("map", value, unit=unit, n=200, details={"blind": blind, "lower_is_better": lower})
    assert not list(blind_answers(found))
    (told,) = indifferent_data(found)
    assert told.startswith("answers that have nothing to do with the inputs reach map ")
    assert not list(indifferent_data(Observation("map", 0.9, unit="fraction", n=200, details={"blind": 0.9})))


def test_a_model_that_is_far_worse_than_blind_answers_is_suspected_on_any_data():
    """A label that 199 of 200 inputs have, and that the model gives to the others."""
    found = Observation("map", 0.4, unit="fraction", n=200, details={"blind": 0.995})
    assert len(list(blind_answers(found))) == len(list(indifferent_data(found))) == 1
