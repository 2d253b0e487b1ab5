"""Constants of an IR, and files that are none."""

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.openvino.openvino_file import constants
from zoolens.inventory.runtimes.openvino.openvino_layers import computed_in

LAYER = (
    '<layer id="{place}" name="{name}" type="Const"><data element_type="{kind}" shape="{shape}" offset="{offset}" '
    'size="{size}"/><output><port id="0" names="{tensor}"/></output></layer>'
)


@pytest.fixture
def ir(tmp_path):
    def write(*layers, numbers=b"", head='<?xml version="1.0"?>'):
        path = tmp_path / "model.xml"
        path.write_text(f"{head}<net><layers>{''.join(layers)}<layer type='ReLU'/></layers></net>")
        path.with_suffix(".bin").write_bytes(numbers)
        return path

    return write


def layer(name, kind, shape, offset, size, tensor=""):
    return LAYER.format(place=0, name=name, kind=kind, shape=shape, offset=offset, size=size, tensor=tensor)


def test_constants_have_the_names_of_their_tensors_or_layers(ir):
    halves, whole = np.array([[1.5, 2.0]], np.float16), np.array([7], np.int64)
    path = ir(
        layer("w_compressed", "f16", "1, 2", 0, 4),
        layer("x", "i64", "", 4, 8, "steps,others"),
        layer("odd", "u4", "3", 0, 2),
        numbers=halves.tobytes() + whole.tobytes(),
    )
    found = constants(path)
    assert found.keys() == {"w", "steps"}
    np.testing.assert_array_equal(found["w"], halves)
    assert found["steps"].shape == ()


@pytest.mark.parametrize(
    ("offset", "size", "shape"), [(0, 9, "2"), (4, 8, "2"), (0, 8, "3"), (-4, 4, "1"), ("x", 4, "1")]
)
def test_a_constant_outside_its_file_is_refused(ir, offset, size, shape):
    with pytest.raises(ModelError, match="constant"):
        constants(ir(layer("w", "f32", shape, offset, size), numbers=bytes(8)))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le"])
def test_a_document_type_is_refused_in_every_encoding(ir, encoding):
    path = ir(head='<!DOCTYPE net [<!ENTITY a "aaaa">]>')
    path.write_bytes(path.read_text("utf-8").encode(encoding))
    with pytest.raises(ModelError, match="declares a document type"):
        constants(path)


def test_the_precision_of_a_layer_is_that_of_its_kernel():
    assert computed_in("gemm_acl_f32", "f16") == "f32"
    assert computed_in("jit_avx512_core_amx_bf16", "bf16") == "bf16"
    assert computed_in("brgconv_avx512_i8", "u8") == "u8"
    assert computed_in("unknown", "f16") == "f16"
