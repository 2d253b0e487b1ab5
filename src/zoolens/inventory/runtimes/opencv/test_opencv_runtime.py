"""OpenCV keeps the contract with ONNX and Caffe files, and survives graphs its own importer crashes on."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.conftest import ASSETS
from zoolens.inventory.runtimes.opencv.opencv_runtime import OpenCv
from zoolens.inventory.runtimes.runtime import ModelFiles
from zoolens.testing import models
from zoolens.testing.runtime_contract import RuntimeContract
from zoolens.testing.tiny import ComputesTheTinyNetwork

cv2 = pytest.importorskip("cv2")

needs_caffe = pytest.mark.skipif(not hasattr(cv2.dnn, "readNetFromCaffe"), reason="OpenCV 5 dropped the Caffe importer")


class TestOnnx(RuntimeContract, ComputesTheTinyNetwork):
    runtime_class = OpenCv

    def model(self, tmp_path):
        pytest.importorskip("onnx")
        return models.onnx(tmp_path)


@needs_caffe
class TestCaffe(RuntimeContract, ComputesTheTinyNetwork):
    runtime_class = OpenCv

    def model(self, tmp_path):
        return models.caffe(tmp_path)


def test_a_graph_with_a_dangling_name_does_not_crash_the_process(tmp_path):
    pytest.importorskip("onnx")
    files = models.onnx(tmp_path)
    content = files.path().read_bytes()
    files.path().write_bytes(content.replace(b"\x12\x04flat", b"\x12\x04f!at", 1))
    with pytest.raises(ModelError, match="nothing makes the tensor 'flat'"):
        OpenCv().open(files)


@needs_caffe
def test_a_caffe_training_graph_is_explained(tmp_path):
    files = models.caffe(tmp_path)
    files.path().write_text(files.path().read_text().replace("input_shape", "#"))
    with pytest.raises(ModelError, match="0 dimensions"):
        OpenCv().open(files)


@needs_caffe
def test_an_input_layer_declares_the_input_too(tmp_path):
    files = models.caffe(tmp_path)
    head, shape, rest = files.path().read_text().partition("input_shape")
    shape, rest = (shape + rest).split("\n", 1)
    layer = (
        f'layer {{ name: "in" type: "Input" top: "image" input_param {{ {shape.replace("input_shape", "shape:")} }} }}'
    )
    files.path().write_text(head.replace('input: "image"', "") + layer + "\n" + rest)
    with OpenCv().open(files) as session:
        assert session.inputs[0].name == "image"
        assert session.inputs[0].shape == (None, 3, 8, 8)
        session.predict(RuntimeContract.feeds(session))


def test_int8_batches_are_computed_right_for_every_row():
    """OpenCV 4.14 itself gets only the first row of an int8 batch right."""
    pytest.importorskip("onnxruntime")
    from zoolens.inventory.runtimes.onnxruntime.onnxruntime_runtime import OnnxRuntime
    from zoolens.inventory.zoos.demo import MODELS_FOLDER

    files = ModelFiles("onnx", {"model": MODELS_FOLDER / "lenet-int8.onnx"})
    batch = np.random.default_rng(0).normal(size=(8, 28, 28)).astype(np.float32)
    with OpenCv().open(files) as ours, OnnxRuntime().open(files) as theirs:
        (mine,) = ours.predict({ours.inputs[0].name: batch}).values()
        (expected,) = theirs.predict({theirs.inputs[0].name: batch}).values()
    assert (mine.argmax(1) == expected.argmax(1)).all()
    np.testing.assert_allclose(mine, expected, atol=1.0)


# --- observing


@pytest.mark.parametrize("maker", [pytest.param(models.onnx), pytest.param(models.caffe, marks=needs_caffe)])
def test_captured_values_are_those_of_the_network(tmp_path, maker):
    if maker is models.onnx:
        pytest.importorskip("onnx")
    images = models.images(2)
    with OpenCv().open(maker(tmp_path)) as session:
        points = {point.node: point for point in session.capture_points() if point.node}
        convolution, rectified, pooled = (
            points[name].name
            for name in (("features", "rectified", "means") if maker is models.onnx else ("conv", "relu", "pool"))
        )
        captured = session.capture({"image": images}, [convolution, rectified, pooled])
        assert not next(point for point in session.capture_points() if point.name == convolution).kept
        assert next(point for point in session.capture_points() if point.name == pooled).kept
    values = captured.tensors
    assert values[convolution].min() < 0, "what comes after it works in a place of its own"
    np.testing.assert_array_equal(values[rectified], np.maximum(values[convolution], 0))
    np.testing.assert_allclose(values[pooled], values[rectified].mean((2, 3), keepdims=True), rtol=1e-5)
    (answer,) = captured.outputs.values()
    np.testing.assert_allclose(answer, models.reference(images), atol=1e-5)


@pytest.mark.parametrize("maker", [pytest.param(models.onnx), pytest.param(models.caffe, marks=needs_caffe)])
def test_fused_layers_are_told_with_the_layer_that_computes_them(tmp_path, maker):
    if maker is models.onnx:
        pytest.importorskip("onnx")
    with OpenCv().open(maker(tmp_path)) as session:
        (profile,) = session.profile({"image": models.images(3)})
    assert profile.operators[0].nodes == (("features", "rectified") if maker is models.onnx else ("conv", "relu"))
    assert all(operator.duration > 0 for operator in profile.operators)


def test_an_int8_batch_is_profiled_row_by_row():
    from zoolens.inventory.zoos.demo import MODELS_FOLDER

    with OpenCv().open(ModelFiles("onnx", {"model": MODELS_FOLDER / "lenet-int8.onnx"})) as session:
        feeds = {session.inputs[0].name: np.zeros((3, 28, 28), np.float32)}
        (profile,) = session.profile(feeds)
        name = next(point.name for point in session.capture_points() if point.node == "conv_1")
        captured = session.capture(feeds, [name])
        RuntimeContract.same(captured.outputs, session.predict(feeds))
    RuntimeContract.check_profile(profile, 1)
    assert [operator.nodes for operator in profile.operators].count(("conv_1",)) == 3
    assert captured.tensors[name].shape == (3, 16, 8, 8)


def test_unsigned_values_are_told_as_the_file_stores_them():
    """OpenCV keeps them, less 128, as signed ones."""
    pytest.importorskip("onnxruntime")
    from zoolens.inventory.runtimes.onnxruntime.onnxruntime_runtime import OnnxRuntime

    path = ASSETS / "imagenet/onnx/shufflenet-v2-12-int8.onnx"
    if not path.exists():
        pytest.skip(f"ZOOLENS_ASSETS has no {path.name}")
    files = ModelFiles("onnx", {"model": path})
    with OpenCv().open(files) as ours, OnnxRuntime().open(files) as theirs:
        feeds = RuntimeContract.feeds(theirs)
        points = [point for point in ours.capture_points() if point.node in ("fused Conv_0_quant", "MaxPool_3_quant")]
        mine = ours.capture(feeds, [point.name for point in points]).tensors
        wanted = theirs.capture(feeds, [point.tensor for point in points]).tensors
    assert len(points) == 2
    for point in points:
        assert mine[point.name].dtype == np.uint8
        np.testing.assert_array_equal(mine[point.name], wanted[point.tensor])
