"""The layers of a raw graph as facts: every operation at the size the network is trained on, padding layers merged."""

from __future__ import annotations

from typing import Final

from zoolens.findings.graph.ir.model import STATISTICS, Graph, Node
from zoolens.training.pairs.reading.side_facts import LayerFact

WINDOWS: Final = frozenset({"conv", "max_pool", "avg_pool"})
TITLES: Final = {
    "conv": "convolutions", "dense": "dense layers", "batch_norm": "batch norms", "relu": "relus", "add": "additions",
    "concat": "concatenations", "max_pool": "max pools", "avg_pool": "average pools", "pad": "padding layers",
    "adaptive_avg_pool": "adaptive average pools", "mean": "global average pools",
}  # fmt: skip
WEIGHTED: Final = ("conv", "dense")
_LEFT_OUT: Final = frozenset({"input", "identity", "cast", "constant", "transpose"})


def layer_facts(graph: Graph, *, channels_last: bool) -> tuple[LayerFact, ...]:
    """Returns facts of the layers in order of computation. `graph` is as its importer made it, in the framework's own
    axes."""
    return tuple(_fact(node, graph, channels_last) for node in graph if node.op not in _LEFT_OUT)


def _fact(node: Node, graph: Graph, channels_last: bool) -> LayerFact:
    given = graph.by_name[node.inputs[0]].shape if node.inputs else ()
    windowed = node.op in WINDOWS
    return LayerFact(
        name=node.source or node.name,
        op=node.op,
        kernel=tuple(node.get("kernel", ())),
        stride=tuple(node.get("stride", ())) or ((1, 1) if windowed else ()),
        pads=_pads(node, graph, channels_last) if windowed else (),
        rate=node.get("rate") if node.op == "dropout" else None,
        given=_channels_first(given, channels_last),
        shape=_channels_first(node.shape, channels_last),
        learned={parameter.role: parameter.size for parameter in node.parameters if parameter.role not in STATISTICS},
    )


def _channels_first(shape: tuple[int, ...], channels_last: bool) -> tuple[int, ...]:
    whole = shape[1:]
    return (whole[-1], *whole[:-1]) if channels_last and len(whole) > 1 else tuple(whole)


def _pads(node: Node, graph: Graph, channels_last: bool) -> tuple[int, ...]:
    own = tuple(node.get("pads", ())) or (0,) * (2 * len(node.get("kernel", ())))
    before = graph.by_name[node.inputs[0]]
    if before.op != "pad" or len(own) != 4:
        return own
    axes = (1, 2) if channels_last else (2, 3)
    rank = len(before.shape)
    extra = tuple(before.get("pads")[axis + end] for end in (0, rank) for axis in axes)
    return tuple(pad + extra_pad for pad, extra_pad in zip(own, extra, strict=True))


def title_of(layer: LayerFact) -> str:
    """What a layer is called among its like; nothing where it is not counted."""
    if layer.op == "adaptive_avg_pool" and set(layer.shape[1:]) <= {1}:
        return TITLES["mean"]
    return TITLES.get(layer.op, "")
