from __future__ import annotations

import zipfile

import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.manifests.formats import detect_format, guess_format, model_stem


def touch(folder, *names: str, content: bytes = b"x"):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder / names[0]


def archive(path, *names: str):
    with zipfile.ZipFile(path, "w") as z:
        for name in names:
            z.writestr(name, "x")
    return path


@pytest.mark.parametrize(
    ("names", "asked", "format_", "roles"),
    [
        (["a.onnx"], "a.onnx", "onnx", {"model": "a.onnx"}),
        (["a.ONNX"], "a.ONNX", "onnx", {"model": "a.ONNX"}),
        (["a.pb"], "a.pb", "tf-frozen", {"model": "a.pb"}),
        (["a.prototxt", "a.caffemodel"], "a.caffemodel", "caffe", {"model": "a.prototxt", "weights": "a.caffemodel"}),
        (["a.deploy.prototxt", "a.caffemodel", "b.prototxt"], "a.caffemodel", "caffe",
         {"model": "a.deploy.prototxt", "weights": "a.caffemodel"}),
        (["net.prototxt", "iter_9.caffemodel"], "net.prototxt", "caffe",
         {"model": "net.prototxt", "weights": "iter_9.caffemodel"}),
        (["a-symbol.json", "a-0001.params", "a-0012.params"], "a-symbol.json", "mxnet",
         {"model": "a-symbol.json", "weights": "a-0012.params"}),
        (["a-symbol.json", "a-0001.params", "a-0012.params"], "a-0001.params", "mxnet",
         {"model": "a-symbol.json", "weights": "a-0001.params"}),
        (["s/saved_model.pb"], "s", "tf-savedmodel", {"model": "s"}),
        (["a.th"], "a.th", "torch-state-dict", {"model": "a.th"}),
        (["a.safetensors"], "a.safetensors", "torch-state-dict", {"model": "a.safetensors"}),
    ],
)  # fmt: skip
def test_formats_and_pairs(tmp_path, names, asked, format_, roles):
    touch(tmp_path, *names)
    found, files = detect_format(tmp_path / asked)
    assert found == format_
    assert {role: path.name for role, path in files.items()} == roles


def test_openvino_pairs_and_is_xml(tmp_path):
    touch(tmp_path, "a.bin")
    touch(tmp_path, "a.xml", content=b'<?xml version="1.0"?><net/>')
    assert detect_format(tmp_path / "a.xml")[1]["weights"].name == "a.bin"
    touch(tmp_path, "b.xml", "b.bin", content=b"\x00\x01")
    with pytest.raises(ModelError, match="not a model"):
        detect_format(tmp_path / "b.xml")


@pytest.mark.parametrize(
    ("present", "missing"),
    [("a.caffemodel", "a.prototxt"), ("a-symbol.json", "a-0000.params"), ("a-0000.params", "a-symbol.json")],
)
def test_half_a_model_names_the_other_half(tmp_path, present, missing):
    touch(tmp_path, present)
    with pytest.raises(ModelError, match=missing):
        detect_format(tmp_path / present)


def test_content_corrects_the_name(tmp_path):
    assert detect_format(touch(tmp_path, "a.lite", content=b"\x1c\0\0\0TFL3abc"))[0] == "tflite"
    assert detect_format(touch(tmp_path, "b.bin2", content=b"\x1c\0\0\0TFL3abc"))[0] == "tflite"
    assert detect_format(touch(tmp_path, "c.keras", content=b"\x89HDF\r\n\x1a\nabc"))[0] == "keras-h5"
    assert (
        detect_format(archive(tmp_path / "d.pth", "d/code/x.py", "d/constants.pkl", "d/data.pkl"))[0] == "torchscript"
    )
    assert detect_format(archive(tmp_path / "e.pt", "e/data.pkl", "e/data/0"))[0] == "torch-state-dict"
    assert detect_format(archive(tmp_path / "f.pt2", "f/archive_format", "f/models/model.json"))[0] == "torch-export"
    assert detect_format(archive(tmp_path / "g.keras", "config.json", "model.weights.h5"))[0] == "keras"
    assert detect_format(touch(tmp_path, "h.pt", content=b"\x80\x02\x8a"))[0] == "torch-state-dict"


@pytest.mark.parametrize("name", ["notes.txt", "a.bin", "a.json", "noext"])
def test_other_files_are_refused(tmp_path, name):
    with pytest.raises(ModelError, match="format that zoolens knows"):
        detect_format(touch(tmp_path, name))


def test_absent_and_empty_files(tmp_path):
    with pytest.raises(ModelError, match="does not exist"):
        detect_format(tmp_path / "a.onnx")
    with pytest.raises(ModelError):
        detect_format(touch(tmp_path, "a.pt", content=b""))


def test_names(tmp_path):
    assert model_stem(tmp_path / "a-symbol.json") == "a"
    assert model_stem(tmp_path / "a-0001.params") == "a"
    assert model_stem(tmp_path / "net_v1.1.deploy.prototxt") == "net_v1.1"
    assert guess_format(tmp_path / "x.params") is None
