import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.store.appended_file import append_at, writing_alone


def test_what_a_killed_writer_left_is_written_over(tmp_path):
    path = tmp_path / "records"
    path.write_bytes(b"one\nan unfinished rec")
    end = append_at(path, 4, b"two\n")
    assert path.read_bytes() == b"one\ntwo\n"
    assert append_at(path, end, b"three\n", durable=True) == len(path.read_bytes())


def test_a_second_writer_is_refused_and_may_write_later(tmp_path):
    path = tmp_path / "folder" / "records"
    refusal = ZoolensError("Somebody else writes.")
    with writing_alone(path, refusal), pytest.raises(ZoolensError, match="Somebody else"), writing_alone(path, refusal):
        pass
    with writing_alone(path, refusal):
        path.write_bytes(b"")


def test_a_failure_of_the_body_is_no_refusal_and_frees_the_lock(tmp_path):
    path = tmp_path / "records"
    with pytest.raises(KeyError), writing_alone(path, ZoolensError("Somebody else writes.")):
        raise KeyError("mine")
    with writing_alone(path, ZoolensError("Somebody else writes.")):
        path.write_bytes(b"")
