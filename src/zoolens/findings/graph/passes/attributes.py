"""Attributes in one form: what matters is explicit, what says nothing is absent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.vocabulary import REDUCTIONS, WINDOWED

_IGNORED: Final = frozenset({"input", "reshape", "expand", "global_avg_pool", "global_max_pool"})
_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "hard_sigmoid": {"alpha": 1 / 6, "beta": 0.5},
    "elu": {"alpha": 1.0},
    "l2_normalize": {"epsilon": 1e-12},
    "slice": {"step": 1},
    "pad": {"value": 0, "mode": "constant"},
    "avg_pool": {"count_pad": False},
    **{op: {"keep": False} for op in REDUCTIONS},
    **{op: {"reverse": False} for op in ("add", "sub", "mul", "div", "pow")},
    "matmul": {"transpose_a": False, "transpose_b": False},
    "attention": {"causal": False},
}


def settle_attributes(graph: Graph) -> Graph:
    return replace(graph, nodes=tuple(_settled(node) for node in graph.nodes))


def _settled(node: Node) -> Node:
    if node.op in WINDOWED:
        node = _window(node)
    if node.op in _IGNORED and node.attributes:
        node = replace(node, attributes={})
    defaults = _DEFAULTS.get(node.op, {})
    silent = {key: None for key, value in defaults.items() if key in node.attributes and node.get(key) == value}
    node = node.with_attributes(**silent) if silent else node
    return replace(node, axes="") if node.axes else node


def _window(node: Node) -> Node:
    kernel = tuple(node.get("kernel"))
    rank = len(kernel)
    wanted: dict[str, Any] = {
        "kernel": kernel,
        "stride": tuple(node.get("stride") or (1,) * rank),
        "pads": tuple(node.get("pads") or (0,) * 2 * rank),
    }
    dilation = tuple(node.get("dilation") or (1,) * rank)
    if node.op in ("conv", "conv_transpose"):
        wanted |= {"dilation": dilation, "groups": node.get("groups", 1)}
    else:
        wanted["dilation"] = dilation if set(dilation) != {1} else None
        if not any(wanted["pads"]):
            wanted |= {"count_pad": None, "pad_value": None}
    return node.with_attributes(**wanted)
