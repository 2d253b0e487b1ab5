"""onnx-opcounter: the counter that the 2022 study of zoo discrepancies used for ONNX files."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from zoolens.findings.graph.counters.counter import Counter
from zoolens.findings.graph.counters.subjects import CountedModel, onnx_model, without_made_weights
from zoolens.findings.graph.counters.terms import (
    ACTIVATION,
    ARITHMETIC,
    ARRANGEMENT,
    MEAN,
    NORM,
    POOL,
    SOFTMAX,
    Charge,
    Convention,
    all_of,
    per_factor,
    per_output,
)
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.ir.vocabulary import ACTIVATIONS, OPS

# Everything that its table does not name costs one per output number, also what only moves data.
_FREE: Final = frozenset({
    "input", "parameter", "constant", "conv", "conv_transpose", "dense", "matmul", "attention", "recurrent", "reshape",
    "slice", "gather", "tile", "transpose", "cast", "embedding", "resize", "output_of", "channel_shuffle", "unknown",
})  # fmt: skip
_POOLS: Final = ("max_pool", "avg_pool")
_MEANS: Final = ("global_avg_pool", "global_max_pool", "adaptive_avg_pool", "adaptive_max_pool", "mean", "sum", "max")
_MOVING: Final = ("concat", "pad", "flatten", "dropout", "identity", "expand", "space_to_depth", "depth_to_space")
_RESHAPING: Final = ("caffe2", "tf2onnx", "keras2onnx")  # exporters that flatten with Reshape, which is free
_COMPOSED: Final = {"silu": 2, "hard_swish": 2, "gelu": 5, "mish": 3}  # ONNX builds these of several operators


def _charges() -> dict[str, Charge]:
    return {
        **all_of(set(OPS) - _FREE, per_output(ARITHMETIC)),
        **all_of(ACTIVATIONS, per_output(ACTIVATION)),
        **{op: per_output(ACTIVATION, each) for op, each in _COMPOSED.items()},
        **all_of(_POOLS, per_output(POOL)),
        **all_of(_MEANS, per_output(MEAN)),
        **all_of(_MOVING, per_output(ARRANGEMENT)),
        **all_of(("softmax", "log_softmax"), per_output(SOFTMAX)),
        **all_of(("lrn", "instance_norm", "layer_norm", "group_norm", "rms_norm"), per_output(NORM)),
        "batch_norm": per_output(NORM, 2),
        "affine": per_factor(ARITHMETIC),
    }


FLATTENING: Final = Convention(
    summary="1 per multiply-add; batch norm 2, almost every other operator 1 per output number, also concat, dropout",
    charges=_charges(),
)
RESHAPING: Final = replace(
    FLATTENING, charges={op: charge for op, charge in FLATTENING.charges.items() if op != "flatten"}
)


def convention(graph: Graph) -> Convention:
    """An ONNX file flattens with one of two operators, and only its producer tells with which."""
    producer = str(graph.facts.get("producer", "")).lower()
    if any(name in producer for name in _RESHAPING):
        return RESHAPING
    return FLATTENING


def count(subject: CountedModel) -> float:
    from onnx_opcounter import calculate_macs

    return float(calculate_macs(without_made_weights(onnx_model(subject))))


COUNTER: Final = Counter("onnx-opcounter", "onnx-opcounter", "onnx", convention, count)
