"""Rows of tensors, as they lie in a file."""

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.model_files.safetensors_file import SafeTensor
from zoolens.inventory.runtimes.model_files.stored_rows import float_values, stored_rows

VALUES = np.arange(-6, 6, dtype=np.float16).reshape(4, 3)


def test_rows_come_some_at_a_time(tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(b"header" + VALUES.tobytes() + b"behind")
    tensor = SafeTensor("w", (2, 2, 3), "F16", 6, VALUES.nbytes)
    pieces = [float_values(piece, "F16") for piece in stored_rows(path, tensor, 3)]
    assert [piece.tolist() for piece in pieces] == [VALUES[:3].tolist(), VALUES[3:].tolist()]
    number = SafeTensor("one", (), "F16", 6, 2)
    assert [float_values(piece, "F16").tolist() for piece in stored_rows(path, number, 3)] == [[[-6.0]]]
    assert not list(stored_rows(path, SafeTensor("none", (4, 0), "F16", 6, 0), 3))


def test_a_file_that_was_cut_since_its_header_was_read_is_said(tmp_path):
    (tmp_path / "weights").write_bytes(VALUES.tobytes()[:-1])
    tensor = SafeTensor("w", VALUES.shape, "F16", 0, VALUES.nbytes)
    with pytest.raises(ModelError, match="weights ends within its tensor 'w'"):
        list(stored_rows(tmp_path / "weights", tensor, 2))


def test_numbers_beyond_float32_are_infinite_and_other_types_no_floats(recwarn):
    assert float_values(np.array([[1e300]]).view(np.uint8), "F64").tolist() == [[np.inf]]
    assert float_values(np.zeros((1, 4), np.uint8), "I32") is None
    assert not recwarn.list
