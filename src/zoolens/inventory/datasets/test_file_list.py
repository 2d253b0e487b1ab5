import pytest

from zoolens.inventory.datasets.file_list import FileList
from zoolens.inventory.datasets.labelled_files import Entry

ENTRIES = [
    Entry("cat/1.png", "/data/cat/1.png", 0),
    Entry("cat/2.png", "/data/cat/2.png", 0),
    Entry("images/ü 3.png", "/data/images/ü 3.png", -1),
    Entry("./4.png", "/data/4.png", 7),  # a table's own spelling
    Entry("caf\\xe9.png", "/data/caf\udce9.png", 1),  # a name that is no UTF-8
    Entry("5.png", "5.png", 2),
    Entry("", "/data/6.png", 3),
]


def test_entries_are_what_was_put_in():
    files = FileList(iter(ENTRIES))
    assert len(files) == len(ENTRIES)
    assert list(files) == ENTRIES
    assert files[-1] == ENTRIES[-1]
    assert files[1:4] == ENTRIES[1:4]
    assert files.labels.tolist() == [entry.label for entry in ENTRIES]
    with pytest.raises(IndexError):
        files[len(ENTRIES)]


def test_no_entries():
    assert list(FileList()) == []
    assert FileList().labels.dtype == "int64"
