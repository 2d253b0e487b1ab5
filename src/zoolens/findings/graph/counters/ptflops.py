"""ptflops, with the backend its documentation recommends: products and biases."""

from __future__ import annotations

from typing import Final

from zoolens.findings.graph.counters.counter import Counter, always
from zoolens.findings.graph.counters.subjects import CountedModel, torch_network
from zoolens.findings.graph.counters.terms import Convention, fused_attention

CONVENTION: Final = Convention(
    summary="1 per multiply-add, 1 per bias added",
    bias={"conv": 1, "conv_transpose": 1, "dense": 1},
    unseen=fused_attention,
)


def count(subject: CountedModel) -> float:
    from ptflops import get_model_complexity_info

    module, inputs = torch_network(subject)
    shape = tuple(next(iter(inputs.values())).shape[1:])
    macs, _ = get_model_complexity_info(
        module,
        shape,
        as_strings=False,
        print_per_layer_stat=False,
        backend="aten",
        input_constructor=lambda _: inputs,
    )
    return float(macs)


COUNTER: Final = Counter("ptflops", "ptflops", "torch", always(CONVENTION), count)
