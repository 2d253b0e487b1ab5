"""A worker that fills its scratch folder is stopped."""

import os
import threading

import pytest

from zoolens.base.engine.lasting_thread import started_for_good
from zoolens.base.engine.scratch_quota import is_exceeded, unwatch_scratch, watch_scratch


def test_bytes_and_entries_are_counted_at_any_depth(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(bytes(100_000))
    (tmp_path / "link").symlink_to("/usr")
    assert not is_exceeded(tmp_path, most_bytes=1 << 20, most_entries=4)
    assert is_exceeded(tmp_path, most_bytes=50_000, most_entries=4)
    assert is_exceeded(tmp_path, most_bytes=1 << 20, most_entries=3)
    assert not is_exceeded(tmp_path / "gone")


@pytest.mark.skipif(os.getuid() == 0, reason="root reads every folder")
def test_a_folder_that_hides_its_content_is_too_large(tmp_path):
    (tmp_path / "hidden").mkdir(mode=0)
    try:
        assert is_exceeded(tmp_path)
    finally:
        (tmp_path / "hidden").chmod(0o700)


def test_files_that_come_and_go_do_not_hide_the_others(tmp_path):
    """A worker could otherwise fill a folder while it removes and makes small files in it all the time."""
    (tmp_path / "large").write_bytes(bytes(1_000_000))
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            for number in range(50):
                (tmp_path / f"{number:03}").touch()
            for number in range(50):
                (tmp_path / f"{number:03}").unlink()

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        assert all(is_exceeded(tmp_path, most_bytes=500_000) for _ in range(200))
    finally:
        stop.set()
        thread.join()


def test_holes_in_a_file_take_no_room(tmp_path):
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    assert not is_exceeded(tmp_path, most_bytes=1 << 20)


def test_who_holds_too_much_is_called_once(tmp_path, monkeypatch):
    monkeypatch.setattr("zoolens.base.engine.scratch_quota._INTERVAL", 0.01)
    monkeypatch.setattr("zoolens.base.engine.scratch_quota.MOST_ENTRIES", 2)
    for name, files in (("empty", 1), ("full", 3)):
        (tmp_path / name).mkdir()
        for number in range(files):
            (tmp_path / name / str(number)).touch()
    monkeypatch.setattr("zoolens.base.engine.scratch_quota._watcher", None)  # another thread, which looks at once
    called = threading.Event()
    wrongly_called = threading.Event()
    watch_scratch(tmp_path / "empty", wrongly_called.set)
    watch_scratch(tmp_path / "full", called.set)
    assert called.wait(60)
    assert not wrongly_called.is_set()
    unwatch_scratch(tmp_path / "empty")
    unwatch_scratch(tmp_path / "full")


def test_what_starts_for_good_is_started_by_one_thread_and_raises_here():
    names = []

    def start():
        names.append(started_for_good(lambda: threading.current_thread().name))

    others = [threading.Thread(target=start) for _ in range(3)]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join()
    assert names == ["zoolens-starter"] * 3
    with pytest.raises(ZeroDivisionError):
        started_for_good(lambda: 1 // 0)
