"""torch.utils.flop_counter: products only, two per multiply-add."""

from __future__ import annotations

from typing import Final

from zoolens.findings.graph.counters.counter import Counter, always
from zoolens.findings.graph.counters.subjects import CountedModel, torch_network
from zoolens.findings.graph.counters.terms import Convention

CONVENTION: Final = Convention(summary="2 per multiply-add, and nothing else", per_mac=2)


def count(subject: CountedModel) -> float:
    """Counts on the meta device, where attention is not hidden in the one kernel that the CPU has for it in
    inference."""
    from torch.utils.flop_counter import FlopCounterMode

    module, inputs = torch_network(subject, device="meta")
    with FlopCounterMode(display=False) as counter:
        module(**inputs)
    return float(counter.get_total_flops())


COUNTER: Final = Counter("torch", "torch", "torch", always(CONVENTION), count)
