"""The canonical graph without its norms, for comparing with files in which they were folded into the layers."""

from __future__ import annotations

from dataclasses import replace

from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.passes.editor import Editor, rewrite
from zoolens.findings.graph.passes.order import settle_order


def norm_blind(graph: Graph) -> Graph:
    """The graph without batch norms, per-channel affines and the biases of conv and dense layers."""
    rules = {"conv": _bare, "conv_transpose": _bare, "dense": _bare, "batch_norm": _skipped, "affine": _skipped}
    return settle_order(rewrite(graph, rules))


def _bare(node: Node, _: Editor) -> Node | str:
    kernel = tuple(tensor for tensor in node.parameters if tensor.role == "kernel")
    return replace(node, parameters=kernel).with_attributes(norm=None, epsilon=None)


def _skipped(node: Node, _: Editor) -> Node | str:
    return node.inputs[0] if node.op == "batch_norm" or is_along_channels(node) else node


def is_along_channels(affine: Node) -> bool:
    """Whether it scales channels, which are the second axis of maps, and the second or last of sequences."""
    rank = len(affine.shape)
    return affine.get("axis") in ((1,) if rank > 3 else (1, rank - 1))
