"""The form in which networks of a port are compared: canonical, with every layer as one that has its own tensors."""

from __future__ import annotations

from zoolens.graph.model import Graph
from zoolens.graph.passes.canonical import canonical
from zoolens.graph.passes.packed_layers import split_packed_layers


def comparable(graph: Graph) -> Graph:
    """The canonical graph of a raw one, in which a layer that packs several is as many layers."""
    return split_packed_layers(canonical(graph))
