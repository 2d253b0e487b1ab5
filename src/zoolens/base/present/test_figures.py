import pytest

from zoolens.base.present.figures import class_words, count, figure, scope_words, with_interval, without_interval
from zoolens.base.store.records import Observation


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.8691, "fraction", "86.9 %"),
        (0.00123, "s", "1.23 ms"),
        (41.6e-6, "s", "41.6 µs"),
        (44e-6, "s", "44 µs"),
        (45e-6, "s", "45 µs"),  # 45.00000000000001 by division
        (45.02e-6, "s", "45.0 µs"),
        (2.5, "s", "2.50 s"),
        (63, "B", "63 B"),
        (4_392_912, "B", "4.39 MB"),
        (1234.5, "inputs/s", "1,234 inputs/s"),
        (0, "s", "0 µs"),
        (None, "s", "–"),
    ],
)
def test_figure(value, unit, text):
    assert figure(value, unit) == text


@pytest.mark.parametrize(
    ("value", "text"), [(10, "10"), (61_706, "61.7k"), (2_270_000, "2.27M"), (0, "0"), (None, "–")]
)
def test_count(value, text):
    assert count(value) == text


def test_an_interval_is_written_in_the_unit_of_its_value():
    assert with_interval(Observation("x", 0.9e-3, unit="s", low=0.8e-3, high=1.1e-3)) == "900 µs [800, 1,100]"
    assert with_interval(Observation("x", 0.5, unit="fraction", low=0.25, high=0.75)) == "50.0 % [25.0, 75.0]"
    assert with_interval(Observation("x", None)) == "–"
    assert with_interval(None) == "–"


def test_a_figure_that_rests_on_guesses_has_its_mark_with_and_without_its_interval():
    guessed = Observation("top1", 0.5, unit="fraction", low=0.25, high=0.75, details={"guessed": True})
    assert with_interval(guessed) == "50.0 % [25.0, 75.0] (guessed)"
    assert without_interval(guessed) == "50.0 % (guessed)"


def test_one_measurement_has_no_interval():
    assert with_interval(Observation("x", 1.05, unit="s", low=1.05, high=1.05, n=1)) == "1.05 s"
    assert with_interval(Observation("x", 1.05, low=1.05, high=1.05, n=50)) == "1.05 (no spread, so no interval)"
    ticks = {"interval": "order statistics"}  # of a clock
    assert with_interval(Observation("x", 1.05, unit="s", low=1.05, high=1.05, n=9, details=ticks)).endswith("1.05]")
    assert with_interval(Observation("x", 1.0, unit="fraction", low=0.05, high=1.0, n=1)) == "100.0 % [5.0, 100.0]"


def test_a_range_of_repeats_is_told_from_an_interval():
    repeats = {"interval": "range", "repeats": 3}
    assert with_interval(Observation("x", 62e6, unit="B", low=61.9e6, high=62.1e6, n=3, details=repeats)) == (
        "62 MB (61.9 to 62.1)"
    )
    assert with_interval(Observation("x", 62e6, unit="B", low=62e6, high=62e6, n=3, details=repeats)) == "62 MB"


def test_the_old_interval_of_a_calibration_error_is_not_shown():
    old, new = ({"interval": name} for name in ("bootstrap", "triangle inequality"))
    ends = {"unit": "fraction", "low": 0.015, "high": 0.038, "n": 2000}
    assert with_interval(Observation("ece", 0.025, **ends, details=old)) == "2.5 %"
    assert with_interval(Observation("ece", 0.025, **ends, details=new)) == "2.5 % [1.5, 3.8]"


def test_a_class_without_a_name_is_its_number_and_nothing_else():
    named = Observation("recall", 0.5, scope="class=3", details={"class": "dog"})
    assert (scope_words(named), class_words(named)) == ("class=3 (dog)", "dog")
    # The second as stores of early versions have it.
    for details in ({}, {"class": "3"}):
        plain = Observation("recall", 0.5, scope="class=3", details=details)
        assert (scope_words(plain), class_words(plain)) == ("class=3", "class 3")
