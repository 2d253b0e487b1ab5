from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from zoolens.cli.show import command
from zoolens.errors import UnknownName

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
        "    3. crop the central 87.5% of each side",
        "    4. normalise: (pixel × 0.00392157 − [0.5, 0.4, 0.3]) ÷ 0.2",
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
