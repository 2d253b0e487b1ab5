"""Figures that are measured correctly and still cannot be right."""

import pytest

from zoolens.base.store.records import Observation
from zoolens.findings.measure.suspicions import blind_answers


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
