import numpy as np

from zoolens.base.numerics.deviation import deviation
from zoolens.findings.divergence.small_parts import worst_small_part

FLOOR = 1e-5


def made():
    """Four rows of boxes in pixels above twenty rows of scores, as a detector gives them."""
    random = np.random.default_rng(0)
    boxes, scores = random.uniform(0, 640, (1, 4, 196)), random.uniform(0, 1, (1, 20, 196))
    return np.concatenate([boxes, scores], axis=1).astype(np.float32)


def test_a_difference_of_small_numbers_is_told_beside_large_ones():
    one, other = made(), made()
    other[0, 11] *= 1.001
    assert deviation(other, one).error < FLOOR
    part = worst_small_part(one, other)
    assert (part.axis, part.place) == (1, 11)
    np.testing.assert_allclose(part.error, 0.001, rtol=0.01)
    assert part.shows_beside(FLOOR)
    assert "At place 11 of its axis 1" in part.remark


def test_rounding_and_single_numbers_are_not_told():
    one = made()
    assert worst_small_part(one, np.nextafter(one, np.float32(1e9))).shows_beside(FLOOR) is False
    assert worst_small_part(one[:, :, 0], one[:, :, 0]) is None
    assert worst_small_part(one, one[:, :, 1:]) is None
    assert worst_small_part(one * np.nan, one) is None
