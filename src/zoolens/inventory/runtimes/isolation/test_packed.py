"""Texts and bfloat16 pass to a worker as numbers, and are what they were on the other side."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.isolation.packed import (
    TEXT_BYTES,
    bits_of,
    packed,
    packed_parts,
    unpacked_texts,
    widened,
)


@given(st.lists(st.text(), max_size=6))
def test_texts_come_back(texts):
    array = np.empty(len(texts), object)
    array[:] = [text.encode("utf-8", "replace") for text in texts]
    sent = packed({"t": array, "x": np.ones(2)})
    assert all(tensor.dtype.kind in "biuf" for tensor in sent.values())
    assert unpacked_texts("t", sent).tolist() == [text.decode() for text in array]
    assert unpacked_texts("t", {"t": array}).tolist() == [text.decode() for text in array]


def test_parts_of_texts_are_one_batch_and_parts_of_numbers_stay_apart():
    parts = [{"t": np.array([[b"ab", b""]], object)}, {"t": np.array([[b"\xc3\xbc", b"d"]], object)}]
    (sent,) = packed_parts(parts)
    assert sent["t"].tolist() == [[2, 0], [2, 1]]
    assert bytes(sent[f"t{TEXT_BYTES}"]) == "abüd".encode()
    assert unpacked_texts("t", sent).tolist() == [["ab", ""], ["ü", "d"]]
    numbers = [{"x": np.ones(1)}, {"x": np.zeros(1)}]
    assert packed_parts(numbers) == numbers


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(ModelError, match="An element of the input 't' is not UTF-8 text"):
        unpacked_texts("t", packed({"t": np.array([b"\xff"], object)}))


def test_bfloat16_is_the_upper_half_of_float32():
    numbers = np.array([1.0, -2.5, 0.0, np.inf, 3.1415927], np.float32)
    sent = packed({"x": numbers.astype(ml_dtypes.bfloat16)})["x"]
    assert sent.dtype == np.uint16
    np.testing.assert_array_equal(widened(sent), numbers.astype(ml_dtypes.bfloat16).astype(np.float32))
    np.testing.assert_array_equal(widened(bits_of(numbers[:4])), numbers[:4])
