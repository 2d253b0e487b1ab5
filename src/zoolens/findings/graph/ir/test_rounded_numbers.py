"""A number in half precision is the number it was rounded from, and no other."""

from math import pi, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoolens.findings.graph.ir.rounded_numbers import as_bfloat16, as_float16, is_same_number


@pytest.mark.parametrize("number", [sqrt(2), sqrt(2 / pi), 0.044715, 1.702, 0.2])
def test_a_rounded_number_is_the_same_and_a_near_one_is_not(number):
    assert is_same_number(as_float16(number), number)
    assert is_same_number(number, as_bfloat16(number))
    assert not is_same_number(number * 1.001, number)


@pytest.mark.parametrize(("written", "near"), [(6.0, 6.01), (1.0, 1.003), (0.5, 0.501), (0.125, 0.1252), (6.0, 6.001)])
def test_a_number_that_was_written_is_no_rounding_of_another(written, near):
    """Each is what half precision makes of the other, and two files with them do not compute the same."""
    assert written in (as_float16(near), as_bfloat16(near))
    assert not is_same_number(written, near)
    assert not is_same_number(near, written)


def test_what_half_precision_cannot_hold_becomes_zero():
    assert is_same_number(0.0, 1e-8)


@given(st.floats(1e-4, 1e4))
def test_bfloat16_keeps_the_upper_half_of_a_float32_rounded(number):
    upper = np.array([number], np.float32).view(np.uint32) & 0xFFFF0000
    below = float(upper.view(np.float32)[0])
    assert abs(as_bfloat16(number) - number) <= abs(below - number) + 1e-6 * number
