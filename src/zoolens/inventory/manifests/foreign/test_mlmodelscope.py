from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from zoolens.base.errors import ManifestError
from zoolens.inventory.manifests.files import dump_manifest, parse_manifest
from zoolens.inventory.manifests.foreign.importing import import_manifest
from zoolens.inventory.manifests.schema_steps import Normalize, Resize

ONNX = """
name: Meadow_Net            # a classifier for ONNX Runtime
framework:
  name: Onnxruntime
  version: 1.6.0
version: 1.0
container:
  amd64: {cpu: "example/agent:amd64-cpu", gpu: "example/agent:amd64-gpu"}
description: >
  Tells meadows
  from woods.
references:
  - https://example.org/meadow
license: MIT
inputs:
  - type: image
    description: the input image
    parameters:
      element_type: float32
      input_layer: 0
      layout: CHW
      color_mode: RGB
      dimensions: [3, 96, 128]
      mean: [123.675, 116.28, 103.53]
      scale: [58.395, 57.12, 57.375]
output:
  type: classification
  parameters:
    element_type: float32
    probabilities_layer: 0
    probabilities_transform: softmax
    features_url: http://example.org/labels/meadow.txt
    features_checksum: 4d234b5833aca44928065a180db3016a
model:
  graph_path: https://example.org/models/meadow.onnx
  is_archive: false
  graph_checksum: 1fa49494d4b1c24a0ee5e871930343de
attributes:
  kind: CNN
  training_dataset: Fields
  Top1: 71.5
"""

TENSORFLOW = """
name: River Net
framework: {name: TensorFlow, version: "^1.12"}
version: v2
inputs:
  - type: image
    parameters: {input_layer: input, layout: HWC, dimensions: [3, 64, 64], mean: [128, 128, 128], scale: 128}
output:
  type: feature
  parameters: {probabilities_layer: River/Predictions, features_url: https://example.org/river.txt}
model:
  base_url: https://example.org/river.tgz
  graph_path: river_frozen.pb
  is_archive: true
"""

MXNET = """
name: hill
framework: {name: MXNet, version: '>=1.1.0'}
inputs:
  - type: image
    parameters: {layer_name: data, layout: CHW, color_mode: BGR, dimensions: [1, 3, 32, 32], mean: 117}
output: {type: classification, parameters: {layer_name: prob}}
model:
  base_url: http://example.org/hill
  graph_path: hill-symbol.json
  weights_path: hill-0000.params
  is_archive: false
  graph_checksum:
licence: Apache-2.0
"""

DETECTOR = """
name: boxes
framework: {name: TensorFlow, version: 1.12}
inputs: [{type: image, parameters: {element_type: uint8, input_layer: image_tensor, layout: HWC}}]
output: {type: boundingbox, parameters: {boxes_layer: b, probabilities_layer: s}}
model: {base_url: , graph_path: https://example.org/boxes.pb}
preprocess: |
  import os
  os.remove("everything")
postprocess: "  "
"""

TEXT = """
name: words
framework: Onnxruntime
inputs: [{type: general}]
output: {type: text, description: answers}
model: {graph_path: words.onnx}
"""


def imported(folder: Path, text: str):
    (folder / "model.yml").write_text(text)
    manifest = import_manifest(folder / "model.yml")
    assert parse_manifest(dump_manifest(manifest)) == manifest
    return manifest


def test_a_classifier_whose_file_is_elsewhere(tmp_path):
    manifest = imported(tmp_path, ONNX)
    (tensor,) = manifest.inputs
    assert (manifest.name, manifest.version, manifest.license) == ("Meadow_Net", "1.0.0", "MIT")
    assert (tensor.name, tensor.shape, tensor.layout, tensor.color) == (None, (None, 3, 96, 128), "NCHW", "RGB")
    assert tensor.preprocess == (
        Resize(op="resize", size=(96, 128)),
        Normalize(op="normalize", mean=(123.675, 116.28, 103.53), std=(58.395, 57.12, 57.375)),
    )
    assert manifest.outputs[0].scores == "logits"
    (file,) = manifest.assets[0].files
    assert (manifest.assets[0].format, file.location, file.sha256) == (
        "onnx",
        "https://example.org/models/meadow.onnx",
        None,
    )
    assert manifest.framework.version == "==1.6.0"
    assert manifest.attributes["model_md5"] == "1fa49494d4b1c24a0ee5e871930343de"
    (claim,) = manifest.claims
    assert (claim.metric, claim.value, claim.source) == ("top1", 0.715, "https://example.org/meadow")
    assert claim.dataset is None  # it was trained on Fields; on what it was measured is not said
    assert manifest.attributes["training_dataset"] == "Fields"
    assert manifest.description.startswith(
        "Tells meadows from woods. Imported from the MLModelScope manifest model.yml."
    )
    assert "class names, which lie at http://example.org/labels/meadow.txt" in manifest.description
    assert "SHA-256 of the files, without which they are not fetched" in manifest.description


def test_files_that_are_here_are_named_with_their_digest(tmp_path):
    (tmp_path / "meadow.onnx").write_bytes(b"onnx")
    (tmp_path / "meadow.txt").write_text("meadow\nwood\n")
    with pytest.raises(ManifestError, match=r"meadow\.onnx is not the file that the manifest means: its MD5 is"):
        imported(tmp_path, ONNX)
    manifest = imported(tmp_path, ONNX.replace("1fa49494d4b1c24a0ee5e871930343de", hashlib.md5(b"onnx").hexdigest()))
    (file,) = manifest.assets[0].files
    assert (file.location, file.bytes) == ("meadow.onnx", 4)
    assert file.sha256
    assert manifest.outputs[0].labels_file == "meadow.txt"
    assert "Unknown" not in manifest.description


def test_mean_and_scale_of_a_bgr_model_are_stated_in_the_order_of_rgb(tmp_path):
    manifest = imported(tmp_path, ONNX.replace("color_mode: RGB", "color_mode: BGR"))
    assert manifest.inputs[0].color == "BGR"
    assert manifest.inputs[0].preprocess[1] == Normalize(
        op="normalize", mean=(103.53, 116.28, 123.675), std=(57.375, 57.12, 58.395)
    )
    assert "mean and scale are stated in the order red, green, blue" in manifest.description


def test_a_share_is_not_taken_for_a_percentage(tmp_path):
    manifest = imported(tmp_path, ONNX.replace("Top1: 71.5", "Top1: 0.715"))
    assert manifest.claims == ()
    assert "whether top1 0.715 is a share or a percentage" in manifest.description


def test_an_archive_is_not_unpacked_and_says_so(tmp_path):
    manifest = imported(tmp_path, TENSORFLOW)
    (tensor,) = manifest.inputs
    assert (manifest.name, manifest.version) == ("River_Net", "2.0.0")
    assert (tensor.name, tensor.shape, tensor.layout) == ("input", (None, 64, 64, 3), "NHWC")
    assert tensor.preprocess[1] == Normalize(op="normalize", mean=(128.0,), std=(128.0,))
    assert manifest.outputs[0].name == "River/Predictions"
    assert manifest.assets == ()
    assert "the archive https://example.org/river.tgz: unpack river_frozen.pb beside this" in manifest.description
    assert "which versions of TensorFlow '^1.12' means" in manifest.description
    (tmp_path / "river_frozen.pb").write_bytes(b"pb")
    assert imported(tmp_path, TENSORFLOW).assets[0].format == "tf-frozen"


def test_a_pair_of_files_and_dimensions_with_a_batch_axis(tmp_path):
    manifest = imported(tmp_path, MXNET)
    assert manifest.inputs[0].shape == (None, 3, 32, 32)
    assert manifest.inputs[0].color == "BGR"
    assert manifest.inputs[0].preprocess[1] == Normalize(op="normalize", mean=(117.0,))
    assert manifest.outputs[0].name == "prob"
    assert manifest.license == "Apache-2.0"
    assert [(file.role, file.location) for file in manifest.assets[0].files] == [
        ("model", "https://example.org/hill/hill-symbol.json"),
        ("weights", "https://example.org/hill/hill-0000.params"),
    ]


def test_a_detector_of_images_of_any_size_whose_code_is_left_alone(tmp_path):
    manifest = imported(tmp_path, DETECTOR)
    assert manifest.inputs[0].shape == (None, None, None, 3)
    assert manifest.inputs[0].dtype == "uint8"
    assert manifest.inputs[0].preprocess == ()
    assert manifest.outputs[0].task == "other"
    assert manifest.code is None
    for words in ("the size of its images", "type boundingbox", "its code under preprocess does, which is not exec"):
        assert words in manifest.description


def test_an_input_that_is_no_image(tmp_path):
    manifest = imported(tmp_path, TEXT)
    assert (manifest.inputs[0].modality, manifest.inputs[0].shape) == ("array", (None,))
    assert manifest.framework.name == "onnxruntime"
    assert manifest.assets[0].files[0].location == "words.onnx"


def test_a_framework_that_zoolens_does_not_run(tmp_path):
    manifest = imported(tmp_path, ONNX.replace("Onnxruntime", "CNTK"))
    assert manifest.assets == ()
    assert "zoolens runs no model of cntk" in manifest.description


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name: MXNet\nversion: 0.1\ncontainer: {}", "it needs the keys name, inputs and model"),
        ("- a\n- b", "it needs the keys name, inputs and model"),
        (ONNX.replace("mean: [123.675, 116.28, 103.53]", "mean: [a, b]"), "line 24: inputs[0].parameters.mean"),
        (ONNX.replace("[3, 96, 128]", "[3, 96, 1.5]"), "line 23: inputs[0].parameters.dimensions[2]"),
        (ONNX.replace("[3, 96, 128]", "[3, 96, 12800000]"), "describes an invalid model"),
        (ONNX.replace("[3, 96, 128]", "[3, 96, -1]"), "describes an invalid model"),
        (ONNX.replace("scale: [58.395, 57.12, 57.375]", "scale: 0"), "std must not be 0"),
        (ONNX.replace("scale: [58.395, 57.12, 57.375]", "scale: .inf"), "should be a finite number"),
        (ONNX.replace("inputs:", "inputs: []\nunused:"), "inputs: List should have at least 1 item"),
        (ONNX.replace("is_archive: false", "is_archive: [1]"), "model.is_archive"),
        ("a: &x [1]\nb: *x", "aliases"),
        ("name: [", "not valid YAML"),
        ("zoolens: 1\nname: ours", "is a zoolens manifest already"),
    ],
)
def test_one_sentence_for_what_is_no_manifest(tmp_path, text, sentence):
    with pytest.raises(ManifestError) as caught:
        imported(tmp_path, text)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", ["../secret.onnx", "/etc/passwd", "a" * 5000, "x\\0y"])
def test_files_outside_the_folder_are_not_looked_at(tmp_path, path):
    (tmp_path / "secret.onnx").write_text("secret")
    folder = tmp_path / "inner"
    folder.mkdir()
    manifest = imported(folder, ONNX.replace("https://example.org/models/meadow.onnx", f'"{path}"'))
    assert all(file.sha256 is None for asset in manifest.assets for file in asset.files)


def test_attributes_that_no_file_can_hold_are_left_out(tmp_path):
    manifest = imported(tmp_path, ONNX.replace("kind: CNN", "kind: .nan\n  list: [1]\n  also: -.inf"))
    assert {"kind", "list", "also"}.isdisjoint(manifest.attributes)


def test_other_files_are_named_as_such(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(ManifestError, match=r"It imports MLModelScope manifests"):
        import_manifest(tmp_path / "a.json")
    with pytest.raises(ManifestError, match=r"holds no config\.pbtxt"):
        import_manifest(tmp_path)
