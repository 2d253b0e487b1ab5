"""Packed numbers, attributes and tensor values are read as the onnx package reads them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.model_files.protobuf_wire import integers, packed, signed, varint
from zoolens.inventory.runtimes.onnx.onnx_file import OnnxNode, read_tensor
from zoolens.inventory.runtimes.onnx.onnx_values import array, attributes

onnx = pytest.importorskip("onnx")


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=40))
def test_packed_numbers(values):
    stored = onnx.AttributeProto(name="a", ints=values, type=onnx.AttributeProto.INTS).SerializeToString()
    node = OnnxNode("Op", (), (), False, attributes=(memoryview(stored),))
    assert attributes(node) == {"a": values}


def test_packed_numbers_that_break_off():
    for content in (b"\x80", b"\x01\xff", b"\xff" * 11 + b"\x01"):
        with pytest.raises(ValueError, match="number"):
            packed(memoryview(content))
    assert integers(memoryview(b"\x01\xac\x02")) == [1, 300]
    assert signed((1 << 64) - 1) == -1
    with pytest.raises(ValueError, match="longer than 64 bits"):
        varint(memoryview(b"\xff" * 11), 0)


def test_attributes_of_every_kind():
    made = onnx.helper.make_node("Op", [], ["y"], f=0.5, i=-3, s="word", fs=[1.0, 2.0], ss=["a", "b"])
    stored = tuple(memoryview(one.SerializeToString()) for one in made.attribute)
    found = attributes(OnnxNode("Op", (), ("y",), False, attributes=stored))
    assert found == {"f": 0.5, "i": -3, "s": "word", "fs": [1.0, 2.0], "ss": ["a", "b"]}


@pytest.mark.parametrize("kind", ["FLOAT", "INT8", "UINT8", "INT32", "INT64", "FLOAT16", "DOUBLE", "BOOL", "BFLOAT16"])
@pytest.mark.parametrize("raw", [False, True])
def test_values_of_every_type(tmp_path, kind, raw):
    dtype = getattr(onnx.TensorProto, kind)
    numbers = np.array([[1, 0, 1], [0, 1, 1]])
    tensor = onnx.helper.make_tensor("t", dtype, (2, 3), numbers.ravel())
    if raw:
        tensor = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), "t")
    found = array(read_tensor(memoryview(tensor.SerializeToString())), tmp_path)
    np.testing.assert_array_equal(found.astype(np.float64), numbers)


def test_values_that_do_not_fill_their_shape(tmp_path):
    tensor = onnx.TensorProto(name="t", data_type=onnx.TensorProto.FLOAT, dims=[1 << 40], float_data=[1.0])
    with pytest.raises(ModelError, match="do not fill its shape"):
        array(read_tensor(memoryview(tensor.SerializeToString())), tmp_path)
