"""thop (pytorch-OpCounter): listens to torch modules; one per multiply-add, four per normalised number."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from zoolens.findings.graph.counters.counter import Counter, always
from zoolens.findings.graph.counters.subjects import CountedModel, torch_network
from zoolens.findings.graph.counters.terms import (
    ACTIVATION,
    MEAN,
    NORM,
    POOL,
    SOFTMAX,
    Charge,
    Convention,
    all_of,
    by_scale,
    outside_modules,
    per_output,
)
from zoolens.findings.graph.ir.model import Node, Shape


def _mean(node: Node, inputs: Sequence[Shape]) -> int:
    """A sum over each window and a division."""
    return prod(inputs[0]) + prod(node.shape)


def _softmax(node: Node, inputs: Sequence[Shape]) -> int:
    features: int = node.shape[node.get("axis")]
    return prod(node.shape) // features * (3 * features - 1)


CONVENTION: Final = Convention(
    summary="1 per multiply-add; norms 4 per number, average pooling; only what is a torch module of its own",
    charges={
        **all_of(("batch_norm", "layer_norm", "instance_norm"), by_scale(NORM, 4, 2)),
        **all_of(("adaptive_avg_pool", "global_avg_pool"), Charge(MEAN, _mean)),
        "avg_pool": per_output(POOL),
        "prelu": per_output(ACTIVATION),
        "softmax": Charge(SOFTMAX, _softmax),
    },
    unseen=outside_modules,
    modules_only=True,
)


def count(subject: CountedModel) -> float:
    from thop import profile

    module, inputs = torch_network(subject)
    macs, _ = profile(module, tuple(inputs.values()), verbose=False)
    return float(macs)


COUNTER: Final = Counter("thop", "thop", "torch", always(CONVENTION), count)
