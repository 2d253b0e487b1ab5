"""A whole module is told from weights by reading its pickle's instructions, not by running them."""

from __future__ import annotations

import pickle
from collections import OrderedDict

import pytest

from zoolens.errors import ModelError
from zoolens.manifests.formats import detect_format
from zoolens.manifests.pickles import pickled_class


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
