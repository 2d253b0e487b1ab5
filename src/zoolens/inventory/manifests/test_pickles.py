"""A whole module is told from weights by reading its pickle's instructions, not by running them."""

from __future__ import annotations

import pickle
import struct
import tracemalloc
import zipfile
from collections import OrderedDict

import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.manifests import pickles
from zoolens.inventory.manifests.formats import detect_format
from zoolens.inventory.manifests.pickles import pickled_class


class _Object:
    def __reduce__(self):
        return print, ("this must not be printed",)


def test_a_plain_pickle_of_an_object_is_named(tmp_path, capsys):
    path = tmp_path / "object.pth"
    for protocol in (2, 4):
        path.write_bytes(pickle.dumps({"epoch": 3, "model": _Plain()}, protocol))
        assert pickled_class(path).endswith("test_pickles._Plain")
    path.write_bytes(pickle.dumps(_Object()))
    pickled_class(path)
    assert capsys.readouterr().out == ""


class _Plain:
    pass


def test_weights_and_other_files_hold_no_object(tmp_path):
    path = tmp_path / "x.pth"
    for content in (pickle.dumps(OrderedDict(a=1)), b"PK\x03\x04 damaged", b"\x80\x02 damaged", b"", b"text"):
        path.write_bytes(content)
        assert pickled_class(path) is None


def _long_text(path):
    """A text of 1 GiB, by its own account and in the file, which has holes."""
    with path.open("wb") as file:
        file.write(b"\x80\x04\x8e" + struct.pack("<Q", 1 << 30))
        file.truncate(1 << 30)


def _long_line(path):
    with path.open("wb") as file:
        file.write(b"\x80\x02V")
        file.truncate(1 << 30)


def _packed_text(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("m/data.pkl", "w") as entry:
        entry.write(b"\x80\x04\x8e" + struct.pack("<Q", 1 << 27))
        for _ in range(8):
            entry.write(bytes(1 << 24))


def _many_texts(path):
    path.write_bytes(b"\x80\x04" + (b"B" + struct.pack("<I", 1 << 20) + bytes(1 << 20)) * 40)


@pytest.mark.parametrize("make", [_long_text, _long_line, _packed_text, _many_texts])
def test_no_more_of_a_pickle_is_held_than_a_stated_size(tmp_path, monkeypatch, make):
    """Its instructions say how much is to be read at once, and a packed file of 3 MB can say 3 GB."""
    monkeypatch.setattr(pickles, "_MOST_BYTES", 1 << 25)
    path = tmp_path / "m.pth"
    make(path)
    tracemalloc.start()
    try:
        assert pickled_class(path) is None
        assert tracemalloc.get_traced_memory()[1] < 3 * pickles._LONGEST
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("name", ["whole.pth", "whole.pt", "whole.th"])
def test_a_whole_module_is_refused_with_the_true_reason(tmp_path, zipped, name):
    torch = pytest.importorskip("torch")
    path = tmp_path / name
    torch.save(torch.nn.Sequential(torch.nn.Linear(4, 2)), path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(ModelError, match=r"pickled object of class torch\.nn\.modules\.container\.Sequential"):
        detect_format(path)
    torch.save(torch.nn.Linear(4, 2).state_dict(), path, _use_new_zipfile_serialization=zipped)
    assert detect_format(path)[0] == "torch-state-dict"
