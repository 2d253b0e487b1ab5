"""Pads of zeros become the pads of the convolution or pool that follows; crops of padded maps become shifts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import inf
from typing import Final

from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.vocabulary import POOLS
from zoolens.findings.graph.passes.editor import Editor, rewrite

_NEVER_NEGATIVE: Final = frozenset(
    {"relu", "relu6", "sigmoid", "hard_sigmoid", "softmax", "softplus", "square", "abs", "exp", "sqrt"}
)
_KEEPS_SIGN: Final = POOLS | {
    "concat", "slice", "channel_shuffle", "add", "mul", "reshape", "flatten", "transpose", "mean", "sum", "max", "lrn",
}  # fmt: skip
_LOWEST: Final = -1e30  # what sources write for minus infinity


def merge_pads(graph: Graph) -> Graph:
    if not any(node.op == "pad" for node in graph.nodes):
        return graph
    max_pool = partial(_max_pool, never_negative(graph))
    return rewrite(graph, {"conv": _conv, "avg_pool": _avg_pool, "max_pool": max_pool, "slice": _cropped})


def _conv(node: Node, editor: Editor) -> Node | str:
    pad = _spatial_pad(node, editor)
    if pad is not None and pad.get("value", 0) == 0:
        return _with_pads(node, pad)
    return node


def _avg_pool(node: Node, editor: Editor) -> Node | str:
    """The zeros of a pad node are in the mean, so its own padding may not be left out of it."""
    pad = _spatial_pad(node, editor)
    if pad is None or pad.get("value", 0) != 0:
        return node
    leaves_out_own = any(node.get("pads") or ()) and not node.get("count_pad")
    return node if leaves_out_own else _with_pads(node, pad).with_attributes(count_pad=True)


def _max_pool(never_negative: Mapping[str, bool], node: Node, editor: Editor) -> Node | str:
    pad = _spatial_pad(node, editor)
    if pad is None or node.get("pad_value") is not None:
        return node
    value = pad.get("value", 0)
    if value <= _LOWEST or (value == 0 and never_negative.get(pad.inputs[0], False)):
        return _with_pads(node, pad)
    if any(node.get("pads") or ()) or value == inf:
        return node
    return _with_pads(node, pad).with_attributes(pad_value=float(value))


def _cropped(node: Node, editor: Editor) -> Node | str:
    """Padding one side and cropping the other is a shift: one pad, of which an entry is negative."""
    pad = editor.made_by(node.inputs[0], "pad")
    if pad is None or pad.get("mode", "constant") != "constant" or node.get("step", 1) != 1:
        return node
    axis = node.get("axis")
    pads = list(pad.get("pads"))
    end = axis + len(pad.shape)
    pads[axis] -= node.get("start")
    pads[end] -= pad.shape[axis] - node.get("stop")
    if pads[axis] + editor.maker(pad.inputs[0]).shape[axis] <= 0 or pads[end] + pad.shape[axis] <= 0:
        return node  # nothing but padding is left
    return replace(pad.with_attributes(pads=tuple(pads)), name=node.name, shape=node.shape)


def _spatial_pad(node: Node, editor: Editor) -> Node | None:
    """The pad node before this one, if it pads with one value and only along spatial axes, and does not crop."""
    pad = editor.made_by(node.inputs[0], "pad")
    if pad is None or pad.get("mode", "constant") != "constant":
        return None
    pads = pad.get("pads")
    rank = len(pad.shape)
    elsewhere = (*pads[:2], *pads[rank : rank + 2])
    return None if any(elsewhere) or min(pads) < 0 else pad


def _with_pads(node: Node, pad: Node) -> Node:
    pads = pad.get("pads")
    rank = len(pad.shape)
    outer = (*pads[2:rank], *pads[rank + 2 :])
    own = node.get("pads") or (0,) * len(outer)
    total = tuple(a + b for a, b in zip(outer, own, strict=True))
    return replace(node.with_attributes(pads=total), inputs=pad.inputs)


def never_negative(graph: Graph) -> dict[str, bool]:
    """Whether each value of a graph is known to have no negative number."""
    known: dict[str, bool] = {}
    for node in graph.nodes:
        if node.op == "clip":
            low = node.get("low")
            known[node.name] = low is not None and low >= 0
        elif node.op == "pad":
            known[node.name] = known[node.inputs[0]] and node.get("value", 0) >= 0
        elif node.op in _KEEPS_SIGN and node.get("scalar") is None:
            known[node.name] = all(known[name] for name in node.inputs)
        else:
            known[node.name] = node.op in _NEVER_NEGATIVE
    return known
