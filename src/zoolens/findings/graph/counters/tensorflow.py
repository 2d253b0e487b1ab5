"""TensorFlow's graph profiler: two per multiply-add, and whatever operators have a rule registered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, Final

from zoolens.findings.graph.counters.counter import Counter
from zoolens.findings.graph.counters.subjects import CountedModel, keras_model
from zoolens.findings.graph.counters.terms import (
    ACTIVATION,
    ARITHMETIC,
    MEAN,
    NORM,
    POOL,
    SOFTMAX,
    Charge,
    Convention,
    all_of,
    per_factor,
    per_input,
    per_operand,
    per_output,
    per_window,
)
from zoolens.findings.graph.ir.model import Graph, Node, Shape

GROUPED: Final = "grouped convolutions, which Keras 3 hides in a compiled function"
_FUSING: Final = ("slim", "official")


def _norm(node: Node, inputs: Sequence[Shape]) -> int:
    """Keras 3 normalises with plain arithmetic: two per number, and a few per channel for the factors."""
    prefix = "norm_" if node.get("norm") else ""
    variance = node.parameter(f"{prefix}variance")
    channels = variance.size if variance else 0
    learned = [node.parameter(f"{prefix}{role}") for role in ("scale", "shift")]
    if not any(learned):  # a Normalization layer, which only takes the larger of deviation and epsilon
        return 2 * prod(node.shape) + channels
    return 2 * prod(node.shape) + channels * (6 if learned[0] else 5)


def _layer_norm(node: Node, inputs: Sequence[Shape]) -> int:
    """Mean, variance and five steps of arithmetic on each number; four more where they are one number a place."""
    normalised: int = prod(node.shape[axis] for axis in node.get("axes"))
    return 9 * prod(node.shape) + 4 * prod(node.shape) // normalised


def _hidden(node: Node) -> str:
    """A grouped convolution that is not depthwise."""
    kernel = node.parameter("kernel")
    depthwise = kernel is not None and kernel.shape[1] == 1
    if node.op == "conv" and node.get("groups", 1) > 1 and not depthwise:
        return GROUPED
    return ""


KERAS: Final = Convention(
    summary="2 per multiply-add; bias, batch norm, pooling windows, arithmetic, softmax 5 per number; no activations",
    per_mac=2,
    bias={"conv": 1, "conv_transpose": 1, "dense": 1},
    charges={
        "batch_norm": Charge(NORM, _norm),
        "layer_norm": Charge(NORM, _layer_norm),
        "affine": per_factor(ARITHMETIC),
        **all_of(("max_pool", "avg_pool"), per_window(POOL)),
        **all_of(("global_avg_pool", "adaptive_avg_pool", "mean"), per_input(MEAN)),
        **all_of(("add", "sub", "mul", "div", "maximum", "minimum", "pow"), per_operand(ARITHMETIC)),
        **all_of(("reciprocal", "square", "log", "neg", "compare"), per_output(ARITHMETIC)),
        "rsqrt": per_output(ARITHMETIC, 2),
        "softmax": per_output(SOFTMAX, 5),
        "silu": per_output(ACTIVATION, 2),
        "hard_swish": per_output(ACTIVATION, 3),
        "hard_sigmoid": per_output(ACTIVATION, 2),
        "gelu": per_output(ACTIVATION, 4),
    },
    unseen=_hidden,
)
FUSED: Final = replace(
    KERAS,
    summary=KERAS.summary.replace(" batch norm,", "") + "; its batch norm is one fused operator, which counts as 0",
    charges={op: charge for op, charge in KERAS.charges.items() if op != "batch_norm"},
)


def convention(graph: Graph) -> Convention:
    """TF-slim and the Model Garden use the fused batch norm; Keras 3 does not."""
    return FUSED if graph.facts.get("library") in _FUSING else KERAS


def count(subject: CountedModel) -> float:
    import tensorflow as tf

    model = keras_model(subject)
    size = subject.request.size or model.input_shape[1:3]
    image = tf.TensorSpec((1, *size, model.input_shape[3]), tf.float32)
    traced = tf.function(lambda given: model(given, training=False)).get_concrete_function(image)
    return float(_profiled(tf, traced.graph))


def _profiled(tf: Any, graph: Any) -> int:
    profiler = tf.compat.v1.profiler
    options = profiler.ProfileOptionBuilder(profiler.ProfileOptionBuilder.float_operation()).with_empty_output()
    profile = profiler.profile(graph=graph, run_meta=tf.compat.v1.RunMetadata(), cmd="op", options=options.build())
    return int(profile.total_float_ops)


COUNTER: Final = Counter("tensorflow", "tensorflow", "keras", convention, count)
