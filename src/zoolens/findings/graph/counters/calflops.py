"""calflops: two per multiply-add, and most of torch.nn.functional."""

from __future__ import annotations

from typing import Final

from zoolens.findings.graph.counters.counter import Counter, always
from zoolens.findings.graph.counters.subjects import CountedModel, torch_network
from zoolens.findings.graph.counters.terms import (
    ACTIVATION,
    MEAN,
    NORM,
    POOL,
    SOFTMAX,
    Convention,
    all_of,
    by_scale,
    fused_attention,
    per_input,
    per_output,
)

_POOLS: Final = ("max_pool", "avg_pool")
_ADAPTIVE: Final = ("adaptive_avg_pool", "adaptive_max_pool", "global_avg_pool", "global_max_pool")

CONVENTION: Final = Convention(
    summary="2 per multiply-add; conv bias, norms 2 or 5 per number, ReLU, SiLU, GELU 1, pooling 1 per input; no ReLU6",
    per_mac=2,
    bias={"conv": 1, "conv_transpose": 1},
    charges={
        "batch_norm": by_scale(NORM, 2, 1),
        **all_of(("layer_norm", "group_norm", "instance_norm"), by_scale(NORM, 5, 4)),
        **all_of(("relu", "silu", "gelu", "elu", "leaky_relu", "prelu"), per_output(ACTIVATION)),
        **all_of(_POOLS, per_input(POOL)),
        **all_of(_ADAPTIVE, per_input(MEAN)),
        "softmax": per_output(SOFTMAX),
    },
    unseen=fused_attention,
)


def count(subject: CountedModel) -> float:
    from calflops import calculate_flops

    module, inputs = torch_network(subject)
    flops, _, _ = calculate_flops(module, kwargs=inputs, print_results=False, output_as_string=False)
    return float(flops)


COUNTER: Final = Counter("calflops", "calflops", "torch", always(CONVENTION), count)
