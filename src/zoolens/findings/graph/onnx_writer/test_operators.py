"""Every operator of the vocabulary that can be written computes in onnxruntime what the reference computes."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.vocabulary import ACTIVATIONS, OPS
from zoolens.findings.graph.onnx_writer.written_file import RULES

MAP = (1, 6, 8, 9)


class Pencil:
    """One node on one input, with the learned tensors it needs."""

    def __init__(self, shape=MAP):
        self.builder = GraphBuilder("one", keep_weights=True)
        self.random = np.random.default_rng(3)
        self.x = self.builder.add("input", (), shape, name="x")

    def learned(self, **shapes):
        positive = ("variance", "norm_variance")
        return [
            self.builder.parameter(
                role, shape, role, np.abs(values) + 0.5 if role in positive else values
            )
            for role, shape in shapes.items()
            for values in (self.random.standard_normal(shape),)
        ]  # fmt: skip

    def add(self, op, shape, *others, parameters=None, **attributes):
        return self.builder.add(
            op, (self.x, *others), shape, parameters=self.learned(**(parameters or {})), **attributes
        )

    def leaf(self, shape, op="parameter"):
        return self.builder.add(op, (), shape, parameters=self.learned(value=shape))

    def graph(self, *outputs):
        return self.builder.finish(outputs)


def single(op, shape, given=MAP, parameters=None, **attributes):
    pencil = Pencil(given)
    return pencil.graph(pencil.add(op, shape, parameters=parameters, **attributes))


def positive(op):
    """An operator that needs positive numbers, behind one that makes them."""
    pencil = Pencil()
    made = pencil.builder.add("square", (pencil.x,), MAP)
    made = pencil.builder.add("add", (made,), MAP, scalar=0.1)
    return pencil.graph(pencil.builder.add(op, (made,), MAP))


NORM = {"norm_scale": (4,), "norm_shift": (4,), "norm_mean": (4,), "norm_variance": (4,)}
CASES = {
    "conv": lambda: single("conv", (1, 4, 4, 5), parameters={"kernel": (4, 3, 3, 3), "bias": (4,)}, kernel=(3, 3),
                           stride=(2, 2), pads=(1, 1, 1, 1), groups=2),
    "conv, one pad": lambda: single("conv", (1, 4, 8, 8), parameters={"kernel": (4, 6, 2, 3)}, kernel=(2, 3),
                                    pads=(0, 0, 1, 1)),
    "conv, cropped": lambda: single("conv", (1, 4, 6, 8), parameters={"kernel": (4, 6, 2, 2)}, kernel=(2, 2),
                                    pads=(-1, 0, 0, 0)),
    "conv, batch norm": lambda: single("conv", (1, 4, 8, 9), parameters={"kernel": (4, 6, 1, 1), **NORM},
                                       kernel=(1, 1), norm="batch", epsilon=1e-3),
    "conv, affine": lambda: single("conv", (1, 4, 8, 9), parameters={"kernel": (4, 6, 1, 1), "norm_scale": (4,)},
                                   kernel=(1, 1), norm="affine"),
    "conv, one axis": lambda: single("conv", (1, 4, 7), (1, 6, 9), {"kernel": (4, 6, 3)}, kernel=(3,)),
    "conv_transpose": lambda: single("conv_transpose", (1, 4, 16, 18), parameters={"kernel": (6, 2, 3, 3)},
                                     kernel=(3, 3), stride=(2, 2), pads=(1, 1, 1, 1), output_pads=(1, 1), groups=2),
    "dense": lambda: single("dense", (1, 5), (1, 7), {"kernel": (5, 7), "bias": (5,)}),
    "dense on rows": lambda: single("dense", (1, 3, 5), (1, 3, 7), {"kernel": (5, 7), "bias": (5,)}),
    "dense, batch norm": lambda: single("dense", (1, 4), (1, 7), {"kernel": (4, 7), **NORM}, norm="batch",
                                        epsilon=1e-3),
    "dense on rows, batch norm": lambda: single("dense", (1, 3, 4), (1, 3, 7), {"kernel": (4, 7), **NORM},
                                                norm="batch", epsilon=1e-3),
    "batch_norm": lambda: single("batch_norm", MAP, parameters={"mean": (6,), "variance": (6,)}, epsilon=1e-3),
    "layer_norm": lambda: single("layer_norm", (1, 3, 7), (1, 3, 7), {"scale": (7,), "shift": (7,)}, epsilon=1e-3,
                                 axes=(2,)),
    "layer_norm of channels": lambda: single("layer_norm", MAP, parameters={"scale": (6,), "shift": (6,)},
                                             epsilon=1e-3, axes=(1,)),
    "layer_norm, plain": lambda: single("layer_norm", (1, 3, 7), (1, 3, 7), epsilon=1e-3, axes=(1, 2)),
    "rms_norm": lambda: single("rms_norm", (1, 3, 7), (1, 3, 7), {"scale": (7,)}, epsilon=1e-3, axes=(2,)),
    "group_norm": lambda: single("group_norm", MAP, parameters={"scale": (6,), "shift": (6,)}, epsilon=1e-3, groups=2),
    "instance_norm": lambda: single("instance_norm", MAP, parameters={"scale": (6,)}, epsilon=1e-3),
    "affine": lambda: single("affine", MAP, parameters={"scale": (6,), "shift": (6,)}, axis=1),
    "affine of one number": lambda: single("affine", MAP, parameters={"scale": (1,)}),
    "lrn": lambda: single("lrn", MAP, size=5, alpha=0.3, beta=0.7, bias=1.5),
    "max_pool": lambda: single("max_pool", (1, 6, 4, 5), kernel=(3, 3), stride=(2, 2), pads=(0, 1, 1, 1)),
    "max_pool, padded with 0": lambda: single("max_pool", (1, 6, 8, 9), kernel=(3, 3), pads=(1, 1, 1, 1),
                                              pad_value=0.0),
    "avg_pool": lambda: single("avg_pool", (1, 6, 8, 9), kernel=(3, 3), pads=(1, 1, 1, 1)),
    "avg_pool, pads count": lambda: single("avg_pool", (1, 6, 4, 5), kernel=(3, 3), stride=(2, 2), pads=(0, 1, 1, 1),
                                           count_pad=True),
    "adaptive_avg_pool": lambda: single("adaptive_avg_pool", (1, 6, 3, 4), size=(3, 4)),
    "adaptive_avg_pool, even": lambda: single("adaptive_avg_pool", (1, 6, 4, 3), size=(4, 3)),
    "adaptive_max_pool": lambda: single("adaptive_max_pool", (1, 6, 3, 4), size=(3, 4)),
    "global_avg_pool": lambda: single("global_avg_pool", (1, 6)),
    "global_max_pool": lambda: single("global_max_pool", (1, 6)),
    **{f"{op}, kept": lambda op=op: single(op, (1, 6, 1, 9), axes=(2,), keep=True) for op in
       ("mean", "sum", "max", "min", "prod")},
    "mean": lambda: single("mean", (1, 8), axes=(1, 3)),
    "argmax": lambda: single("argmax", (1, 8, 9), axes=(1,)),
    "argmin, kept": lambda: single("argmin", (1, 6, 1, 9), axes=(2,), keep=True),
    **{op: lambda op=op: single(op, MAP) for op in sorted(ACTIVATIONS - {"prelu", "clip", "leaky_relu"})},
    "gelu, tanh": lambda: single("gelu", MAP, approximate="tanh"),
    "gelu, quick": lambda: single("gelu", MAP, approximate="quick"),
    "leaky_relu": lambda: single("leaky_relu", MAP, alpha=0.2),
    "prelu": lambda: single("prelu", MAP, parameters={"alpha": (6,)}),
    "prelu of a vector": lambda: single("prelu", (1, 6), (1, 6), {"alpha": (6,)}),
    "clip": lambda: single("clip", MAP, low=-0.5, high=0.75),
    "clip, one side": lambda: single("clip", MAP, high=0.75),
    "softmax": lambda: single("softmax", MAP, axis=1),
    "log_softmax": lambda: single("log_softmax", MAP, axis=1),
    **{op: lambda op=op: single(op, MAP) for op in
       ("abs", "neg", "exp", "square", "erf", "sin", "cos", "floor", "ceil", "round")},
    **{op: lambda op=op: positive(op) for op in ("log", "sqrt", "rsqrt", "reciprocal")},
    **{f"{op} a number": lambda op=op: single(op, MAP, scalar=2.0) for op in
       ("add", "sub", "mul", "div", "pow", "maximum", "minimum")},
    "sub from a number": lambda: single("sub", MAP, scalar=2.0, reverse=True),
    "l2_normalize": lambda: single("l2_normalize", MAP, axes=(1,)),
    "slice": lambda: single("slice", (1, 6, 3, 9), axis=2, start=1, stop=7, step=2),
    "pad": lambda: single("pad", (1, 6, 9, 11), pads=(0, 0, 1, 0, 0, 0, 0, 2), value=0.5),
    "pad, reflected": lambda: single("pad", (1, 6, 9, 11), pads=(0, 0, 1, 0, 0, 0, 0, 2), mode="reflect"),
    "reshape": lambda: single("reshape", (1, 3, 2, 72)),
    "flatten": lambda: single("flatten", (1, 432)),
    "flatten, channels last": lambda: single("flatten", (1, 432), order="NHWC"),
    "transpose": lambda: single("transpose", (1, 8, 9, 6), perm=(0, 2, 3, 1)),
    "expand": lambda: single("expand", (1, 6, 8, 9), (1, 6, 1, 9)),
    "gather": lambda: single("gather", (1, 3, 8, 9), axis=1, indices=(4, 0, 4)),
    "channel_shuffle": lambda: single("channel_shuffle", MAP, groups=3),
    "space_to_depth": lambda: single("space_to_depth", (1, 24, 4, 4), (1, 6, 8, 8), block=2),
    "space_to_depth, CRD": lambda: single("space_to_depth", (1, 24, 4, 4), (1, 6, 8, 8), block=2, mode="CRD"),
    "depth_to_space": lambda: single("depth_to_space", (1, 2, 16, 16), (1, 8, 8, 8), block=2),
    **{f"resize, {mode} {how}": lambda mode=mode, how=how: single("resize", (1, 6, 13, 21), mode=mode, coordinates=how)
       for mode, how in (("nearest", None), ("nearest", "half_pixel"), ("nearest", "align_corners"),
                         ("linear", "half_pixel"), ("linear", "asymmetric"), ("linear", "align_corners"),
                         ("cubic", "half_pixel"))},
    "roll": lambda: single("roll", MAP, axes=(2, 3), shifts=(3, -2)),
    "tile": lambda: single("tile", (1, 6, 16, 9), repeats=(1, 1, 2, 1)),
    **{op: lambda op=op: single(op, MAP) for op in ("identity", "dropout", "cast", "quantize", "dequantize")},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_operator_is_written(checked, name):
    checked(CASES[name]())


def two(op, *shapes, shape, **attributes):
    """Two values computed from the input, or one and a learned one."""
    pencil = Pencil(shapes[0])
    return pencil.graph(pencil.add(op, shape, pencil.leaf(shapes[1]), **attributes))


@pytest.mark.parametrize(
    "graph",
    [
        two("mul", MAP, (6, 1, 1), shape=MAP),
        two("matmul", (1, 3, 7), (7, 5), shape=(1, 3, 5)),
        two("matmul", (1, 3, 7), (1, 5, 7), shape=(1, 3, 5), transpose_b=True),
        two("maximum", MAP, (1, 6, 8, 9), shape=MAP),
        two("concat", (1, 3, 7), (1, 1, 7), shape=(1, 4, 7), axis=1),
    ],
    ids=["mul", "matmul", "matmul, transposed", "maximum", "class token"],
)
def test_a_value_meets_a_learned_one(checked, graph):
    checked(graph)


def test_attention_with_a_bias_and_a_causal_mask(checked):
    pencil = Pencil((1, 2, 5, 4))
    bias = pencil.leaf((1, 2, 5, 5))
    seen = pencil.add("attention", (1, 2, 5, 4), pencil.x, pencil.x, bias, heads=2, scale=0.3, causal=True)
    checked(pencil.graph(seen))


def test_a_comparison_chooses_and_counts(checked):
    pencil = Pencil()
    larger = pencil.add("compare", MAP, scalar=0.2, kind=">")
    chosen = pencil.builder.add("where", (larger, pencil.x, pencil.builder.add("neg", (pencil.x,), MAP)), MAP)
    checked(pencil.graph(pencil.builder.add("mul", (chosen, larger), MAP)))


def test_indices_are_looked_up(checked):
    pencil = Pencil((1, 6))
    checked(pencil.graph(pencil.add("embedding", (1, 6, 3), parameters={"table": (11, 3)})))


def test_only_three_operators_cannot_be_written():
    assert set(OPS) - set(RULES) == {"input", "recurrent", "recurrent_layer", "output_of", "unknown"}
    assert set(RULES) <= set(OPS)
