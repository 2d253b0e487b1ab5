"""onnx-tool: one per multiply-add, and for the rest what the instructions of a CPU cost, as its authors see it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from zoolens.findings.graph.counters.counter import Counter
from zoolens.findings.graph.counters.subjects import CountedModel, onnx_model
from zoolens.findings.graph.counters.terms import (
    ACTIVATION,
    ARITHMETIC,
    MEAN,
    NORM,
    POOL,
    RESIZE,
    SOFTMAX,
    Charge,
    Convention,
    all_of,
    per_factor,
    per_operand,
    per_output,
    per_window,
)
from zoolens.findings.graph.ir.model import Graph, Node, Shape

_ACTIVATIONS: Final = {
    "relu": 1, "leaky_relu": 2, "prelu": 2, "sigmoid": 32, "silu": 33, "tanh": 38, "hard_sigmoid": 4, "hard_swish": 5,
    "elu": 35, "softplus": 76, "gelu": 7,
}  # fmt: skip
_ARITHMETIC: Final = {"exp": 32, "log": 43, "sqrt": 24, "abs": 1, "neg": 1, "sin": 39, "cos": 39, "reciprocal": 4}
_INPUT_LIMITS: Final = 11  # the opset from which the limits of Clip are inputs, and charged for as operands


def _mean(node: Node, inputs: Sequence[Shape]) -> int:
    """A pool over all that is spatial also divides; a mean over other axes is a sum to it."""
    given = inputs[0]
    every_spatial = tuple(range(2, len(given)))
    is_pool = node.op != "mean" or tuple(node.get("axes", ())) == every_spatial
    additions = prod(given)
    return additions + 4 * prod(node.shape) if is_pool else additions


def _local(node: Node, inputs: Sequence[Shape]) -> int:
    return (37 + int(node.get("size"))) * prod(node.shape)


def convention(graph: Graph) -> Convention:
    limits = 4 if int(graph.facts.get("opset") or 0) >= _INPUT_LIMITS else 2
    return Convention(
        summary="1 per multiply-add and bias; batch norm 31 per number, softmax 36, sigmoid 32, pools by window",
        bias={"conv": 1, "conv_transpose": 1, "dense": 1},
        charges={
            **{op: per_output(ACTIVATION, each) for op, each in _ACTIVATIONS.items()},
            **{op: per_output(ARITHMETIC, each) for op, each in _ARITHMETIC.items()},
            **all_of(("relu6", "clip"), per_output(ACTIVATION, limits)),
            **all_of(("add", "sub", "mul", "maximum", "minimum"), per_operand(ARITHMETIC)),
            "div": per_operand(ARITHMETIC, 4),
            "pow": per_operand(ARITHMETIC, 32),
            "affine": per_factor(ARITHMETIC),
            **all_of(("max_pool", "avg_pool"), per_window(POOL)),
            **all_of(("global_avg_pool", "adaptive_avg_pool", "mean"), Charge(MEAN, _mean)),
            "batch_norm": per_output(NORM, 31),
            "instance_norm": per_output(NORM, 14),
            "lrn": Charge(NORM, _local),
            "softmax": per_output(SOFTMAX, 36),
            "log_softmax": per_output(SOFTMAX, 80),
            "resize": per_output(RESIZE, 1),
        },
    )


def count(subject: CountedModel) -> float:
    import numpy as np
    import onnx_tool

    model = onnx_model(subject)
    graph = onnx_tool.Model(model).graph
    known = {tensor.name for tensor in model.graph.initializer}
    fed = {
        tensor.name: np.zeros([dim.dim_value for dim in tensor.type.tensor_type.shape.dim], np.float32)
        for tensor in model.graph.input
        if tensor.name not in known
    }
    graph.shape_infer(fed)
    graph.profile()
    return float(graph.macs[0])


COUNTER: Final = Counter("onnx-tool", "onnx-tool", "onnx", convention, count)
