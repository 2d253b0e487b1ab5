"""Kinds of operators of all frameworks meet in one family."""

import pytest

from zoolens.findings.tracing.families import family

KINDS = {
    "convolution": "Conv FusedConv QLinearConv aten::_convolution aten::conv2d Conv2d _FusedConv2D Convolution "
    "GroupConvolution DepthwiseConv2dNative convolution CONV_2D ConvTranspose2d",
    "matrix product": "Gemm FusedGemm MatMul QLinearMatMul aten::linear aten::addmm aten::mm aten::bmm Linear dot "
    "Dense _FusedMatMul FullyConnected FULLY_CONNECTED InnerProduct",
    "normalisation": "BatchNormalization aten::batch_norm BatchNorm2d aten::native_layer_norm LayerNorm MVN LRN",
    "softmax": "Softmax SOFTMAX aten::_softmax",
    "pooling or mean": "MaxPool GlobalAveragePool aten::adaptive_avg_pool2d AvgPool Mean ReduceMean aten::mean Pooling",
    "activation": "Relu aten::relu ReLU aten::clamp_min Clip HardSwish aten::hardtanh Sigmoid TanH",
    "change of type": "Convert Cast QuantizeLinear DequantizeLinear",
    "change of shape": "Reshape aten::flatten Flatten Transpose ExpandDims aten::unflatten Reorder copy",
    "concatenation": "Concat aten::cat Concatenation",
    "addition": "Add QLinearAdd aten::add aten::add_ AddV2 Eltwise",
}


CASES = [(name, kind) for name, kinds in KINDS.items() for kind in kinds.split()]
OTHERS = ["fusion", "while", "NonMaxSuppression", "Gather", "custom-call", "Loop", "Embedding", ""]


@pytest.mark.parametrize(("expected", "kind"), CASES)
def test_a_kind_is_of_its_family(expected, kind):
    assert family(kind) == expected


@pytest.mark.parametrize("kind", OTHERS)
def test_a_kind_that_is_of_no_known_family_keeps_its_name(kind):
    assert family(kind) == kind
