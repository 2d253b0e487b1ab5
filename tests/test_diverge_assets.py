"""Verdicts on real models whose truth is known: SampLeNet in many formats, int8 files that OpenCV computes wrongly."""

import pytest

import zoolens
from zoolens.findings.divergence.divergence_causes import Kind

pytestmark = [pytest.mark.slow, pytest.mark.assets]
CIFAR = "cifar10:{assets}/data/cifar10/test_batch_first2000.bin.gz"
IMAGENET = "imagefolder:{assets}/data/imagenet_val"


def side(request, name, runtime):
    return f"{request.config.rootpath / 'tests' / 'reference_zoo' / f'{name}.yaml'}@{runtime}"


def compare(request, assets, a, b, data, **options):
    return zoolens.diverge(
        side(request, *a), side(request, *b), data.format(assets=assets), limit=16, examined=1, allow_code=True,
        **options,
    )  # fmt: skip


ONNX = ("cifar10/samplenet_onnx", "onnxruntime")
CAFFE = ("cifar10/samplenet_caffe", "opencv")


@pytest.mark.parametrize("other", [CAFFE, ("cifar10/samplenet_openvino", "openvino:precision=float32")])
def test_the_same_weights_in_another_format_and_channel_order_are_the_same(home, assets, request, other):
    """ONNX wants BGR and has the weights of its first layer reversed; Caffe and OpenVINO want RGB."""
    found = compare(request, assets, ONNX, other, CIFAR)
    assert not found.differs, found.causes


def test_a_lower_precision_of_an_ir_of_version_10_is_told(home, assets, request):
    found = compare(request, assets, ONNX, ("cifar10/samplenet_openvino", "openvino"), CIFAR)
    if found.b.precision == "float32":
        pytest.skip("OpenVINO computes in float32 on this processor")
    assert [(cause.kind, cause.side, cause.proved) for cause in found.causes] == [(Kind.PRECISION, "B", True)]
    assert len(found.layers) > 5


def test_another_training_is_told_by_its_weights(home, assets, request):
    """The torch file has the same structure; its graph is built by code and not read."""
    found = compare(request, assets, CAFFE, ("cifar10/samplenet_torch", "torch"), CIFAR)
    assert [(cause.kind, cause.side, cause.proved) for cause in found.causes] == [(Kind.WEIGHTS, "B", True)]
    assert "5 of 5 layers with weights" in found.causes[0].words


def test_the_saved_model_is_another_network(home, assets, request):
    found = compare(request, assets, CAFFE, ("cifar10/samplenet_savedmodel", "tensorflow"), CIFAR)
    assert [(cause.kind, cause.proved) for cause in found.causes] == [(Kind.STRUCTURE, False)]


def test_opencv_computes_int8_layers_wrong(home, assets, request):
    name = "imagenet/nnstreamer_mobilenet_v2_quant"
    found = compare(request, assets, (name, "onnxruntime"), (name, "opencv"), IMAGENET)
    assert len(found.answers.flipped) == len(found.answers.rows)
    assert [(cause.kind, cause.side, cause.proved) for cause in found.causes] == [(Kind.KERNEL, "B", True)]


def test_opencv_computes_another_int8_file_right(home, assets, request):
    name = "imagenet/shufflenet-v2-12-int8"
    found = compare(request, assets, (name, "onnxruntime"), (name, "opencv"), IMAGENET)
    assert len(found.answers.flipped) <= 1
