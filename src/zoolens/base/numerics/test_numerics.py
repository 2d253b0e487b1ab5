import math

import numpy as np
import pytest

from zoolens.base.numerics.deviation import Deviation, deviation, deviation_of_finite, first_beyond
from zoolens.base.numerics.rounding import ONE_ROUNDING, ROUNDINGS, disturbed, is_representable, rounded


def test_an_error_is_relative_to_the_larger_of_the_two():
    exact = np.array([3.0, 4.0])
    assert deviation(exact * 1.5, exact).error == pytest.approx(1 / 3)
    assert deviation(exact / 10, exact).error == pytest.approx(0.9)
    assert deviation(exact * 1e9, exact).error == pytest.approx(1)
    assert deviation(-exact, exact).error == pytest.approx(2)
    assert deviation(np.zeros(2), np.zeros(2)) == deviation(np.zeros(0), np.zeros(0)) == Deviation(0.0)


def test_half_a_rounding_is_seen():
    exact = np.array([1 + 2.0**-25])
    assert deviation(exact.astype(np.float32), exact).error == pytest.approx(2.0**-25)


def test_what_cannot_be_compared():
    assert deviation(np.zeros((2, 1)), np.zeros(2)) == Deviation(math.inf, "shape")
    assert deviation(np.array([math.nan]), np.ones(1)) == Deviation(math.inf, "not finite")
    assert deviation(np.ones(1), np.array([math.inf])) == Deviation(math.inf, "not finite")


@pytest.mark.parametrize(
    ("found", "floor", "verdict"),
    [
        (Deviation(0.1), 0.1, "within"),
        (Deviation(0.11), 0.1, "beyond"),
        (Deviation(1.9), 1.0, "blind"),
        (Deviation(math.inf, "not finite"), math.inf, "blind"),
        (Deviation(math.inf, "not finite"), 0.1, "beyond"),
        (Deviation(math.inf, "shape"), math.inf, "beyond"),
    ],
)
def test_verdicts(found, floor, verdict):
    assert found.verdict(floor) == verdict


def test_the_first_beyond_its_floor():
    rows = [("a", Deviation(0.1), 0.2), ("b", Deviation(0.5), 2.0), ("c", Deviation(0.5), 0.4), ("d", Deviation(1), 0)]
    assert first_beyond(rows) == "c"
    assert first_beyond(rows[:2]) is None


def test_disturbing_is_a_matter_of_roundings():
    weights = np.full(1000, 0.3, np.float32)
    moved = disturbed(weights, np.random.default_rng(0))
    assert moved.dtype == np.float32
    assert ROUNDINGS / 2 < np.abs(moved / weights.astype(float) - 1).max() / (2 * ONE_ROUNDING) <= ROUNDINGS + 1


def test_rounding_is_that_of_torch():
    torch = pytest.importorskip("torch")
    numbers = np.random.default_rng(0).standard_normal(1000).astype(np.float32) * np.float32(1e3)
    numbers[:3] = 0.0, np.inf, -np.inf
    for precision, kind in (("bfloat16", torch.bfloat16), ("float16", torch.float16)):
        expected = torch.from_numpy(numbers).to(kind).float().numpy()
        np.testing.assert_array_equal(rounded(numbers, precision), expected)
        assert is_representable(expected, precision)
        assert not is_representable(numbers, precision)
    assert is_representable(numbers, "float32")


def test_tf32_keeps_ten_bits():
    assert rounded(np.array([1 + 2.0**-11 + 2.0**-20]), "tf32")[0] == 1 + 2.0**-10
    assert rounded(np.array([1 + 2.0**-11]), "tf32")[0] == 1.0


def test_places_that_are_not_finite_in_the_same_way_are_equal():
    exact = np.array([1.0, -np.inf, np.nan, 2.0])
    assert deviation_of_finite(exact, exact) == Deviation(0.0)
    assert deviation_of_finite(np.array([1.1, -np.inf, np.nan, 2.0]), exact).error == pytest.approx(0.0438, abs=1e-4)
    assert deviation_of_finite(np.array([1.0, np.inf, np.nan, 2.0]), exact) == Deviation(math.inf, "not finite")
    assert deviation_of_finite(np.array([1.0, -np.inf, 0.0, 2.0]), exact) == Deviation(math.inf, "not finite")
    assert deviation_of_finite(np.zeros(3), exact) == Deviation(math.inf, "shape")
    assert deviation_of_finite(exact[1:3], exact[1:3]) == Deviation(0.0)
