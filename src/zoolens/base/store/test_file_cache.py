"""Files that travel: lists that are refused, the place that holds them, and the cache of a machine."""

import hashlib
import os
import signal
import sys
import threading
import time

import pytest

from zoolens.base.errors import AssetError, Lacking, StoreError, ZoolensError
from zoolens.base.store import file_list
from zoolens.base.store.file_cache import FileCache, cache_size
from zoolens.base.store.file_list import FileList, ListedFile, read_file_list
from zoolens.base.store.shared_files import shared_files

GOOD = hashlib.sha256(b"good").hexdigest()


def listed(path, content):
    return ListedFile(path, len(content), hashlib.sha256(content).hexdigest())


@pytest.fixture
def shared(tmp_path):
    return shared_files(str(tmp_path / "share"))


def published(shared, tmp_path, **contents):
    """A list of files with these contents, which are in the shared place."""
    sources = {}
    for name, content in contents.items():
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        sources[listed(f"folder/{name}", content)] = path
    shared.publish(sources)
    return FileList(tuple(sources))


# --- lists


def test_a_list_is_read_as_it_was_written():
    wanted = FileList((ListedFile("a/b.onnx", 4, GOOD), ListedFile("a/ü.txt", 0, GOOD)), ("a/empty",))
    assert read_file_list(wanted.as_data()) == wanted
    assert FileList(wanted.files[::-1], wanted.empty).digest == wanted.digest
    assert FileList(wanted.files).digest != wanted.digest


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        (["../a"], "leads out of its folder"),
        (["a/../../b"], "leads out of its folder"),
        (["/etc/passwd"], "leads out of its folder"),
        (["a//b"], "leads out of its folder"),
        (["./a"], "leads out of its folder"),
        ([""], "leads out of its folder"),
        (["a\\..\\b"], "leads out of its folder"),
        (["c:/b"], "leads out of its folder"),
        (["a\0b"], "control character"),
        (["a\nb"], "control character"),
        (["a\udc80"], "no UTF-8"),
        (["n" * 256], "too long"),
        (["/".join("n" * 65)], "more than 64 folders"),
        (["/".join(["n" * 200] * 6)], "too long"),
        (["a", "a"], "'a' twice"),
        (["a/B", "a/b"], "one name on some file systems"),
        (["stra\N{LATIN SMALL LETTER SHARP S}e", "strasse"], "one name on some file systems"),
        (["\N{LATIN SMALL LETTER E WITH ACUTE}", "e\N{COMBINING ACUTE ACCENT}"], "one name on some file systems"),
        (["A/x", "a/y"], "in two spellings"),
        (["a", "a/b"], "as a file and as a folder"),
        (["A", "a/b"], "as a file and as a folder"),
    ],
)
def test_hostile_paths_are_refused(paths, words):
    with pytest.raises(AssetError, match="list of files that came with the job is refused") as refused:
        read_file_list({"files": [[path, 4, GOOD] for path in paths], "empty": []})
    assert words in refused.value.message


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"files": {}, "empty": []},
        {"files": [], "empty": "a"},
        {"files": [["a", 4]], "empty": []},
        {"files": [["a", -1, GOOD]], "empty": []},
        {"files": [["a", True, GOOD]], "empty": []},
        {"files": [["a", 4.0, GOOD]], "empty": []},
        {"files": [["a", 1 << 51, GOOD]], "empty": []},
        {"files": [["a", 4, "good"]], "empty": []},
        {"files": [["a", 4, f"{GOOD}\n"]], "empty": []},
        {"files": [["a", 4, f"../{GOOD[3:]}"]], "empty": []},
        {"files": [[7, 4, GOOD]], "empty": []},
        {"files": [], "empty": ["../a"]},
        {"files": [["a", 4, GOOD]], "empty": ["a"]},
    ],
)
def test_other_lists_are_refused(data):
    with pytest.raises(AssetError, match="is refused"):
        read_file_list(data)


def test_too_many_files_are_refused(monkeypatch):
    monkeypatch.setattr(file_list, "MOST_FILES", 2)
    with pytest.raises(AssetError, match="it has 3 names, and at most 2 are read"):
        read_file_list({"files": [["a", 4, GOOD], ["b", 4, GOOD]], "empty": ["c"]})


# --- the place


def test_only_what_is_missing_is_published(shared, tmp_path):
    wanted = published(shared, tmp_path, a=b"good", b=b"more")
    sources = {file: tmp_path / "source" / file.path.partition("/")[2] for file in wanted.files}
    moved = []
    assert shared.publish(sources, moved.append) == 0
    assert sum(moved) == wanted.bytes
    # A name with another length is no file of ours: whoever wrote it was interrupted.
    shared.place.put(f"{GOOD[:2]}/{GOOD}", b"go")
    assert shared.publish(sources) == 1
    assert shared.publish(sources, again=True) == 2
    assert b"".join(shared.pieces(wanted.files[0])) == b"good"


@pytest.mark.parametrize("content", [b"other and longer", b"oth", b"else"])
def test_a_file_that_changed_meanwhile_is_not_published(shared, tmp_path, content):
    path = tmp_path / "changed"
    path.write_bytes(content)
    with pytest.raises(AssetError, match="was changed while it was read"):
        shared.publish({listed("a", b"good"): path})
    with pytest.raises(AssetError, match="cannot be read"):
        shared.publish({listed("a", b"good"): tmp_path / "absent"})
    assert shared.place.names() == []


def test_credentials_in_the_name_of_the_place_are_refused():
    with pytest.raises(StoreError, match="holds credentials") as refused:
        shared_files("s3://key:secret@bucket/prefix")
    assert "secret" not in str(refused.value)


def test_old_files_are_swept(shared, tmp_path):
    wanted = published(shared, tmp_path, a=b"good", b=b"more")
    old = shared.place.root / GOOD[:2] / GOOD
    os.utime(old, (time.time() - 7200,) * 2)
    assert shared.sweep(older_than=3600) == ((str(old),), ())
    with pytest.raises(Lacking), FileCache(tmp_path / "cache").laid_out(wanted, shared):
        pytest.fail("it is not there any more")


# --- the cache


def test_files_are_laid_out_and_fetched_once(shared, tmp_path):
    wanted = published(shared, tmp_path, a=b"good", b=b"more")
    wanted = FileList((*wanted.files, ListedFile("folder/deep/again", 4, GOOD)), ("folder/empty",))
    cache, moved = FileCache(tmp_path / "cache"), []
    with cache.laid_out(wanted, shared, moved.append) as folder:
        found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        assert found == {"folder/a": b"good", "folder/b": b"more", "folder/deep/again": b"good"}
        assert (folder / "folder" / "empty").is_dir()
        assert not any(path.is_symlink() for path in folder.rglob("*"))
        assert (folder / "folder" / "a").stat().st_mode & 0o222 == 0  # it is the kept file itself
    assert sum(moved) == wanted.bytes
    # The same folder again, and a file of it in another list, without the place.
    with cache.laid_out(wanted, None) as again, cache.laid_out(FileList(wanted.files[:1]), None) as other:
        assert again == folder
        assert (other / "folder" / "a").read_bytes() == b"good"


@pytest.mark.parametrize(("content", "size"), [(b"evil", 4), (b"good and more", 4), (b"goo", 4), (b"good", 5)])
def test_what_is_not_as_listed_is_refused_and_not_kept(shared, tmp_path, content, size):
    shared.place.put(f"{GOOD[:2]}/{GOOD}", content)
    cache = FileCache(tmp_path / "cache")
    with (
        pytest.raises(Lacking, match="another file in the place of a"),
        cache.laid_out(FileList((ListedFile("a", size, GOOD),)), shared),
    ):
        pytest.fail("it was laid out")
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"] == []


def test_the_least_recently_read_folder_makes_room(shared, tmp_path):
    lists = [published(shared, tmp_path, **{name: name.encode() * 100}) for name in "abc"]
    cache = FileCache(tmp_path / "cache", size=250)
    folders = []
    for number, wanted in enumerate(lists[:2]):
        with cache.laid_out(wanted, shared) as folder:
            folders.append(folder)
            os.utime(f"{folder}.lock", (number + 1000,) * 2)
    with cache.laid_out(lists[0], shared):
        pass  # it is read again, now
    with cache.laid_out(lists[2], shared):
        assert [folder.is_dir() for folder in folders] == [True, False]
    assert kept_bytes(tmp_path) == 200
    with pytest.raises(AssetError, match=r"ZOOLENS_FILE_CACHE allows 1e-08 GB"):
        FileCache(tmp_path / "cache", size=10).laid_out(lists[0], shared).__enter__()


def test_a_folder_that_is_read_stays(shared, tmp_path):
    first, second = (published(shared, tmp_path, **{name: name.encode() * 100}) for name in "ab")
    cache = FileCache(tmp_path / "cache", size=150)
    with cache.laid_out(first, shared) as folder, cache.laid_out(second, shared) as other:
        assert (folder / "folder" / "a").is_file()
        assert (other / "folder" / "b").is_file()
    assert kept_bytes(tmp_path) == 100  # at the end one had to go


def test_what_is_kept_is_not_counted_after_every_job(shared, tmp_path, monkeypatch):
    wanted, counted = published(shared, tmp_path, a=b"good"), []
    used = FileCache._used
    monkeypatch.setattr(FileCache, "_used", lambda self: counted.append(1) or used(self))
    for _ in range(3):
        with FileCache(tmp_path / "cache").laid_out(wanted, shared):
            pass
    assert len(counted) == 2  # before and after it was made


def kept_bytes(tmp_path):
    return sum(path.stat().st_size for path in (tmp_path / "cache" / "kept").glob("*/*"))


def test_two_at_once_fetch_a_file_once(shared, tmp_path):
    wanted = published(shared, tmp_path, a=b"good")
    reads, begun, go_on = [], threading.Event(), threading.Event()
    place = shared.place

    class Slow:
        name = "slow"

        def pieces(self, name, length):
            reads.append(name)
            begun.set()
            go_on.wait(20)
            return place.pieces(name, length)

    shared.place = Slow()
    found = []

    def read():
        with FileCache(tmp_path / "cache").laid_out(wanted, shared) as folder:
            found.append((folder / "folder" / "a").read_bytes())

    threads = [threading.Thread(target=read, daemon=True) for _ in range(3)]
    threads[0].start()
    assert begun.wait(20)
    for thread in threads[1:]:
        thread.start()
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert (found, len(reads)) == ([b"good"] * 3, 1)


STEPS = {"open", "os.mkdir", "os.rename", "os.link", "os.chmod", "os.remove", "os.rmdir", "os.utime"}


def killed_at(step, cache, wanted, shared):
    """Whether a process that lays out these files was killed at this step of its work on the file system."""
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
    count = 0

    def die(event, _):
        nonlocal count
        count += event in STEPS
        if count > step and event in STEPS:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        sys.addaudithook(die)
        with cache.laid_out(wanted, shared):
            pass
    finally:
        os._exit(0)


@pytest.mark.slow  # a process for each step
@pytest.mark.skipif(not hasattr(os, "fork"), reason="NOT TESTED: no processes can be forked here")
def test_a_process_that_is_killed_at_any_moment_leaves_nothing_false(shared, tmp_path):
    wanted = published(shared, tmp_path, a=b"more", b=b"good")
    step = 0
    while killed_at(step, FileCache(tmp_path / f"fresh{step}"), wanted, shared):
        cache = FileCache(tmp_path / f"fresh{step}")
        with cache.laid_out(wanted, shared) as folder:
            assert (folder / "folder" / "a").read_bytes() == b"more"
            assert (folder / "folder" / "b").read_bytes() == b"good"
        assert not list((tmp_path / f"fresh{step}" / "folders").glob("*.building"))
        step += 1
    assert step > 12
    # What a killed one had begun goes when nobody can be at it any more.
    parts = list(tmp_path.glob("fresh*/kept/*/*.part"))
    assert parts
    for part in parts:
        os.utime(part, (0, 0))
        FileCache(part.parents[2], size=8).prune()
    assert not any(part.exists() for part in parts)


def test_the_size_is_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("ZOOLENS_FILE_CACHE", "1.5 gb")
    assert cache_size() == 1_500_000_000
    for wrong in ("much", "-1GB", "5XB"):
        monkeypatch.setenv("ZOOLENS_FILE_CACHE", wrong)
        with pytest.raises(ZoolensError, match="is not a size"):
            cache_size()
