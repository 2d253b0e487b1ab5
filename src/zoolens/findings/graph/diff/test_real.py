"""What the literature says about namesakes, found by the tool in the real networks."""

from pathlib import Path

import pytest

from zoolens.findings.graph.diff import diff_causes
from zoolens.findings.graph.diff.report import diff
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.passes.canonical import canonical


def torchvision(name):
    pytest.importorskip("torch")
    from zoolens.findings.graph.importers.torch import TORCHVISION

    return canonical(TORCHVISION.load(Request(name)))


def light(name):
    onnx = pytest.importorskip("onnx")
    from zoolens.findings.graph.importers.onnx import ONNX

    return canonical(ONNX.load(Request(str(Path(onnx.__file__).parent / f"backend/test/data/light/light_{name}.onnx"))))


def keras(name, size=None):
    pytest.importorskip("keras")
    from zoolens.findings.graph.importers.keras import KERAS

    return canonical(KERAS.load(Request(name, size)))


def test_the_squeezenet_of_the_onnx_package_is_version_1_1():
    squeezenet = light("squeezenet")
    assert diff(torchvision("squeezenet1_1"), squeezenet).same_cost
    found = diff(torchvision("squeezenet1_0"), squeezenet)
    assert {one.cause for one in found.differences} >= {
        diff_causes.STRIDE_PLACEMENT,
        diff_causes.KERNEL,
        diff_causes.WIDTH,
    }
    assert found.cost_a.macs / found.cost_b.macs == pytest.approx(2.345, abs=0.01)


def test_alexnet_has_64_kernels_and_no_lrn_in_torchvision():
    texts = [one.text for one in diff(torchvision("alexnet"), light("bvlc_alexnet"), names=("tv", "onnx")).differences]
    assert "conv 1 of stage 1: 96 kernels in onnx instead of 64 in tv" in texts
    assert "no local response normalisation in tv (2 in onnx)" in texts
    assert any("2 groups in onnx" in text for text in texts)


def test_resnet_50_of_keras_and_torchvision():
    found = diff(torchvision("resnet50"), keras("ResNet50"), names=("torchvision", "Keras"))
    assert [one.text for one in found.differences[:3]] == [
        "conv 2 of blocks 1 of stages 2–4: stride 2 is on the 3×3 in torchvision, on the 1×1 in Keras",
        "26,560 extra conv biases in Keras (53 layers; a norm follows each, so they add nothing)",
        "BN epsilon 1.001e-5 in Keras vs 1e-5 in torchvision (53 norms)",
    ]
    assert found.differences[0].macs == found.macs_gap == 3_857_973_248 - 4_089_184_256


def test_resnet_50_v2_of_keras_at_two_sizes():
    found = diff(keras("ResNet50V2"), keras("ResNet50V2", (299, 299)))
    assert [one.cause for one in found.differences] == [diff_causes.INPUT_SIZE]
    assert found.differences[0].macs == found.macs_gap > 0
