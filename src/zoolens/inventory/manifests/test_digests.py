from __future__ import annotations

import hashlib
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

import pytest

from zoolens.base.errors import AssetError
from zoolens.inventory.manifests import digests
from zoolens.inventory.manifests.digests import digest, digest_tree, sha256_file


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def settled(path, content: bytes):
    path.write_bytes(content)
    old = time.time() - 60
    os.utime(path, (old, old))
    return path


def test_equals_hashlib(tmp_path):
    content = os.urandom(3 << 20)
    assert sha256_file(settled(tmp_path / "f", content)) == hashlib.sha256(content).hexdigest()


def test_a_settled_file_is_read_once(tmp_path, monkeypatch):
    path = settled(tmp_path / "f", b"abc")
    first = sha256_file(path)
    monkeypatch.setattr(digests, "_read", lambda _: pytest.fail("read again"))
    assert sha256_file(path) == first


def test_a_change_with_the_same_size_and_restored_time_is_noticed(tmp_path):
    path = settled(tmp_path / "f", b"abc")
    before = path.stat()
    first = sha256_file(path)
    path.write_bytes(b"abd")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert sha256_file(path) != first


def test_a_fresh_file_is_not_remembered(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"abc")
    first = sha256_file(path)
    path.write_bytes(b"abd")
    assert sha256_file(path) != first


def test_a_damaged_memory_is_no_failure(tmp_path, home):
    (home / "cache").mkdir(parents=True)
    (home / "cache" / "digests.sqlite").write_bytes(b"not a database" * 100)
    assert sha256_file(settled(tmp_path / "f", b"abc")) == hashlib.sha256(b"abc").hexdigest()


def test_many_processes_share_the_memory(tmp_path):
    paths = [settled(tmp_path / str(n), str(n).encode()) for n in range(20)]
    with ProcessPoolExecutor(2) as pool:
        found = list(pool.map(sha256_file, paths * 2))
    assert found[:20] == found[20:] == [hashlib.sha256(str(n).encode()).hexdigest() for n in range(20)]


def test_tree_depends_on_names_and_contents(tmp_path):
    def tree(name: str, files: dict[str, bytes]):
        for file, content in files.items():
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return digest_tree(tmp_path / name)

    one = tree("one", {"a": b"1", "d/b": b"2"})
    assert one == tree("same", {"d/b": b"2", "a": b"1"})
    assert one != tree("renamed", {"a": b"1", "d/c": b"2"})
    assert one != tree("changed", {"a": b"1", "d/b": b"3"})
    assert digest(tmp_path / "one") == one


def test_tree_with_a_link_to_the_outside_is_refused(tmp_path):
    (tmp_path / "secret").write_text("x")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(AssetError, match="leads out"):
        digest_tree(tmp_path / "tree")


def test_tree_with_links_in_a_circle_is_refused(tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "loop").symlink_to("loop")
    with pytest.raises(AssetError, match="leads out of"):
        digest_tree(tmp_path / "tree")


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has only names in UTF-8")
def test_names_that_are_not_utf8_count_as_the_bytes_they_are(tmp_path):
    folder = tmp_path / "tree"
    folder.mkdir()
    file = settled(folder / os.fsdecode(b"caf\xe9"), b"1")
    first = digest_tree(folder)
    file.rename(folder / os.fsdecode(b"caf\xe8"))
    assert digest_tree(folder) != first


def test_a_missing_file_is_explained(tmp_path):
    with pytest.raises(AssetError, match="No such file"):
        sha256_file(tmp_path / "absent")
