"""The form in which networks of a port are compared: canonical, with every layer as one that has its own tensors."""

from __future__ import annotations

from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.passes.attention_masks import unify_attention_masks
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.passes.common_subexpressions import share_values
from zoolens.findings.graph.passes.order import settle_order
from zoolens.findings.graph.passes.packed_layers import split_packed_layers
from zoolens.findings.graph.passes.recurrent_layers import split_recurrent_layers


def comparable(graph: Graph) -> Graph:
    """The canonical graph of a raw one, in which a layer that packs several is as many layers."""
    read = canonical(split_recurrent_layers(graph))
    return split_packed_layers(settle_order(share_values(unify_attention_masks(read))))
