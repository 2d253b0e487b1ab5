"""A file that was judged once is judged again only where the store, a path or its content is another."""

from zoolens.base.store.state import Newest
from zoolens.findings.comparisons.contents import FileState
from zoolens.findings.index.changed_files import ChangedFiles
from zoolens.inventory.manifests.digests import digest


def watched(path, mark, states):
    asked = []

    def judge(runs):
        asked.extend(runs)
        return {run: states[run] for run in runs}

    return ChangedFiles(path, Newest(mark), judge), asked


def test_a_verdict_lasts_as_long_as_its_files(tmp_path):
    model, gone, memory = tmp_path / "model", tmp_path / "gone", tmp_path / "files.json"
    model.write_text("one")
    states = {
        "a": FileState(True, ((str(model), digest(model)),)),
        "b": FileState(False, ((str(gone), None),)),
        "c": FileState(True, None),  # nobody can tell from files alone
    }
    files, asked = watched(memory, 7, states)
    assert files.among(["a", "b", "c"]) == ["a", "c"]
    assert asked == ["a", "b", "c"]
    files, asked = watched(memory, 7, states)
    assert files.among(["a", "b", "c"]) == ["a", "c"]
    assert asked == ["c"]
    model.write_text("another")
    states["a"] = FileState(False, ((str(model), digest(model)),))
    gone.write_text("is back")
    files, asked = watched(memory, 7, states)
    assert files.among(["a", "b"]) == []
    assert asked == ["a", "b"]
    files, asked = watched(memory, 8, states)
    files.among(["a"])
    assert asked == ["a"]


def test_a_link_that_leads_elsewhere_is_another_file(tmp_path):
    old, new, link = tmp_path / "old", tmp_path / "new", tmp_path / "model"
    old.write_text("one")
    new.write_text("two")
    link.symlink_to(old)
    states = {"a": FileState(False, ((str(link), digest(link)),))}
    watched(tmp_path / "files.json", 1, states)[0].among(["a"])
    link.unlink()
    link.symlink_to(new)
    files, asked = watched(tmp_path / "files.json", 1, states)
    files.among(["a"])
    assert asked == ["a"]


def test_a_damaged_memory_counts_for_nothing(tmp_path):
    memory = tmp_path / "files.json"
    for content in ("", "[]", "[1]", "{}", '[1, {"a": 5}]', '[1, {"a": [true, [["x"]]]}]'):
        memory.write_text(content)
        files, asked = watched(memory, 1, {"a": FileState(False, ())})
        assert files.among(["a"]) == []
        assert asked == ["a"]
