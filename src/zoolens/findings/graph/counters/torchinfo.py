"""torchinfo's summary: parameters of each module times the places where a convolution uses them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from zoolens.findings.graph.counters.counter import Counter, always
from zoolens.findings.graph.counters.subjects import CountedModel, torch_network
from zoolens.findings.graph.counters.terms import ACTIVATION, NORM, Charge, Convention, all_of, outside_modules
from zoolens.findings.graph.ir.model import Node, Shape

ONCE: Final = "dense layers once, not once a token"


def _learned(node: Node, inputs: Sequence[Shape]) -> int:
    merged = [tensor.size for tensor in node.parameters if tensor.role in ("norm_scale", "norm_shift")]
    return sum(merged) if node.get("norm") else node.learned


def _tokens(node: Node, inputs: Sequence[Shape]) -> int:
    """Weights and biases are counted once for a batch, whatever lies between it and the features."""
    kernel = node.parameter("kernel")
    if kernel is None or outside_modules(node):
        return 0
    places = prod(node.shape[:-1])
    once = kernel.size + (kernel.shape[0] if node.parameter("bias") else 0)
    return node.shape[0] * once - places * once


CONVENTION: Final = Convention(
    summary="1 per multiply-add, 1 per bias added; norms as many as they have parameters; only torch modules",
    bias={"conv": 1, "conv_transpose": 1, "dense": 1},
    charges={
        **all_of(("batch_norm", "layer_norm", "group_norm", "instance_norm"), Charge(NORM, _learned)),
        "prelu": Charge(ACTIVATION, _learned),
        "dense": Charge(ONCE, _tokens),
    },
    unseen=outside_modules,
    modules_only=True,
)


def count(subject: CountedModel) -> float:
    from torchinfo import summary

    module, inputs = torch_network(subject)
    return float(summary(module, input_data=inputs, verbose=0).total_mult_adds)


COUNTER: Final = Counter("torchinfo", "torchinfo", "torch", always(CONVENTION), count)
