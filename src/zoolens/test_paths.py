import pytest

from zoolens.paths import replaced_file


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path):
    path = tmp_path / "folder" / "file"
    with replaced_file(path) as file:
        file.write(b"one")
    with pytest.raises(TypeError), replaced_file(path) as file:
        file.write("no bytes")
    assert path.read_bytes() == b"one"
    assert list(path.parent.iterdir()) == [path]
