import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.training.crosstrain.training.weights import read_weights, write_weights

ARRAYS = {
    "conv.kernel": np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2).transpose(1, 0, 3, 2),
    "loss": np.array(1.5, np.float64),
    "none": np.empty(0, np.float32),
}


def test_back_as_they_were(tmp_path):
    path = tmp_path / "new" / "weights.safetensors"
    write_weights(path, ARRAYS, {"framework": "torch"})
    found = read_weights(path)
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "weights.safetensors"
    write_weights(path, ARRAYS)
    with pytest.raises(Exception, match=r"(?i)object|dtype|unsupported|key"):
        write_weights(path, {"bad": np.array([object()])})
    assert read_weights(path).keys() == ARRAYS.keys()
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("content", [b"", b"garbage" * 10, b"\x80\x04K\x01.", b"\xff" * 8 + b"{}"])
def test_damage_is_told(tmp_path, content):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="cannot be read"):
        read_weights(path)


def test_a_truncated_file_is_told(tmp_path):
    path = tmp_path / "weights.safetensors"
    write_weights(path, ARRAYS)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ModelError, match="cannot be read"):
        read_weights(path)


def test_an_absent_file_is_told(tmp_path):
    with pytest.raises(ModelError, match="does not exist"):
        read_weights(tmp_path / "weights.safetensors")
