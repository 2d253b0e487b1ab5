"""fvcore's FlopCountAnalysis: the counter of Meta's vision libraries, one per multiply-add."""

from __future__ import annotations

from typing import Final

from zoolens.findings.graph.counters.counter import Counter, always
from zoolens.findings.graph.counters.subjects import CountedModel, torch_network
from zoolens.findings.graph.counters.terms import (
    MEAN,
    NORM,
    RESIZE,
    Convention,
    all_of,
    by_scale,
    fused_attention,
    per_input,
    per_output,
)

CONVENTION: Final = Convention(
    summary="1 per multiply-add; norms 2 per number (5 with statistics of their own), adaptive pooling 1 per input",
    charges={
        "batch_norm": by_scale(NORM, 2, 1),
        **all_of(("layer_norm", "group_norm", "instance_norm"), by_scale(NORM, 5, 4)),
        **all_of(("adaptive_avg_pool", "global_avg_pool"), per_input(MEAN)),
        "resize": per_output(RESIZE, 4),
    },
    unseen=fused_attention,
)


def count(subject: CountedModel) -> float:
    from fvcore.nn import FlopCountAnalysis

    module, inputs = torch_network(subject)
    analysis = FlopCountAnalysis(module, tuple(inputs.values()))
    return float(analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False).total())


COUNTER: Final = Counter("fvcore", "fvcore", "torch", always(CONVENTION), count)
