from __future__ import annotations

import pytest

from zoolens.inventory.manifests.locations import recorded_files, resolve_asset
from zoolens.inventory.zoos.package import PackageZoo

MANIFEST = """\
zoolens: 1
name: net
inputs: [{shape: [1, 3, 8, 8]}]
outputs: [{}]
assets: [{format: onnx, files: [{location: net.onnx}]}]
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def make(name: str, files: dict[str, str]) -> None:
        info = site / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
        for file, text in files.items():
            path = site / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    recorded_files.cache_clear()
    yield make
    recorded_files.cache_clear()


def test_finds_model_files_and_manifests(install):
    plain = ["net.onnx", "tests/data.onnx", "a/same.onnx", "b/same.onnx", "lone.caffemodel", "pair.caffemodel"]
    files = {f"zzpack/{name}": "x" for name in [*plain, "pair.prototxt"]}
    named = {"zzpack/net.zoolens.yaml": MANIFEST, "zzpack/other.tflite": "y", "zz-paths.pth": "import sys"}
    install("zz-pack", {**files, **named})
    entries = {entry.ref: entry for entry in PackageZoo().entries("zz-pack")}
    assert sorted(entries) == [
        "package:zz-pack/net",
        "package:zz-pack/other",
        "package:zz-pack/pair",
        "package:zz-pack/zzpack/a/same.onnx",
        "package:zz-pack/zzpack/b/same.onnx",
    ]
    assert entries["package:zz-pack/net"].described
    other = entries["package:zz-pack/other"]
    assert resolve_asset(other.manifest.assets[0], other.folder, fetch=False)["model"].read_text() == "y"


def test_a_broken_manifest_is_a_problem(install):
    install("zz-bad", {"zzbad/net.zoolens.yaml": "zoolens: 1\nname: net\n"})
    zoo = PackageZoo()
    assert list(zoo.entries("zz-bad")) == []
    assert any("net.zoolens.yaml is not a valid manifest" in problem for problem in zoo.problems())


def test_our_own_models_are_left_to_the_demo_zoo():
    assert not [entry for entry in PackageZoo().entries() if entry.ref.startswith("package:zoolens/")]
