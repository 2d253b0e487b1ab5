"""A constant that the input of a layer is scaled by, as part of the layer's kernel: optimisers write it so."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import Final

import numpy as np

from zoolens.findings.graph.ir.model import Array, Graph, Node
from zoolens.findings.graph.ir.vocabulary import ARITHMETIC
from zoolens.findings.graph.passes.editor import Editor, rewrite
from zoolens.findings.graph.passes.order import settle_order

_LAYERS: Final = ("conv", "conv_transpose", "dense")


def fold_leading_constants(graph: Graph) -> Graph:
    """Works on canonical graphs. A constant stays where anything else uses what is scaled."""
    folded = rewrite(graph, dict.fromkeys(_LAYERS, _scaled))
    return folded if folded is graph else settle_order(folded)


def _prepares_input(node: Node, editor: Editor) -> bool:
    """Whether it stands right behind the input: preprocessing is reported as such."""
    while node.op in ARITHMETIC and len(node.inputs) == 1:
        node = editor.maker(node.inputs[0])
    return node.op == "input"


def _scaled(node: Node, editor: Editor) -> Node | str:
    before = editor.made_by(node.inputs[0], "mul", "div")
    kernel = node.parameter("kernel")
    if before is None or kernel is None or before.get("scalar") is None or not editor.only_use(before.name):
        return node
    if (before.op == "div" and before.get("reverse")) or _prepares_input(before, editor):
        return node
    scalar = float(before.get("scalar"))
    if scalar == 0 or not isfinite(scalar):
        return node  # nothing is left of the input
    number = scalar if before.op == "mul" else 1 / scalar

    def times(values: Array) -> Array:
        return np.asarray(values * number)

    key = editor.derived(f"{kernel.key}·{number:g}", times, kernel.key)
    return replace(node.with_parameters(kernel=replace(kernel, key=key)), inputs=before.inputs)
