"""Weights are told apart tensor by tensor in every format that can be read without running anything."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.findings.comparisons.weight_tensors import weight_digests

torch = pytest.importorskip("torch")


def network(*, seed=0):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    if seed:
        torch.manual_seed(seed)
        with torch.no_grad():
            net[3].weight.normal_()
    return net.eval()


def changed(format_, a, b):
    ours, theirs = weight_digests(format_, {"model": a}), weight_digests(format_, {"model": b})
    assert ours.keys() == theirs.keys()
    return [name for name in ours if ours[name] != theirs[name]], len(ours)


@pytest.mark.parametrize("wrap", [lambda state: state, lambda state: {"epoch": 3, "model": {"state_dict": state}}])
def test_a_checkpoint_of_torch(tmp_path, wrap):
    for seed in (0, 1):
        torch.save(wrap(network(seed=seed).state_dict()), tmp_path / f"{seed}.pth")
    found, count = changed("torch-state-dict", tmp_path / "0.pth", tmp_path / "1.pth")
    assert (found, count) == (["3.weight"], 9)


def test_tensors_that_share_their_storage(tmp_path):
    weight = torch.ones(3, 3)
    torch.save({"here": weight, "there": weight}, tmp_path / "a.pt")
    assert list(weight_digests("torch-state-dict", {"model": tmp_path / "a.pt"})) == ["here"]


def test_safetensors(tmp_path):
    save = pytest.importorskip("safetensors.torch").save_file
    for seed in (0, 1):
        save(network(seed=seed).state_dict(), str(tmp_path / f"{seed}.safetensors"))
    found, count = changed("torch-state-dict", tmp_path / "0.safetensors", tmp_path / "1.safetensors")
    assert (found, count) == (["3.weight"], 9)


def test_torchscript_and_torch_export_have_their_storages_compared(tmp_path):
    for seed in (0, 1):
        torch.jit.save(torch.jit.script(network(seed=seed)), str(tmp_path / f"{seed}.ts"))
        torch.export.save(torch.export.export(network(seed=seed), (torch.zeros(2, 4),)), str(tmp_path / f"{seed}.pt2"))
    for format_, ending in (("torchscript", "ts"), ("torch-export", "pt2")):
        found, count = changed(format_, tmp_path / f"0.{ending}", tmp_path / f"1.{ending}")
        assert len(found) == 1, format_
        assert count >= 8


def test_what_cannot_be_read_so_has_no_digests(tmp_path):
    path = tmp_path / "old.pth"
    torch.save(network().state_dict(), path, _use_new_zipfile_serialization=False)
    assert weight_digests("torch-state-dict", {"model": path}) == {}
    for content in (b"", b"PK", np.random.default_rng(0).bytes(2000), b"\xff" * 16):
        for ending in ("pth", "safetensors"):
            (tmp_path / f"bad.{ending}").write_bytes(content)
            assert weight_digests("torch-state-dict", {"model": tmp_path / f"bad.{ending}"}) == {}
    assert weight_digests("keras-h5", {"model": path}) == {}


def test_nothing_of_a_pickle_is_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "mark"), "w"))

    torch.save({"a": torch.zeros(2), "b": Evil()}, tmp_path / "evil.pth")
    assert list(weight_digests("torch-state-dict", {"model": tmp_path / "evil.pth"})) == ["a"]
    assert not (tmp_path / "mark").exists()
