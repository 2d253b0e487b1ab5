from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from zoolens.base.errors import ManifestError
from zoolens.conftest import ASSETS
from zoolens.faces.cli.manifest import command
from zoolens.inventory.catalog.test_draft import write_onnx
from zoolens.inventory.manifests.files import read_manifest


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))


@pytest.fixture
def model(tmp_path) -> Path:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    folder = tmp_path / "models"
    folder.mkdir()
    write_onnx(onnx, folder / "tiny.onnx", (1, 3, 4, 4), 48)
    return folder / "tiny.onnx"


def invoke(*args: object):
    return CliRunner().invoke(command, [str(arg) for arg in args])


def test_init_then_validate(model):
    result = invoke("init", model)
    assert result.exit_code == 0, result.output
    assert "Guessed, please check" in result.stdout
    path = model.with_name("tiny.yaml")
    assert invoke("validate", path).stdout == f"{path} is valid.\n"
    assert read_manifest(path).assets[0].files[0].location == "tiny.onnx"


def test_init_does_not_overwrite(model):
    invoke("init", model)
    assert isinstance(invoke("init", model).exception, ManifestError)
    assert invoke("init", model, "--force").exit_code == 0


def test_init_elsewhere_names_the_file_from_there(model, tmp_path):
    (tmp_path / "other").mkdir()
    for target, location in (
        (tmp_path / "up.yaml", "models/tiny.onnx"),
        (tmp_path / "other" / "x.yaml", f"file://{model.resolve()}"),
    ):
        assert invoke("init", model, "-o", target).exit_code == 0
        assert read_manifest(target).assets[0].files[0].location == location
        assert invoke("validate", target).exit_code == 0
    assert invoke("init", model, "-o", "-").stdout.startswith("zoolens: 1\nname: tiny\n")


def test_import_writes_a_draft_that_validates_and_says_what_it_does_not_know(tmp_path):
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "model.onnx").write_text("onnx")
    (tmp_path / "names.txt").write_text("a\nb\n")
    (tmp_path / "config.pbtxt").write_text(
        'name: "pair" backend: "onnxruntime" max_batch_size: 1 input { name: "x" dims: [ 3, 8, 8 ] }'
        'output { name: "y" dims: 2 label_filename: "names.txt" } output { name: "z" dims: [ 2, 2 ] }'
    )
    result = invoke("import", tmp_path)
    assert result.exit_code == 0, result.output
    assert "Unknown: the task of z." in result.stdout
    path = tmp_path / "pair.yaml"
    assert read_manifest(path).assets[0].files[0].location == "2/model.onnx"
    assert invoke("validate", path).stdout == f"{path} is valid.\n"
    assert "exists already" in str(invoke("import", tmp_path).exception)
    (tmp_path / "elsewhere").mkdir()
    other = tmp_path / "elsewhere" / "pair.yaml"
    assert invoke("import", tmp_path / "config.pbtxt", "-o", other).exit_code == 0
    assert read_manifest(other).outputs[0].labels == ("a", "b"), "a run reads no labels file outside the folder"
    assert read_manifest(other).outputs[0].labels_file is None
    assert invoke("validate", other).exit_code == 0


def test_validate_reports_problems_of_the_text_with_lines(tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("zoolens: 1\nname: bad\ninputs:\n  - shape: [1, 3, 100000, 100000]\noutputs: [{}]\nextra: 1\n")
    result = invoke("validate", bad)
    assert result.exit_code == 1
    assert f"{bad} line 4: inputs[0].shape: a dimension of 100,000" in result.stdout
    assert f"{bad} line 6: extra: unknown key" in result.stdout


def test_validate_reports_problems_of_files_and_labels(model):
    path = model.with_name("tiny.yaml")
    path.write_text(
        "zoolens: 1\nname: tiny\ninputs:\n  - shape: [1, 3, 4, 4]\noutputs:\n  - labels: [a, b]\nassets:\n"
        "  - format: onnx\n    files:\n      - location: tiny.onnx\n        bytes: 7\n"
        "  - format: tflite\n    files:\n      - location: ../escape.tflite\n"
        "  - format: onnx\n    files:\n      - location: tiny.onnx\n        sha256: '00000000'\n"
        "  - format: onnx\n    files:\n      - location: absent.onnx\n"
    )
    result = invoke("validate", path)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert any(" line 11: assets[0].files[0].bytes: tiny.onnx has " in line for line in lines)
    assert any(" line 14: " in line and "leads out" in line for line in lines)
    assert any(" line 17: " in line and "expected 00000000" in line for line in lines)
    assert any(" line 21: " in line and "does not exist" in line for line in lines)
    assert any(" line 6: outputs[0].labels: 2 class names, but the model gives 48" in line for line in lines)


def test_validate_counts_labels_after_postprocessing_and_from_files(model):
    path = model.with_name("tiny.yaml")
    labels = model.with_name("labels.txt")
    text = (
        "zoolens: 1\nname: tiny\ninputs: [{shape: [1, 3, 4, 4]}]\n"
        "outputs: [{labels_file: labels.txt, postprocess: [{op: drop_leading, count: 8}]}]\n"
        "assets: [{format: onnx, files: [{location: tiny.onnx}]}]\n"
    )
    path.write_text(text)
    labels.write_text("x\n" * 40)
    assert invoke("validate", path).exit_code == 0
    labels.write_text("x\n" * 48)
    assert "48 class names, but the model gives 40" in invoke("validate", path).stdout
    labels.unlink()
    assert "labels.txt cannot be read: No such file" in invoke("validate", path).stdout
    for outside in ("../../etc/passwd", "file:///etc/passwd"):  # what a run refuses, validate refuses too
        path.write_text(text.replace("labels.txt", f"'{outside}'"))
        result = invoke("validate", path)
        assert result.exit_code == 1
        assert "outputs[0]: The labels file" in result.stdout


def test_validate_takes_folders_and_passes_over_other_yaml(model):
    invoke("init", model)
    model.with_name("compose.yaml").write_text("services: {}\n")
    result = invoke("validate", model.parent)
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 1


def test_schema_is_json_schema():
    data = json.loads(invoke("schema").stdout)
    assert data["title"] == "Manifest"
    assert "inputs" in data["required"]


@pytest.mark.assets
@pytest.mark.skipif(not ASSETS.is_dir(), reason="no reference assets (ZOOLENS_ASSETS)")
def test_init_of_a_reference_model(tmp_path):
    pytest.importorskip("ai_edge_litert")
    file = ASSETS / "imagenet" / "tflite" / "tflitesupport_mobilenet_v1_0.25_224_float.tflite"
    target = tmp_path / "m.yaml"
    assert invoke("init", file, "-o", target).exit_code == 0
    assert invoke("validate", target).exit_code == 0
    assert read_manifest(target).outputs[0].postprocess[0].op == "drop_leading"
