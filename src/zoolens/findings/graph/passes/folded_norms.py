"""The canonical graph with its norms folded, for comparing with files whose exporter folded some of them.

Exporters fold what they can: a batch norm behind a convolution becomes its bias, or a scale and shift beside it, while
one that stands before a convolution stays, or becomes a scale and shift of its own. The numbers are folded too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import isfinite
from typing import Final

import numpy as np

from zoolens.findings.graph.ir.model import Array, Graph, Node, Parameter
from zoolens.findings.graph.passes.editor import Editor, Rule, rewrite
from zoolens.findings.graph.passes.order import settle_order

ROLES = ("scale", "shift", "mean", "variance")


def folded_norms(graph: Graph, ops: Collection[str]) -> Graph:
    """The graph with the norms of these layers ("conv", "dense") in their kernels and biases; "batch_norm" becomes
    `affine`, and "mul" stands for numbers that a layer's output is multiplied with."""
    rules: dict[str, Rule] = {op: _RULES.get(op, _into_layer) for op in ops}
    if set(rules) & {"conv", "dense"}:
        rules["affine"] = _behind_layer(frozenset(rules))
    return settle_order(rewrite(graph, rules)) if rules else graph


def folded_scales(graph: Graph) -> Graph:
    """The graph with stored scales and shifts behind convolutions and dense layers in their weights; norms stay."""
    behind = _behind_layer(frozenset({"conv", "dense"}))

    def into(node: Node, editor: Editor) -> Node | str:
        return _into_layer(node, editor) if node.get("norm") == "affine" else node

    def after(node: Node, editor: Editor) -> Node | str:
        if editor.maker(node.inputs[0]).get("norm"):
            return node
        return behind(node, editor)

    folded = rewrite(graph, {"conv": into, "dense": into, "affine": after})
    return folded if folded is graph else settle_order(folded)


def _behind_layer(ops: frozenset[str]) -> Rule:
    """A scale behind a folded layer, which nothing else uses, is folded into it too."""

    def rule(node: Node, editor: Editor) -> Node | str:
        before = editor.maker(node.inputs[0])
        axis = 1 if before.op == "conv" else len(before.shape) - 1
        if before.op not in ops & {"conv", "dense"} or node.get("axis") != axis or not editor.only_use(before.name):
            return node
        taken = tuple(replace(tensor, role=f"norm_{tensor.role}") for tensor in node.parameters)
        merged = replace(before, parameters=before.parameters + taken).with_attributes(norm="affine")
        folded = _into_layer(merged, editor)
        return editor.absorb(folded) if isinstance(folded, Node) else node

    return rule


def _into_layer(node: Node, editor: Editor) -> Node | str:
    if node.get("norm") not in ("batch", "affine"):
        return node
    kernel = node.parameter("kernel")
    bias = node.parameter("bias")
    if kernel is None:
        return node
    norm = [node.parameter(f"norm_{role}") for role in ROLES]
    epsilon = float(node.get("epsilon", 0.0))
    width = kernel.shape[0]
    scale, _ = _folded(norm, epsilon, width, node.name, editor)

    def scaled_kernel(values: Array, by: Array) -> Array:
        # A file may store the values in another shape of the same order.
        inner = [1] * (len(kernel.shape) - 1)
        return np.asarray(values.reshape(kernel.shape) * by.reshape(-1, *inner))

    scaled = editor.derived(f"{kernel.key}:folded", scaled_kernel, kernel.key, scale)
    _, shift = _folded(norm, epsilon, width, node.name, editor, bias)
    parameters = (replace(kernel, key=scaled), Parameter("bias", (width,), shift))
    return replace(node, parameters=parameters).with_attributes(norm=None, epsilon=None)


def _number_into_layer(node: Node, editor: Editor) -> Node | str:
    """A number behind a layer, which nothing else uses, is folded into its kernel and bias."""
    before = editor.maker(node.inputs[0])
    number = node.get("scalar")
    if number is None or not scales_layer(node, before) or not editor.only_use(before.name):
        return node

    def scaled(values: Array) -> Array:
        return np.asarray(values * number)

    parameters = []
    for tensor in before.parameters:
        key = editor.derived(f"{tensor.key}:{node.name}", scaled, tensor.key)
        parameters.append(replace(tensor, key=key))
    return editor.absorb(replace(before, parameters=tuple(parameters)))


def scales_layer(node: Node, before: Node) -> bool:
    """Whether a number could be in the layer's weights; behind 0 nothing is left of them."""
    if node.op != "mul" or before.op not in ("conv", "dense") or before.get("norm"):
        return False
    number = float(node.get("scalar") or 0)
    return number != 0 and isfinite(number)


def _as_affine(node: Node, editor: Editor) -> Node | str:
    norm = [node.parameter(role) for role in ROLES]
    width = next(tensor.size for tensor in norm if tensor is not None)
    epsilon = float(node.get("epsilon", 0.0))
    scale, shift = _folded(norm, epsilon, width, node.name, editor)
    parameters = (Parameter("scale", (width,), scale), Parameter("shift", (width,), shift))
    channels = min(1, len(node.shape) - 1)
    return replace(node, op="affine", attributes={"axis": channels}, parameters=parameters)


def _folded(
    norm: Sequence[Parameter | None],
    epsilon: float,
    width: int,
    name: str,
    editor: Editor,
    bias: Parameter | None = None,
) -> tuple[str, str]:
    """Keys of the scale and the shift that a norm comes to; of a value with this bias."""
    given = [tensor for tensor in (*norm, bias) if tensor is not None]
    places = [position for position, tensor in enumerate((*norm, bias)) if tensor is not None]

    def full(values: Sequence[Array]) -> list[Array]:
        # Without a variance the norm divides by 1, also once epsilon is added.
        filled = [np.full(width, default) for default in (1.0, 0.0, 0.0, 1.0 - epsilon, 0.0)]
        for place, value in zip(places, values, strict=True):
            filled[place] = np.asarray(value, float).reshape(-1)
        return filled

    def scale(*values: Array) -> Array:
        by, _, _, variance, _ = full(values)
        return np.asarray(by / np.sqrt(variance + epsilon))

    def shift(*values: Array) -> Array:
        _, plus, mean, _, added = full(values)
        return np.asarray(plus + (added - mean) * scale(*values))

    keys = [tensor.key for tensor in given]
    return editor.derived(f"{name}:scale", scale, *keys), editor.derived(f"{name}:shift", shift, *keys)


_RULES: Final[dict[str, Rule]] = {"batch_norm": _as_affine, "mul": _number_into_layer}
