import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from zoolens.base.errors import DatasetError
from zoolens.inventory.tasks.scoring.run_lengths import area, decode, encode, from_text, to_text


@settings(max_examples=100, deadline=None)
@given(arrays(bool, array_shapes(min_dims=2, max_dims=2, max_side=20)))
def test_masks_survive_runs_and_text(mask):
    runs = encode(mask)
    assert (decode(from_text(to_text(runs)), mask.shape) == mask).all()
    assert area(runs) == mask.sum()


def test_runs_and_text_are_those_of_pycocotools():
    """`pycocotools.mask.encode(np.asfortranarray(mask))["counts"]` of version 2.0.11."""
    small = np.zeros((5, 7), np.uint8)
    small[1:4, 2:6] = small[0, 0] = 1
    assert encode(small).tolist() == [0, 1, 10, 3, 2, 3, 2, 3, 2, 3, 6]
    assert to_text(encode(small)) == "01:2H000004"
    large = np.zeros((300, 200), np.uint8)
    large[20:290, 10:180:3] = large[100:110] = 1
    text = to_text(encode(large))
    assert text.startswith("T3:R900000000000000000`MT8lLlGd50`MT8lLl")
    assert (
        hashlib.sha256(text.encode()).hexdigest() == "f15fbefe318be90e505b012a4df8242c07d67e07564248fab021fe643b92ab9b"
    )


@pytest.mark.parametrize("text", ["P", "é", "0\n", "oooooooooo0", "@", "111A", "\x00"])
def test_damaged_text_is_refused(text):
    with pytest.raises(DatasetError, match="The text of a mask"):
        from_text(text)


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet=[chr(c) for c in range(40, 120)], max_size=30))
def test_any_text_is_read_or_refused(text):
    try:
        runs = from_text(text)
    except DatasetError:
        return
    assert (runs >= 0).all()


@pytest.mark.parametrize("runs", [[3], [5], [-1, 5], [2**63 - 1, 2**63 - 1, 6], [1.5, 2.5], [[4]]])
def test_runs_that_do_not_make_the_mask_are_refused(runs):
    with pytest.raises(DatasetError):
        decode(runs, (2, 2))


def test_sizes_beyond_all_masks_are_refused():
    with pytest.raises(DatasetError, match="cannot be made"):
        decode([1 << 60], (1 << 30, 1 << 30))
    assert decode([], (0, 3)).shape == (0, 3)
