"""Group norms that a source spelled as instance norms of a reshaped value: (N, groups, all of a group's numbers).

Works on raw graphs, so that the layout is tracked through the norm instead of ending at its reshape.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.passes.editor import Editor, rewrite

_AXES: Final = {3: "NCW", 4: "NCHW", 5: "NCDHW"}


def restore_group_norms(graph: Graph) -> Graph:
    if not any(node.op == "instance_norm" for node in graph.nodes):
        return graph
    return rewrite(graph, {"reshape": _group_norm})


def _group_norm(node: Node, editor: Editor) -> Node | str:
    norm = editor.made_by(node.inputs[0], "instance_norm")
    split = editor.made_by(norm.inputs[0], "reshape") if norm is not None else None
    if norm is None or split is None or norm.parameters or editor.maker(split.inputs[0]).shape != node.shape:
        return node
    axes = _AXES.get(len(node.shape), "")
    groups = split.shape[1]
    if split.shape[0] != node.shape[0] or not axes or node.shape[1] % groups:
        return node
    attributes = {"groups": groups, "epsilon": norm.get("epsilon")}
    return replace(node, op="group_norm", inputs=split.inputs, attributes=attributes, axes=axes)
