"""Norms that an exporter may have folded into layers, and those that it could not."""

from __future__ import annotations

from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.vocabulary import ACTIVATIONS, ARITHMETIC
from zoolens.findings.graph.outline.blocks import LEARNED
from zoolens.findings.graph.passes.without_norms import is_along_channels


def could_be_folded(normed: Graph, plain: Graph) -> bool:
    """Whether a side without norms may be what an exporter made of the other. No exporter moves a scale to another
    place, nor takes in a norm between an activation and a padded layer: at the border the two do not commute."""
    standing = [node for node in normed if _stands_alone(node, normed)]
    left = sum(_stands_alone(node, plain) for node in plain)
    return sum(_is_fixed(node, normed) for node in standing) <= left <= len(standing)


def prepares_input(node: Node, graph: Graph) -> bool:
    """Whether a norm stands right behind the input: it prepares the numbers, and no layer could have taken it in."""
    while len(node.inputs) == 1:
        node = graph.by_name[node.inputs[0]]
        if node.op not in ("batch_norm", "affine", *ARITHMETIC):
            break
    return node.op == "input"


def _stands_alone(node: Node, graph: Graph) -> bool:
    scales = node.op == "affine" and node.parameter("scale") is not None and is_along_channels(node)
    return (scales or node.op == "batch_norm") and not prepares_input(node, graph)


def _is_fixed(norm: Node, graph: Graph) -> bool:
    before = graph.by_name[norm.inputs[0]]
    users = graph.consumers[norm.name]
    padded = any(user.op not in LEARNED or any(user.get("pads", ())) for user in users)
    return padded and (before.op in ACTIVATIONS or before.op == "max_pool")
