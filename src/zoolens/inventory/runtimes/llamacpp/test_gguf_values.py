"""Values of tensors in every type that is read, against the types' own definitions."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.base.errors import MissingDependency, ModelError
from zoolens.inventory.runtimes.llamacpp import gguf_values
from zoolens.inventory.runtimes.llamacpp.gguf_file import TYPES_BY_NAME as TYPES
from zoolens.inventory.runtimes.llamacpp.gguf_file import GgufTensor, read_gguf
from zoolens.inventory.runtimes.llamacpp.gguf_values import decoded, tensor_pieces, tensor_values
from zoolens.testing import language_models

ROW = np.random.default_rng(0).normal(0, 1, 64).astype(np.float32)


def as_bytes(values):
    return np.ascontiguousarray(values).view(np.uint8).reshape(1, -1)


def test_floats():
    assert decoded(as_bytes(ROW), TYPES["F32"]).tolist() == [ROW.tolist()]
    half = ROW.astype(np.float16)
    np.testing.assert_array_equal(decoded(as_bytes(half), TYPES["F16"])[0], half.astype(np.float32))
    cut = ROW.view(np.uint32) >> 16
    back = (cut << 16).view(np.float32)
    np.testing.assert_array_equal(decoded(as_bytes(cut.astype(np.uint16)), TYPES["BF16"])[0], back)


def test_blocks_of_q8_0_and_q4_1():
    pytest.importorskip("gguf")
    steps = np.arange(-16, 16, dtype=np.int8)
    block = np.float16(0.5).tobytes() + steps.tobytes()
    assert decoded(as_bytes(np.frombuffer(block, np.uint8)), TYPES["Q8_0"]).tolist() == [(steps * 0.5).tolist()]
    low, high = np.arange(16) % 16, (np.arange(16) + 5) % 16
    nibbles = (low | high << 4).astype(np.uint8)
    block = np.array([0.25, -2], np.float16).tobytes() + nibbles.tobytes()
    expected = np.concatenate([low, high]) * 0.25 - 2
    assert decoded(as_bytes(np.frombuffer(block, np.uint8)), TYPES["Q4_1"]).tolist() == [expected.tolist()]


def test_a_tensor_is_read_in_pieces(tmp_path, monkeypatch):
    path = language_models.gguf(tmp_path).path()
    tensor = next(tensor for tensor in read_gguf(path).tensors if tensor.name == "blk.1.ffn_up.weight")
    monkeypatch.setattr(gguf_values, "_PIECE", 7 * 32)
    assert [len(piece) for piece in tensor_pieces(path, tensor)] == [7, 7, 7, 7, 7, 7, 6]
    np.testing.assert_array_equal(tensor_values(path, tensor), language_models.weights()["blk.1.ffn_up.weight"])


def test_what_is_no_weight_or_not_known_is_refused(monkeypatch):
    with pytest.raises(ModelError, match="whole numbers and no weights"):
        decoded(np.zeros((1, 32), np.uint8), TYPES["I8"])
    pytest.importorskip("gguf")
    with pytest.raises(ModelError, match="does not read the type Q1_0"):
        decoded(np.zeros((1, 18), np.uint8), TYPES["Q1_0"])
    monkeypatch.setitem(__import__("sys").modules, "gguf", None)
    with pytest.raises(MissingDependency, match="needs gguf"):
        decoded(np.zeros((1, 34), np.uint8), TYPES["Q8_0"])


def test_a_file_that_became_shorter_is_refused(tmp_path):
    path = language_models.gguf(tmp_path).path()
    last = read_gguf(path).tensors[-1]
    outside = GgufTensor(last.name, last.shape, last.type, last.offset + 64, last.nbytes)
    with pytest.raises(ModelError, match="ends within its tensor"):
        tensor_values(path, outside)
