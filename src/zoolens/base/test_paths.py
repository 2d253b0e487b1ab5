import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.paths import exported_folder, new_folder, replaced_file


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path):
    path = tmp_path / "folder" / "file"
    with replaced_file(path) as file:
        file.write(b"one")
    with pytest.raises(TypeError), replaced_file(path) as file:
        file.write("no bytes")
    assert path.read_bytes() == b"one"
    assert list(path.parent.iterdir()) == [path]


def test_a_replaced_file_is_as_readable_as_any_other_and_its_name_may_be_long(tmp_path):
    ordinary, path = tmp_path / "ordinary", tmp_path / ("ä" * 127)
    ordinary.touch()
    with replaced_file(path):
        pass
    assert path.stat().st_mode == ordinary.stat().st_mode


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "other").mkdir()
    target, link = tmp_path / "other" / "file", tmp_path / "link"
    link.symlink_to(target)
    with replaced_file(link) as file:
        file.write(b"one")
    assert link.is_symlink()
    assert target.read_bytes() == b"one"


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_folder_appears_whole_or_not_at_all(tmp_path, error):
    folder = tmp_path / "above" / "folder"
    with pytest.raises(error), new_folder(folder) as building:
        _interrupted(building, error)
    assert list(folder.parent.iterdir()) == []
    with new_folder(folder) as building:
        (building / "file").touch()
        assert not folder.exists()
    assert [path.name for path in folder.parent.rglob("*")] == ["folder", "file"]
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_for_others_replaces_nothing_and_says_why_it_cannot_be_written(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with exported_folder(folder) as building:
        (building / "file").touch()
    assert folder.stat().st_mode & 0o777 == 0o755
    with pytest.raises(ZoolensError, match="already exists and is not empty"), exported_folder(folder):
        pass
    with pytest.raises(ZoolensError, match=r"cannot be written: .*full"), exported_folder(tmp_path / "new") as building:
        _interrupted(building, OSError("the disk is full"))
    assert list(tmp_path.iterdir()) == [folder]


def _interrupted(building, error):
    (building / "file").touch()
    raise error
