from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from zoolens.base.errors import UnknownName
from zoolens.faces.cli.show import command, describe_input, describe_step
from zoolens.findings.graph.structures.structure import structure_of
from zoolens.inventory.manifests.schema import Input

MANIFEST = """\
zoolens: 1
name: net
description: A network.
inputs:
  - shape: [null, 3, 224, 224]
    preprocess:
      - {op: resize, size: 256, library: torchvision, antialias: true}
      - {op: center_crop, size: [224, 224]}
      - {op: center_crop, fraction: 0.875}
      - {op: letterbox, size: [224, 224]}
      - {op: normalize, scale: 0.00392157, mean: [0.5, 0.4, 0.3], std: [0.2]}
outputs:
  - postprocess: [{op: drop_leading}]
    labels: [cat, dog]
assets:
  - format: onnx
    files: [{location: net.onnx, bytes: 1500000}]
  - format: tflite
    files: [{location: ../escape.tflite}]
claims:
  - {metric: top1, value: 0.7613, unit: fraction, dataset: ImageNet-1K, source: the paper}
  - {metric: flops, value: 4089000000, unit: multiply-adds, source: the paper}
"""


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    (tmp_path / "net.yaml").write_text(MANIFEST)
    (tmp_path / "net.onnx").write_bytes(b"x")
    return tmp_path / "net.yaml"


def test_says_it_in_words(path):
    text = CliRunner().invoke(command, [str(path)]).stdout
    for line in (
        "file:net@0.0.0",
        "  the input: ?×3×224×224 float32, RGB image, NCHW",
        "    1. resize shorter side to 256, bilinear as torchvision does it, with antialiasing",
        "    2. crop the central 224×224",
        "    3. crop the central 87.5 % of each side",
        "    4. fit the whole image onto 224×224, in the middle, filled with 114, bilinear as pil does it",
        "    5. normalise: (pixel × 0.00392157 − [0.5, 0.4, 0.3]) ÷ 0.2",
        "  the first output: classification, logits, then drop leading, 2 class names",
        "  onnx (present)",
        "  tflite (absent)",
        "  top1 76.1 % on ImageNet-1K — the paper",
        "  flops 4.09G multiply-adds — the paper",
    ):
        assert line in text.splitlines()
    assert "leads out of the manifest's folder" in text


def test_json(path):
    data = json.loads(CliRunner().invoke(command, [str(path), "--json"]).stdout)
    assert data["ref"] == "file:net@0.0.0"
    assert [asset["presence"] for asset in data["assets"]] == ["present", "absent"]
    assert data["manifest"]["name"] == "net"


def test_an_unknown_model_is_an_explained_error(path):
    result = CliRunner().invoke(command, ["folder:none"])
    assert isinstance(result.exception, UnknownName)


CLAIMED = """\
zoolens: 1
name: net
inputs:
  - shape: [1, 3, 32, 32]
outputs:
  - {}
assets:
  - format: onnx
    files: [{location: net.onnx}]
claims:
  - {metric: params, value: 44, source: the paper}
"""


def test_parameters_are_those_in_use_and_those_held(tmp_path, monkeypatch):
    """A norm and the scale after it are merged: the file holds more numbers than the network needs."""
    onnx = pytest.importorskip("onnx")
    numpy = pytest.importorskip("numpy")
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    weights = {
        "w": numpy.ones((4, 3, 1, 1)), **{name: numpy.ones(4) for name in ("s", "b", "m", "v")},
        "again": numpy.full((4, 1, 1), 2.0), "too": numpy.ones((4, 1, 1)),
    }  # fmt: skip
    helper = onnx.helper
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"]),
            helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
            helper.make_node("Mul", ["n", "again"], ["t"]),
            helper.make_node("Add", ["t", "too"], ["y"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", 1, [1, 3, 32, 32])],
        [helper.make_tensor_value_info("y", 1, [1, 4, 32, 32])],
        [onnx.numpy_helper.from_array(value.astype("float32"), name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)]), tmp_path / "net.onnx")
    path = tmp_path / "net.yaml"
    path.write_text(CLAIMED)
    before = CliRunner().invoke(command, [str(path)]).stdout
    assert f"parameters  not counted here yet: `zoolens cost {path}` counts those in use" in before.splitlines()
    assert not (tmp_path / "home" / "store.sqlite").exists()
    [read] = structure_of(str(path))
    assert read.error is None
    after = CliRunner().invoke(command, [str(path)]).stdout.splitlines()
    assert "parameters  20 (28 held: 8 are merged with others or cut off)" in after
    data = json.loads(CliRunner().invoke(command, [str(path), "--json"]).stdout)
    assert (data["parameters"], data["parameters_held"], data["parameters_merged"]) == (20, 28, 8)


def test_inputs_beside_the_sample_and_steps_of_text_lines_are_described():
    size = Input(name="s", modality="size", size="image_wh", shape=(None, 2), dtype="int64")
    assert describe_input(size) == "s: ?×2 int64, the image's image_wh"
    constant = Input(name="c", modality="constant", value=(1, 0.5), shape=(2,))
    assert describe_input(constant) == "c: 2 float32, always (1.0, 0.5)"
    line = {"op": "resize_height", "height": 48, "width": [320, 640]}
    image = Input(shape=(1, 3, 48, None), preprocess=[line, {"op": "letterbox", "size": [8, 8], "rounding": "floor"}])
    assert describe_step(image.preprocess[0]).startswith("resize to 48×320 to 640, as wide as the aspect ratio says")
    assert describe_step(image.preprocess[1]).endswith("sides by floor")
