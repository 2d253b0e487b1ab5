"""How much of one network, or of two that are compared, was understood."""

from __future__ import annotations

from zoolens.base.verdicts import Coverage
from zoolens.base.verdicts.coverage import merged
from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.ir.model import Graph


def graph_coverage(graph: Graph, name: str = "") -> Coverage:
    """Layers, parameters and MACs that were understood, and a gap for each kind of operator that was not."""
    return cost(graph).coverage_of(name)


def pair_coverage(a: Graph, b: Graph, names: tuple[str, str] = ("A", "B")) -> Coverage:
    """The coverage of two networks together. Each gap says on which side it is."""
    of_a = graph_coverage(a, names[0])
    of_b = graph_coverage(b, names[1])
    return merged((of_a, of_b))
