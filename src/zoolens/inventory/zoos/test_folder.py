from __future__ import annotations

import os
from pathlib import Path

import pytest

from zoolens.conftest import ASSETS
from zoolens.inventory.zoos.folder import FolderZoo
from zoolens.inventory.zoos.zoo import Weights

MANIFEST = """\
zoolens: 1
name: {name}
version: {version}
inputs: [{{shape: [1, 3, 8, 8]}}]
outputs: [{{}}]
assets: [{{format: onnx, files: [{{location: {file}}}]}}]
"""


def write(root: Path, name: str, text: str = "x") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def manifest(name: str = "net", file: str = "net.onnx", version: str = "1.0.0") -> str:
    return MANIFEST.format(name=name, file=file, version=version)


def test_manifests_and_bare_files(tmp_path):
    write(tmp_path, "a/net.yaml", manifest())
    write(tmp_path, "a/net.onnx")
    write(tmp_path, "a/bare.tflite")
    write(tmp_path, "b/pair.prototxt")
    write(tmp_path, "b/pair.caffemodel")
    write(tmp_path, "b/saved/saved_model.pb")
    write(tmp_path, "b/saved/variables/variables.index")
    write(tmp_path, "b/weights.pth")
    write(tmp_path, "b/readme.txt")
    write(tmp_path, ".hidden/net.onnx")
    write(tmp_path, "compose.yaml", "services: {}\n")
    zoo = FolderZoo([tmp_path])
    entries = {entry.ref: entry for entry in zoo.entries()}
    assert list(entries) == [
        "folder:net",
        "folder:a/bare.tflite",
        "folder:b/pair.prototxt",
        "folder:b/saved",
        "folder:b/weights.pth",
    ]
    assert entries["folder:net"].described
    assert entries["folder:net"].folder == tmp_path / "a"
    assert not entries["folder:a/bare.tflite"].described
    assert entries["folder:b/pair.prototxt"].manifest.attributes["files"] == {
        "model": "b/pair.prototxt",
        "weights": "b/pair.caffemodel",
    }
    assert {entry.weights for entry in entries.values()} == {Weights.PRESENT}
    assert zoo.problems() == []


def test_files_are_not_opened_for_a_listing(tmp_path, monkeypatch):
    write(tmp_path, "a.onnx")
    write(tmp_path, "b.pt")
    monkeypatch.setattr(Path, "open", lambda *_: pytest.fail("opened"))
    assert len(list(FolderZoo([tmp_path]).entries())) == 2


def test_a_broken_manifest_is_a_problem_and_the_rest_is_listed(tmp_path):
    write(tmp_path, "bad.yaml", "zoolens: 1\nname: bad\nbogus: 1\n")
    write(tmp_path, "good.yaml", manifest())
    write(tmp_path, "half.caffemodel")
    zoo = FolderZoo([tmp_path, tmp_path / "absent"])
    assert [entry.ref for entry in zoo.entries()] == ["folder:net"]
    text = " ".join(zoo.problems())
    assert "bad.yaml is not a valid manifest" in text
    assert "line 3: bogus" in text
    assert "half.prototxt is not beside it" in text
    assert "is not a folder" in text


def test_absent_weights_are_said_to_be_absent(tmp_path):
    write(tmp_path, "net.yaml", manifest())
    assert [entry.weights for entry in FolderZoo([tmp_path]).entries()] == [Weights.ABSENT]


def test_the_same_name_twice_is_a_problem_two_versions_are_not(tmp_path):
    write(tmp_path, "a/net.yaml", manifest())
    write(tmp_path, "b/net.yaml", manifest())
    write(tmp_path, "c/net.yaml", manifest(version="2.0.0"))
    zoo = FolderZoo([tmp_path])
    assert [entry.full_ref for entry in zoo.entries()] == ["folder:net@1.0.0", "folder:net@2.0.0"]
    assert "folder:net@1.0.0 is there twice" in zoo.problems()[0]


def test_roots_come_from_the_environment(tmp_path, monkeypatch):
    write(tmp_path, "a/x.onnx")
    write(tmp_path, "b/y.onnx")
    monkeypatch.setenv("ZOOLENS_ZOO_PATH", f"{tmp_path / 'a'}{os.pathsep}{tmp_path / 'b'}")
    assert [entry.ref for entry in FolderZoo().entries()] == ["folder:x.onnx", "folder:y.onnx"]
    monkeypatch.delenv("ZOOLENS_ZOO_PATH")
    assert "ZOOLENS_ZOO_PATH" in FolderZoo().available()


def test_links_out_of_the_folder_do_not_loop(tmp_path):
    write(tmp_path, "a/x.onnx")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    assert len(list(FolderZoo([tmp_path]).entries())) == 1


@pytest.mark.assets
@pytest.mark.skipif(not ASSETS.is_dir(), reason="no reference assets (ZOOLENS_ASSETS)")
def test_the_reference_models_are_all_recognised():
    zoo = FolderZoo([ASSETS])
    entries = list(zoo.entries())
    assert len(entries) == 51
    assert zoo.problems() == []
    assert {entry.manifest.attributes["format"] for entry in entries} >= {
        "caffe",
        "mxnet",
        "openvino-ir",
        "tf-savedmodel",
    }


@pytest.mark.parametrize("spoilt", [
    'attributes: {a: !!int ""}', "attributes: {a: !!timestamp x}",
    'assets: [{format: onnx, files: [{location: "a\\0b"}]}]',
    'assets: [{format: onnx, files: [{location: "file:///a\\0b"}]}]', "attributes: {a: !!bool x}",
    'assets: [{format: onnx, files: [{location: "' + "a" * 5000 + '"}]}]',
    'assets: [{format: onnx, files: [{location: "package://numpy/a\\0b"}]}]', "outputs: [{labels_file: loop}]",
])  # fmt: skip
def test_one_bad_manifest_leaves_the_others_listed(tmp_path, spoilt):
    good = "zoolens: 1\nname: {}\ninputs: [{{shape: [1, 3, 8, 8]}}]\n"
    (tmp_path / "good.yaml").write_text(good.format("good") + "outputs: [{}]\n")
    rest = "" if "outputs" in spoilt else "outputs: [{}]\n"
    (tmp_path / "bad.yaml").write_text(good.format("bad") + rest + spoilt + "\n")
    (tmp_path / "loop").symlink_to("loop")
    zoo = FolderZoo([tmp_path])
    assert "good" in {entry.manifest.name for entry in zoo.entries()}
