from __future__ import annotations

from pathlib import Path

import pytest

from zoolens.base.errors import ManifestError
from zoolens.inventory.manifests.files import dump_manifest, parse_manifest
from zoolens.inventory.manifests.foreign.importing import import_manifest

CLASSIFIER = """
name: "flowers"
platform: "onnxruntime_onnx"
max_batch_size: 16
input [ { name: "pixels" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, 128, 160 ] } ]
output [ { name: "scores" data_type: TYPE_FP32 dims: [ 5 ] label_filename: "flowers.txt" } ]
dynamic_batching { preferred_batch_size: [ 4, 8 ] }
instance_group [ { count: 2 kind: KIND_CPU } ]
"""


def write(folder: Path, text: str, *files: str) -> Path:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "config.pbtxt").write_text(text)
    return folder / "config.pbtxt"


def imported(folder: Path, text: str, *files: str):
    manifest = import_manifest(write(folder, text, *files))
    assert parse_manifest(dump_manifest(manifest)) == manifest
    return manifest


def test_a_classifier_with_version_folders_and_labels(tmp_path):
    manifest = imported(tmp_path, CLASSIFIER, "1/model.onnx", "3/model.onnx", "notes/model.onnx", "flowers.txt")
    (tensor,), (output,) = manifest.inputs, manifest.outputs
    assert (tensor.name, tensor.shape, tensor.layout, tensor.color) == ("pixels", (None, 3, 128, 160), "NCHW", "RGB")
    assert [step.op for step in tensor.preprocess] == ["resize", "normalize"]
    assert (output.name, output.task, output.scores, output.labels_file) == (
        "scores",
        "classification",
        "logits",
        "flowers.txt",
    )
    (file,) = manifest.assets[0].files
    assert (manifest.name, manifest.assets[0].format, file.location) == ("flowers", "onnx", "3/model.onnx")
    assert file.sha256
    assert file.bytes == len("3/model.onnx")
    assert "Guessed, please check: RGB order; images are resized to 128×160" in manifest.description
    assert "Unknown" not in manifest.description


def test_the_folder_names_a_model_without_a_name_and_the_policy_chooses_the_version(tmp_path):
    folder = tmp_path / "night model"
    folder.mkdir()
    text = CLASSIFIER.replace('name: "flowers"', "version_policy: { specific { versions: [ 1, 2 ] } }")
    write(folder, text, *(f"{version}/model.onnx" for version in (1, 2, 3)), "flowers.txt")
    manifest = import_manifest(folder)
    assert manifest.name == "night_model"
    assert manifest.assets[0].files[0].location == "2/model.onnx"


def test_libtorch_without_batching_and_free_extents(tmp_path):
    text = """
    backend: "pytorch"
    default_model_filename: "net.ts"
    input { name: "image__0" data_type: TYPE_UINT8 dims: -1 dims: 3 dims: -1 dims: -1 }
    output { name: "probs__0" data_type: TYPE_FP32 dims: [ -1, 10 ] }
    """
    manifest = imported(tmp_path, text, "1/net.ts")
    assert manifest.inputs[0].shape == (None, 3, None, None)
    assert manifest.inputs[0].dtype == "uint8"
    assert manifest.outputs[0].scores == "probabilities"
    assert manifest.assets[0].format == "torchscript"


def test_openvino_needs_both_files(tmp_path):
    text = CLASSIFIER.replace('platform: "onnxruntime_onnx"', 'backend: "openvino"')
    assert "there is no .bin" in imported(tmp_path, text, "1/model.xml").description
    files = imported(tmp_path, text, "1/model.xml", "1/model.bin").assets[0].files
    assert [(file.role, file.location) for file in files] == [("model", "1/model.xml"), ("weights", "1/model.bin")]


def test_a_saved_model_is_a_folder(tmp_path):
    text = CLASSIFIER.replace("onnxruntime_onnx", "tensorflow_savedmodel").replace("NCHW dims: [ 3,", "NHWC dims: [")
    text = text.replace("128, 160 ]", "128, 160, 3 ]")
    manifest = imported(tmp_path, text, "1/model.savedmodel/saved_model.pb")
    assert manifest.inputs[0].shape == (None, 128, 160, 3)
    assert manifest.assets[0].files[0].location == "1/model.savedmodel"


def test_text_tensors_and_reshape(tmp_path):
    text = """
    name: "reader" platform: "onnxruntime_onnx" max_batch_size: 4
    input [
      { name: "ids" data_type: TYPE_INT64 dims: [ -1 ] },
      { name: "length" data_type: TYPE_UINT32 dims: [ 1 ] reshape: { shape: [ ] } }
    ]
    output [ { name: "hidden" data_type: TYPE_FP32 dims: [ -1, 768 ] } ]
    """
    manifest = imported(tmp_path, text)
    ids, length = manifest.inputs
    assert (ids.modality, ids.shape, ids.dtype) == ("array", (None, None), "int64")
    assert length.shape == (None,)
    assert manifest.outputs[0].task == "other"
    assert manifest.assets == ()
    assert "length is float32, since TYPE_UINT32 is not known here" in manifest.description
    assert "Unknown: where the model is: no version folder here holds model.onnx; the task of hidden" in (
        manifest.description
    )


def test_a_model_that_zoolens_cannot_run_is_described_without_files(tmp_path):
    manifest = imported(tmp_path, CLASSIFIER.replace("onnxruntime_onnx", "tensorrt_plan"), "1/model.plan")
    assert manifest.assets == ()
    assert "zoolens runs no model of tensorrt_plan" in manifest.description


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (CLASSIFIER.replace("onnxruntime_onnx", "ensemble"), "an ensemble, which is a chain of models. Import each"),
        ('name: "bare" backend: "onnxruntime"', "names no inputs: Triton completes it from the model. Draft"),
        (CLASSIFIER.replace("output [", "outputs ["), "names no outputs"),
        (CLASSIFIER.replace("[ 3, 128, 160 ]", "[ 3, 0, 160 ]"), "input.0.dims: an extent must be positive"),
        (CLASSIFIER.replace("[ 3, 128, 160 ]", '[ "three" ]'), "input.0.dims.0: Input should be a valid integer"),
        (CLASSIFIER.replace("[ 3, 128, 160 ]", "[ 3, 99999999, 160 ]"), "describes an invalid model"),
        (CLASSIFIER.replace("size: 16", "size: { a: 1 }"), "max_batch_size: Input should be a valid integer"),
        (CLASSIFIER + "input: 7", "input.1: a message in braces is expected"),
        ("<html>", "not a Triton configuration: line 1"),
        ("", "names no inputs"),
    ],
)
def test_one_sentence_for_what_is_no_configuration(tmp_path, text, sentence):
    with pytest.raises(ManifestError) as caught:
        import_manifest(write(tmp_path, text))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["../../secret.onnx", "/etc/passwd", "..", "x" * 5000, "a\\0b"])
def test_files_outside_the_folder_are_not_looked_at(tmp_path, name):
    (tmp_path / "secret.onnx").write_text("secret")
    folder = tmp_path / "a" / "b"
    (folder / "1").mkdir(parents=True)
    manifest = import_manifest(write(folder, CLASSIFIER + f'default_model_filename: "{name}"'))
    assert manifest.assets == ()


@pytest.mark.parametrize("content", [b"caf\xe9\n", b"a" * ((1 << 22) + 1), None])
def test_labels_that_no_run_can_read_are_unknown(tmp_path, content):
    path = write(tmp_path, CLASSIFIER, "1/model.onnx")
    if content is None:
        (tmp_path / "flowers.txt").mkdir()
    else:
        (tmp_path / "flowers.txt").write_bytes(content)
    manifest = import_manifest(path)
    assert manifest.outputs[0].labels_file is None
    assert "class names: flowers.txt is missing or is not text" in manifest.description
