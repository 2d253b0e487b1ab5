from __future__ import annotations

from math import prod

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.model import Graph, Node, Parameter
from zoolens.findings.graph.reference.interpreter import run

torch = pytest.importorskip("torch")
functional = torch.nn.functional
random = np.random.default_rng(7)


def draw(*shape):
    return random.standard_normal(shape)


def compute(op, inputs, shape, parameters=None, layout="", **attributes):
    nodes = [Node(f"in{i}", "input", (), value.shape, axes=layout) for i, value in enumerate(inputs)]
    learned = parameters or {}
    described = tuple(Parameter(role, value.shape, role) for role, value in learned.items())
    nodes.append(Node("out", op, tuple(n.name for n in nodes), tuple(shape), attributes, described, axes=layout))
    graph = Graph("one", tuple(nodes), ("out",), learned)
    return run(graph, {f"in{i}": value for i, value in enumerate(inputs)})["out"]


def check(expected, op, inputs, parameters=None, **attributes):
    expected = expected.numpy()
    found = compute(op, inputs, expected.shape, parameters, **attributes)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def t(array):
    return torch.from_numpy(array)


@pytest.mark.parametrize(
    ("groups", "out", "stride", "dilation"), [(1, 5, 1, 1), (2, 8, 2, 1), (4, 4, 1, 2), (4, 8, 2, 1)]
)
def test_conv(groups, out, stride, dilation):
    x, kernel, bias = draw(2, 4, 9, 8), draw(out, 4 // groups, 3, 2), draw(out)
    padded = functional.pad(t(x), (0, 2, 1, 1))
    expected = functional.conv2d(padded, t(kernel), t(bias), stride, 0, dilation, groups)
    settings = {"kernel": (3, 2), "stride": (stride,) * 2, "dilation": (dilation,) * 2, "pads": (1, 0, 1, 2)}
    learned = {"kernel": kernel, "bias": bias}
    check(expected, "conv", [x], learned, groups=groups, **settings)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    check(expected.permute(0, 2, 3, 1), "conv", [last], learned, layout="NHWC", groups=groups, **settings)


def test_a_large_convolution_is_cut_into_pieces(monkeypatch):
    monkeypatch.setattr("zoolens.findings.graph.reference.spatial._CHUNK", 200)
    x, kernel = draw(1, 3, 11, 7), draw(4, 3, 3, 3)
    expected = functional.conv2d(t(x), t(kernel), stride=2, padding=1)
    check(expected, "conv", [x], {"kernel": kernel}, kernel=(3, 3), stride=(2, 2), pads=(1, 1, 1, 1))


def test_convolutions_along_one_and_three_axes():
    x, kernel = draw(1, 3, 9), draw(4, 3, 3)
    check(functional.conv1d(t(x), t(kernel), stride=2), "conv", [x], {"kernel": kernel}, kernel=(3,), stride=(2,))
    x, kernel = draw(1, 2, 4, 5, 6), draw(4, 2, 2, 3, 2)
    check(functional.conv3d(t(x), t(kernel)), "conv", [x], {"kernel": kernel}, kernel=(2, 3, 2))


@pytest.mark.parametrize(("groups", "extra"), [(1, 0), (2, 1)])
def test_conv_transpose(groups, extra):
    x, kernel, bias = draw(1, 4, 5, 6), draw(4, 3, 3, 3), draw(3 * groups)
    expected = functional.conv_transpose2d(t(x), t(kernel), t(bias), 2, 1, extra, groups)
    check(
        expected,
        "conv_transpose",
        [x],
        {"kernel": kernel, "bias": bias},
        kernel=(3, 3),
        stride=(2, 2),
        pads=(1, 1, 1, 1),
        output_pads=(extra, extra),
        groups=groups,
    )


def test_merged_norms():
    x, kernel, mean, variance = draw(1, 3, 4, 4), draw(2, 3, 1, 1), draw(2), draw(2) ** 2 + 0.1
    plain = functional.conv2d(t(x), t(kernel))
    learned = {"kernel": kernel, "norm_mean": mean, "norm_variance": variance}
    expected = functional.batch_norm(plain, t(mean), t(variance), eps=1e-3)
    check(expected, "conv", [x], learned, kernel=(1, 1), norm="batch", epsilon=1e-3)
    check(plain * 2 + 1, "conv", [x], {"kernel": kernel, "norm_scale": np.full(2, 2.0), "norm_shift": np.ones(2)},
          kernel=(1, 1), norm="affine")  # fmt: skip
    x, kernel = draw(2, 3), draw(2, 3)
    expected = functional.batch_norm(functional.linear(t(x), t(kernel)), t(mean), t(variance), eps=1e-3)
    check(expected, "dense", [x], learned | {"kernel": kernel}, norm="batch", epsilon=1e-3)


def test_pools():
    x = draw(1, 3, 8, 7)
    window = {"kernel": (3, 3), "stride": (2, 2), "pads": (1, 1, 1, 1)}
    check(functional.max_pool2d(t(x), 3, 2, 1), "max_pool", [x], **window)
    padded = functional.max_pool2d(functional.pad(t(x), (1, 1, 1, 1)), 3, 2)
    check(padded, "max_pool", [x], pad_value=0.0, **window)
    check(functional.avg_pool2d(t(x), 3, 2, 1), "avg_pool", [x], count_pad=True, **window)
    check(functional.avg_pool2d(t(x), 3, 2, 1, count_include_pad=False), "avg_pool", [x], **window)
    check(functional.adaptive_avg_pool2d(t(x), (3, 2)), "adaptive_avg_pool", [x], size=(3, 2))
    check(functional.adaptive_max_pool2d(t(x), (3, 2)), "adaptive_max_pool", [x], size=(3, 2))
    check(t(x).mean((2, 3)), "global_avg_pool", [x])
    check(t(x).mean((1, 2)), "global_avg_pool", [x], layout="NHWC")
    check(t(x).amax((2, 3), keepdim=True), "global_max_pool", [x])
    check(functional.local_response_norm(t(x), 3, 1e-2, 0.7, 1.5), "lrn", [x], size=3, alpha=1e-2, beta=0.7, bias=1.5)


def test_norms():
    x, scale, shift = draw(2, 4, 3, 5), draw(4), draw(4)
    learned = {"scale": scale, "shift": shift}
    check(functional.group_norm(t(x), 2, t(scale), t(shift), 1e-4), "group_norm", [x], learned, groups=2, epsilon=1e-4)
    expected = functional.instance_norm(t(x), weight=t(scale), bias=t(shift), eps=1e-4)
    check(expected, "instance_norm", [x], learned, epsilon=1e-4)
    y = draw(2, 3, 4)
    expected = functional.layer_norm(t(y), (4,), t(scale), t(shift), 1e-6)
    check(expected, "layer_norm", [y], learned, axes=(2,), epsilon=1e-6)
    expected = functional.rms_norm(t(y), (4,), t(scale), 1e-6)
    check(expected, "rms_norm", [y], {"scale": scale}, axes=(2,), epsilon=1e-6)
    check(functional.normalize(t(x), dim=1), "l2_normalize", [x], axes=(1,))


ACTIVATIONS = {
    "relu": functional.relu, "relu6": functional.relu6, "sigmoid": torch.sigmoid, "silu": functional.silu,
    "hard_sigmoid": functional.hardsigmoid, "hard_swish": functional.hardswish, "tanh": torch.tanh,
    "elu": functional.elu, "selu": functional.selu, "softplus": functional.softplus, "mish": functional.mish,
    "gelu": functional.gelu, "erf": torch.erf, "abs": torch.abs, "neg": torch.neg, "exp": torch.exp,
    "square": torch.square, "sin": torch.sin, "cos": torch.cos, "floor": torch.floor, "ceil": torch.ceil,
    "round": torch.round, "reciprocal": torch.reciprocal,
}  # fmt: skip


@pytest.mark.parametrize("op", ACTIVATIONS)
def test_one_operand(op):
    x = draw(2, 30) * 4
    check(ACTIVATIONS[op](t(x)), op, [x])


def test_activations_with_attributes():
    x, alpha = draw(1, 3, 4, 4), draw(3)
    check(functional.leaky_relu(t(x), 0.2), "leaky_relu", [x], alpha=0.2)
    check(functional.prelu(t(x), t(alpha)), "prelu", [x], {"alpha": alpha})
    check(functional.gelu(t(x), approximate="tanh"), "gelu", [x], approximate="tanh")
    check(t(x) * torch.sigmoid(1.702 * t(x)), "gelu", [x], approximate="quick")
    check(t(x).clamp(-0.5, 0.25), "clip", [x], low=-0.5, high=0.25)
    check(t(x).softmax(1), "softmax", [x], axis=1)
    check(t(x).log_softmax(1), "log_softmax", [x], axis=1)


def test_arithmetic():
    a, b = draw(2, 3), np.abs(draw(2, 3)) + 1
    for op, function in {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div}.items():
        check(function(t(a), t(b)), op, [a, b])
    check(2 / t(b), "div", [b], scalar=2.0, reverse=True)
    check(t(b) ** 2, "pow", [b], scalar=2.0)
    check(torch.log(t(b)), "log", [b])
    check(torch.sqrt(t(b)), "sqrt", [b])
    check(torch.rsqrt(t(b)), "rsqrt", [b])
    check(torch.maximum(t(a), t(b)), "maximum", [a, b])
    check(t(a).clamp(max=0.5), "minimum", [a], scalar=0.5)
    check(t(a) > 0, "compare", [a], kind=">", scalar=0.0)
    check(torch.where(t(a) > 0, t(a), t(b)), "where", [a > 0, a, b])


def test_matmul_and_attention():
    q, k, v = draw(1, 2, 5, 4), draw(1, 2, 6, 4), draw(1, 2, 6, 3)
    check(t(q) @ t(k).mT, "matmul", [q, k], transpose_b=True)
    check(functional.scaled_dot_product_attention(t(q), t(k), t(v)), "attention", [q, k, v])
    causal = functional.scaled_dot_product_attention(t(q), t(q), t(q), is_causal=True)
    check(causal, "attention", [q, q, q], causal=True)


def test_arrangement():
    x = draw(1, 4, 6, 8)
    check(torch.cat([t(x), t(x)], 1), "concat", [x, x], axis=1)
    check(t(x)[:, :, 1:5:2], "slice", [x], axis=2, start=1, stop=5, step=2)
    check(functional.pad(t(x), (0, 1, 2, 0), value=3.0), "pad", [x], pads=(0, 0, 2, 0, 0, 0, 0, 1), value=3.0)
    check(functional.pad(t(x), (1, 1, 0, 2), mode="reflect"), "pad", [x], pads=(0, 0, 0, 1, 0, 0, 2, 1), mode="reflect")
    check(t(x).permute(0, 2, 3, 1).reshape(1, -1), "flatten", [x], order="NHWC")
    check(t(x).permute(0, 3, 1, 2), "transpose", [x], perm=(0, 3, 1, 2))
    check(functional.channel_shuffle(t(x), 2), "channel_shuffle", [x], groups=2)
    check(functional.pixel_shuffle(t(x), 2), "depth_to_space", [x], block=2, mode="CRD")
    check(functional.pixel_unshuffle(t(x), 2), "space_to_depth", [x], block=2, mode="CRD")
    check(torch.roll(t(x), (1, 2), (2, 3)), "roll", [x], shifts=(1, 2), axes=(2, 3))


@pytest.mark.parametrize(
    ("mode", "coordinates", "arguments"),
    [
        ("nearest", "", {"mode": "nearest"}),
        ("linear", "", {"mode": "bilinear"}),
        ("linear", "align_corners", {"mode": "bilinear", "align_corners": True}),
        ("cubic", "half_pixel", {"mode": "bicubic"}),
    ],
)
def test_resize(mode, coordinates, arguments):
    x = draw(1, 2, 5, 6)
    for size in ((9, 11), (3, 12)):
        check(functional.interpolate(t(x), size, **arguments), "resize", [x], mode=mode, coordinates=coordinates)


def test_depth_and_space_undo_each_other():
    x = draw(1, 8, 2, 3)
    wide = compute("depth_to_space", [x], (1, 2, 4, 6), block=2)
    np.testing.assert_array_equal(compute("space_to_depth", [wide], x.shape, block=2), x)


def test_what_cannot_be_computed_is_named():
    x = draw(1, 3)
    with pytest.raises(ModelError, match="FancyOp"):
        compute("unknown", [x], (1, 3), source_op="FancyOp")
    with pytest.raises(ModelError, match=r"computes the shape \(1, 3\)"):
        compute("relu", [x], (1, 4))
    with pytest.raises(ModelError, match="no values for the kernel"):
        run(Graph("g", (Node("x", "input", (), (1, 3)), Node("y", "dense", ("x",), (1, 2), parameters=(
            Parameter("kernel", (2, 3), "k"),))), ("y",)), {"x": x})  # fmt: skip


def test_every_op_of_the_vocabulary_is_known_here():
    from zoolens.findings.graph.ir.vocabulary import OPS
    from zoolens.findings.graph.reference.ops import OPERATIONS

    assert set(OPS) - set(OPERATIONS) == {"input"}


def test_values_keep_the_type_of_the_input():
    x = draw(1, prod((2, 3))).astype(np.float32)
    assert compute("sigmoid", [x], x.shape).dtype == np.float32
