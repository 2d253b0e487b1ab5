"""Inputs beside the sample (constants, sizes of the image), and files without a batch axis or with one of n."""

import json

import numpy as np
import pytest
import yaml
from PIL import Image

import zoolens
from zoolens.conftest import ASSETS
from zoolens.findings.measure.evaluate import evaluate
from zoolens.inventory.manifests.schema import Manifest

pytestmark = pytest.mark.usefixtures("trusted_models")

QUICK = {"cold": False, "trust": True, "runtimes": "onnxruntime"}
NMS = ASSETS / "tasks" / "detection" / "models" / "yolov8_nms.onnx"

# One box of shares of the image, in pixels of the image: the model is told the size, or the scale and its own canvas.
BOXES = """<ir_version: 8, opset_import: ["" : 17]>
net ({size} size, float[N, 3, 8, 8] image) => (float[N, 1, 4] b, float[N, 1] c, float[N, 1] s)
<float zero = {{0}}, float one = {{1}}, int64[1] first = {{1}}, int64[2] rest = {{2, 3}}, int64[3] box = {{0, 1, 4}},
 float[1, 4] shares = {{0.125, 0.25, 0.625, 0.75}}>
{{
  m = ReduceMean <axes = [1, 2, 3], keepdims = 0> (image)
  z = Mul (m, zero)
  c = Unsqueeze (z, first)
  s = Add (c, one)
  told = Cast <to = 1> (size)
  wide = {wide}
  both = Concat <axis = 1> (wide, wide)
  pixels = Mul (both, shares)
  b = Unsqueeze (pixels, first)
}}
"""


def saved(folder, name, network, inputs, output):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    onnx.save(onnx.parser.parse_model(network), folder / f"{name}.onnx")
    manifest = {
        "name": name,
        "inputs": inputs,
        "outputs": [output],
        "assets": [{"format": "onnx", "files": [{"location": f"{name}.onnx"}]}],
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))
    return folder / f"{name}.yaml"


def figures(outcome):
    assert not outcome.errors
    with zoolens.open_store() as store:
        return {one.metric: one.value for one in store.observations(outcome.run.id)}


@pytest.fixture
def boxed(tmp_path):
    """Images of two sizes, each with a box of a half of either side."""
    sizes = [(16, 8), (32, 24), (8, 40)]
    for number, size in enumerate(sizes):
        Image.new("RGB", size).save(tmp_path / f"{number}.png")
    data = {
        "images": [{"id": n, "file_name": f"{n}.png", "width": w, "height": h} for n, (w, h) in enumerate(sizes)],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [
            {"id": n, "image_id": n, "category_id": 1, "bbox": [w / 8, h / 4, w / 2, h / 2], "area": 1, "iscrowd": 0}
            for n, (w, h) in enumerate(sizes)
        ],
    }
    (tmp_path / "boxes.json").write_text(json.dumps(data))
    return f"coco:{tmp_path / 'boxes.json'}?images={tmp_path}"


@pytest.mark.parametrize(
    ("size", "type_", "wide"),
    [
        ("image_wh", "int64[N, 2]", "Identity (told)"),  # orig_target_sizes of RT-DETR
        ("image_hw", "float[N, 2]", "Gather <axis = 1> (told, order)"),  # image_shape of YOLOv3
        ("scale_wh", "float[N, 2]", "Div (eight, told)"),  # scale_factor of PaddleDetection, the other way round
    ],
)
def test_a_detector_is_told_the_size_or_the_scale_of_the_image(home, tmp_path, boxed, size, type_, wide):
    network = BOXES.format(size=type_, wide=wide)
    network = network.replace("float zero", "int64[2] order = {1, 0}, float eight = {8}, float zero")
    inputs = [
        {"name": "image", "shape": [None, 3, 8, 8], "preprocess": [{"op": "resize", "size": [8, 8]}]},
        {"name": "size", "modality": "size", "size": size, "shape": [None, 2]},
    ]
    read = {"op": "boxes", "format": "xyxy", "units": "image_pixels"}
    output = {"task": "detection", "parts": {"boxes": "b", "classes": "c", "scores": "s"}, "postprocess": [read]}
    model = saved(tmp_path, "told", network, inputs, {**output, "labels": ["cat"]})
    (outcome,) = evaluate(model, boxed, batches=(1, 3), **QUICK)
    assert figures(outcome)["ap"] == 1


def test_what_the_image_has_on_a_letterbox(home, tmp_path, boxed):
    """im_shape of PaddleDetection is the size that the image was resized to, without padding."""
    network = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 3, 8, 8] image, float[N, 2] im_shape) => (float[N, 2] out)
    { out = Identity (im_shape) }"""
    inputs = [
        {"name": "image", "shape": [None, 3, 8, 8], "preprocess": [{"op": "letterbox", "size": [8, 8]}]},
        {"name": "im_shape", "modality": "size", "size": "content_hw", "shape": [None, 2]},
    ]
    model = saved(tmp_path, "content", network, inputs, {"task": "other"})
    (outcome,) = evaluate(model, boxed, batches=(), **QUICK)
    assert not outcome.errors
    with zoolens.open_store() as store:
        (table,) = store.iter_tables(outcome.run.id, "predictions")
    assert table["vector"].to_pylist() == [[4, 8], [6, 8], [8, 2]]


# --- constants, own preparation of two parts, types


@pytest.fixture
def arrays(tmp_path):
    random = np.random.default_rng(0)
    x = random.standard_normal((7, 3)).astype(np.float32)
    picture = random.integers(0, 255, (7, 2, 2, 3), dtype=np.uint8)
    of_both = (picture.mean((1, 2)) / 255 + x).argmax(axis=1)
    np.savez(tmp_path / "data.npz", x=x, picture=picture, use=x > 0, y=x.argmax(axis=1), of_both=of_both)
    return f"npz:{tmp_path / 'data.npz'}"


def test_constants_with_and_without_a_row_for_each_sample(home, tmp_path, arrays):
    network = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 3] x, float[3] weights, float[N, 1] bias, bool training) => (float[N, 3] out)
    { w = Mul (x, weights)
      b = Add (w, bias)
      n = Neg (b)
      out = Where (training, n, b) }"""
    inputs = [
        {"name": "x", "modality": "array", "shape": [None, 3]},
        {"name": "weights", "modality": "constant", "value": [1, 1, 1], "shape": [3]},
        {"name": "bias", "modality": "constant", "value": 5, "shape": [None, 1]},
        {"name": "training", "modality": "constant", "value": 0, "shape": [], "dtype": "bool"},
    ]
    (outcome,) = evaluate(saved(tmp_path, "a", network, inputs, {}), arrays, batches=(1, 4), **QUICK)
    assert figures(outcome)["top1"] == 1
    inputs[3]["value"] = 1
    (outcome,) = evaluate(saved(tmp_path, "b", network, inputs, {}), arrays, batches=(), **QUICK)
    assert figures(outcome)["top1"] < 1
    inputs[3]["value"] = 0.5
    (outcome,) = evaluate(saved(tmp_path, "c", network, inputs, {}), arrays, batches=(), **QUICK)
    assert "The input training takes bool, which 0.5 is not" in outcome.errors[0]


def test_two_parts_of_a_sample_each_with_its_own_preparation(home, tmp_path, arrays):
    network = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 3, 2, 2] picture, float[N, 3] x) => (float[N, 3] out)
    { m = ReduceMean <axes = [2, 3], keepdims = 0> (picture)
      out = Add (m, x) }"""
    inputs = [
        {"name": "picture", "shape": [None, 3, 2, 2], "preprocess": [{"op": "normalize", "scale": 1 / 255}]},
        {"name": "x", "modality": "array", "shape": [None, 3]},
    ]
    model = saved(tmp_path, "both", network, inputs, {})
    (outcome,) = evaluate(model, f"{arrays}?x=picture,x&y=of_both", batches=(2,), **QUICK)
    assert figures(outcome)["top1"] == 1


def test_true_and_false_as_an_input(home, tmp_path, arrays):
    network = """<ir_version: 8, opset_import: ["" : 17]>
    net (bool[N, 3] use) => (float[N, 3] out)
    { out = Cast <to = 1> (use) }"""
    inputs = [{"name": "use", "modality": "array", "shape": [None, 3], "dtype": "bool"}]
    model = saved(tmp_path, "flags", network, inputs, {"task": "other"})
    (outcome,) = evaluate(model, f"{arrays}?x=use&y=none", batches=(), **QUICK)
    assert not outcome.errors
    (outcome,) = evaluate(model, f"{arrays}?x=x&y=none", batches=(), **QUICK)
    assert "takes integers from 0 to 1" in outcome.errors[0]
    inputs[0]["preprocess"] = [{"op": "normalize", "scale": 2}]
    model = saved(tmp_path, "scaled", network, inputs, {"task": "other"})
    (outcome,) = evaluate(model, f"{arrays}?x=use&y=none", batches=(), **QUICK)
    assert "takes true and false, which no step can normalise" in outcome.errors[0]


# --- batch axes


@pytest.mark.parametrize("kept", [False, True])
def test_a_file_without_a_batch_axis_takes_one_sample_at_a_time(home, tmp_path, arrays, kept):
    """An image of three channels is not taken for a batch of three."""
    shape = "{1, 3}" if kept else "{3}"
    network = f"""<ir_version: 8, opset_import: ["" : 17]>
    net (float[3, 2, 2] picture) => (float[{"1, 3" if kept else "3"}] out)
    <int64[{2 if kept else 1}] shape = {shape}>
    {{ m = ReduceMean <axes = [1, 2], keepdims = 0> (picture)
      out = Reshape (m, shape) }}"""
    model = saved(tmp_path, "single", network, [{"shape": [1, 3, 2, 2]}], {})
    np.savez(tmp_path / "own.npz", x=(p := np.load(tmp_path / "data.npz")["picture"]), y=p.mean((1, 2)).argmax(axis=1))
    (outcome,) = evaluate(model, f"npz:{tmp_path / 'own.npz'}", batches=(1,), **QUICK)
    assert figures(outcome)["top1"] == 1


def test_a_detector_without_a_batch_axis_may_find_a_single_box(home, tmp_path, boxed):
    """One row of boxes is not taken for an axis of inputs."""
    network = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[3, 8, 8] image) => (float[K, 4] b, float[K, 1] s)
    <float[2] limits = {-9, 9}, float[2, 4] all = {0.125, 0.25, 0.625, 0.75, 0, 0, 1, 1}, float[2, 1] ones = {1, 1}>
    { mean = ReduceMean <axes = [0, 1, 2], keepdims = 0> (image)
      found = Greater (mean, limits)
      b = Compress <axis = 0> (all, found)
      s = Compress <axis = 0> (ones, found) }"""
    inputs = [{"shape": [1, 3, 8, 8], "preprocess": [{"op": "resize", "size": [8, 8]}]}]
    read = {"op": "boxes", "format": "xyxy", "units": "shares"}
    output = {"task": "detection", "parts": {"boxes": "b", "scores": "s"}, "postprocess": [read], "labels": ["cat"]}
    (outcome,) = evaluate(saved(tmp_path, "single", network, inputs, output), boxed, batches=(), **QUICK)
    assert figures(outcome)["ap"] == 1


def test_a_batch_fixed_at_three_is_filled_up(home, tmp_path, arrays):
    network = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[3, 3] x, float[3, 1] bias) => (float[3, 3] out)
    { out = Add (x, bias) }"""
    inputs = [
        {"name": "x", "modality": "array", "shape": [3, 3]},
        {"name": "bias", "modality": "constant", "value": [1, 2, 3], "shape": [3, 1]},
    ]
    (outcome,) = evaluate(saved(tmp_path, "three", network, inputs, {}), arrays, batches=(), **QUICK)
    assert figures(outcome)["top1"] == 1


# --- real, and refused


@pytest.mark.assets
def test_a_real_graph_of_suppression_with_a_constant(home, tmp_path):
    """Boxes and scores as YOLOv8 gives them, and [topk, iou, score] as a constant."""
    if not NMS.is_file():
        pytest.skip(f"REFERENCE MODELS ABSENT: nothing at {NMS}; set ZOOLENS_ASSETS to test against them")
    # The graph counts its classes by the last axis, so that it must be the longer one, as in [1, 84, 8400].
    detection = np.zeros((2, 84, 100), np.float32)
    detection[:, :4, :3] = np.array([[50, 50, 20, 20], [51, 50, 20, 20], [90, 90, 10, 10]]).T
    detection[:, 6, :3] = [0.9, 0.8, 0.7]
    np.savez(tmp_path / "found.npz", detection=detection)
    manifest = {
        "name": "nms",
        "inputs": [
            {"name": "detection", "modality": "array", "shape": [1, 84, None]},
            {"name": "config", "modality": "constant", "value": [100, 0.45, 0.25], "shape": [3]},
        ],
        "outputs": [{"task": "other"}],
        "assets": [{"format": "onnx", "files": [{"location": NMS.as_uri()}]}],
    }
    (tmp_path / "nms.yaml").write_text(yaml.safe_dump(manifest))
    data = f"npz:{tmp_path / 'found.npz'}?x=detection"
    (outcome,) = evaluate(tmp_path / "nms.yaml", data, batches=(), **QUICK)
    assert not outcome.errors
    with zoolens.open_store() as store:
        (table,) = store.iter_tables(outcome.run.id, "predictions")
    rows = np.array(table["vector"].to_pylist()).reshape(2, 2, 84)  # the second box is a double of the first
    np.testing.assert_array_equal(rows[0, :, :4], [[50, 50, 20, 20], [90, 90, 10, 10]])


IMAGE = {"name": "image", "shape": [1, 3, 8, 8]}


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ([{"name": "c", "modality": "constant", "value": 1, "shape": [1]}, IMAGE], "the first input takes the sample"),
        ([IMAGE, {"name": "c", "modality": "constant", "shape": [1]}], "constant and a value belong together"),
        ([IMAGE, {"name": "c", "modality": "constant", "value": [1, 2], "shape": [3]}], "2 numbers, but the shape 3"),
        ([IMAGE, {"name": "c", "modality": "constant", "value": float("nan"), "shape": [1]}], "NaN or infinite"),
        ([IMAGE, {"name": "s", "modality": "size", "shape": [1, 2]}], "size and size, one of image_hw"),
        ([IMAGE, {"name": "s", "modality": "size", "size": "image_hw", "shape": [1, 3]}], "a size is two numbers"),
        ([IMAGE, IMAGE, {"modality": "size", "size": "image_hw", "shape": [1, 2]}], "the only image that the model"),
        ([{**IMAGE, "value": 3}], "constant and a value belong together"),
    ],
)
def test_declarations_without_a_meaning_are_refused(inputs, words):
    with pytest.raises(ValueError, match=words):
        Manifest.model_validate({"name": "m", "inputs": inputs, "outputs": [{}]})


def test_a_scale_is_no_integer(home, tmp_path, boxed):
    network = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 3, 8, 8] image, int64[N, 2] scale) => (int64[N, 2] out)
    { out = Identity (scale) }"""
    inputs = [
        {"name": "image", "shape": [None, 3, 8, 8], "preprocess": [{"op": "resize", "size": [8, 8]}]},
        {"name": "scale", "modality": "size", "size": "scale_hw", "shape": [None, 2]},
    ]
    (outcome,) = evaluate(saved(tmp_path, "whole", network, inputs, {"task": "other"}), boxed, batches=(), **QUICK)
    assert "The input scale is int64, which cannot hold scale_hw" in outcome.errors[0]
