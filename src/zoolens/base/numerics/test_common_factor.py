import numpy as np
import pytest

from zoolens.base.numerics.common_factor import common_factor

VALUES = np.random.default_rng(0).standard_normal((4, 10)).astype(np.float32)


@pytest.mark.parametrize("factor", [0.4, 2.0, 100.0])
def test_a_constant_is_found(factor):
    found = common_factor(VALUES, (VALUES * np.float32(factor)))
    assert found.factor == pytest.approx(factor, rel=1e-5)
    assert found.left < 1e-5 * found.before


@pytest.mark.parametrize(
    "others",
    [
        VALUES,  # nothing to explain
        -VALUES,  # which turns the order of classes round
        2 * VALUES + 0.01,
        np.where(VALUES.max() == VALUES, 0, 2 * VALUES),
        np.full_like(VALUES, np.nan),
        VALUES[:2],
    ],
)
def test_what_a_constant_does_not_explain_has_none(others):
    assert common_factor(VALUES, others) is None


def test_zeros_have_none():
    assert common_factor(0 * VALUES, VALUES) is None
