"""What each counter would say of a graph. No counter needs to be installed for that."""

from __future__ import annotations

from typing import Final

from zoolens.base.errors import UnknownName
from zoolens.findings.graph.counters import (
    calflops,
    fvcore,
    onnxopcounter,
    onnxtool,
    ptflops,
    tensorflow,
    thop,
    torchflops,
    torchinfo,
)
from zoolens.findings.graph.counters.counter import Counter
from zoolens.findings.graph.ir.model import Graph

COUNTERS: Final[dict[str, Counter]] = {
    module.COUNTER.name: module.COUNTER
    for module in (fvcore, torchflops, ptflops, thop, calflops, torchinfo, onnxtool, onnxopcounter, tensorflow)
}


def as_counted_by(counter: str, graph: Graph) -> float:
    """What a counter would say, in multiply-adds: counters that charge two for one are halved."""
    if counter not in COUNTERS:
        raise UnknownName("cost counter", counter, COUNTERS)
    convention = COUNTERS[counter].convention(graph)
    return sum(convention.predicted(graph).values()) / convention.per_mac
