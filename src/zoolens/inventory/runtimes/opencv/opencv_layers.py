"""Layers of OpenCV's networks: their times, which of them were fused, and what the file calls them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.runtimes.observing import CapturePoint, OperatorTime
from zoolens.inventory.runtimes.onnx.onnx_editing import node_label
from zoolens.inventory.runtimes.onnx.onnx_file import OnnxGraph

_PREFIX: Final = re.compile(r"onnx_node(_output_\d+)?!")  # before the name of a node, or of a nameless one's output

# Operators with a quantised output, and the place of its zero point among their inputs.
_ZERO_POINTS: Final = {
    "QuantizeLinear": 2,
    "QLinearConv": 7,
    "QLinearMatMul": 7,
    "QLinearAdd": 7,
    "QLinearMul": 7,
    "QLinearSigmoid": 4,
    "QLinearLeakyRelu": 4,
    "QLinearAveragePool": 4,
    "QLinearGlobalAveragePool": 4,
    "QLinearConcat": 1,
    "QLinearSoftmax": 4,
    "QGemm": 8,
}


@dataclass(frozen=True)
class LayerNames:
    """What the file calls layers. A Caffe file's layers keep their names; an ONNX node becomes one layer or several.

    Operators go by their labels: the name of a node, or its first output where it has none.
    """

    sources: Mapping[str, tuple[str, ...]]  # the operators that make the inputs of each one
    outputs: Mapping[str, str] | None = None  # the first output of each operator; None: a Caffe file
    makers: Mapping[str, str] = field(default_factory=dict)  # the operator that makes each tensor
    unsigned: frozenset[str] = frozenset()  # tensors of integers from 0 to 255

    @classmethod
    def of_onnx(cls, graph: OnnxGraph) -> LayerNames:
        outputs = {node_label(node): node.outputs[0] for node in graph.nodes if node.outputs}
        makers = {name: node_label(node) for node in graph.nodes for name in node.outputs if name}
        sources = {node_label(node): tuple(filter(None, map(makers.get, node.inputs))) for node in graph.nodes}
        return cls(sources, outputs, makers, _unsigned(graph))

    @classmethod
    def of_caffe(cls, graph: str) -> LayerNames:
        """Finds the layers by the text of the graph. A layer that names its input as its output works in its place."""
        makers: dict[str, str] = {}
        sources: dict[str, tuple[str, ...]] = {}
        for block in re.split(r"\blayers?\s*\{", re.sub(r"#[^\n]*", "", graph))[1:]:
            names = re.findall(r'\bname\s*:\s*["\']([^"\']+)', block)[:1]
            bottoms, tops = (re.findall(rf'\b{side}\s*:\s*["\']([^"\']+)', block) for side in ("bottom", "top"))
            for name in names:
                sources[name] = tuple(makers[bottom] for bottom in bottoms if bottom in makers)
                makers.update(dict.fromkeys(tops, name))
        return cls(sources)

    def node(self, layer: str) -> str | None:
        """The operator of the file to which a layer belongs; None where OpenCV added the layer."""
        if self.outputs is None:
            return layer if layer in self.sources else None
        if not _PREFIX.match(layer):
            return None
        label = _PREFIX.sub("", layer, count=1)
        while label not in self.sources and "/" in label:
            label = label.rpartition("/")[0]
        return label if label in self.sources else None

    def point(self, layer: str, *, kept: bool) -> CapturePoint:
        if self.outputs is None:
            return CapturePoint(layer, self.node(layer) or "", kept=kept)
        label = _PREFIX.sub("", layer, count=1)
        if label != layer and label in self.outputs:
            tensor = self.outputs[label]
            return CapturePoint(layer, label, tensor, kept, dtype="uint8" if tensor in self.unsigned else "")
        # An output of the model, which has a layer of its own.
        if layer in self.makers:
            return CapturePoint(layer, self.makers[layer], layer, kept)
        return CapturePoint(layer, kept=kept)


def as_stored(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Values as the file has them: OpenCV keeps unsigned ones, less 128, as signed ones."""
    if dtype == "uint8" and values.dtype == np.int8:
        return (values.astype(np.int16) + 128).astype(np.uint8)
    return values


def _unsigned(graph: OnnxGraph) -> frozenset[str]:
    """Quantised tensors whose zero point is unsigned, and what is made of them without computing."""
    unsigned: set[str] = set()
    for node in graph.nodes:
        place = _ZERO_POINTS.get(node.op)
        if place is not None:
            zero = graph.constants.get(node.inputs[place]) if place < len(node.inputs) else None
            stored = zero.dtype == "uint8" if zero is not None else node.op == "QuantizeLinear"
        else:
            stored = node.op != "DequantizeLinear" and bool(node.inputs) and node.inputs[0] in unsigned
        unsigned.update(name for name in node.outputs if stored)
    return frozenset(unsigned)


def fused_layers(net: Any, names: LayerNames) -> dict[str, tuple[str, ...]]:
    """The layers that ran in the last prediction, each with those that were fused into it: these took no time at all.

    OpenCV fuses a layer into one that gives it its input, of several into the last one.
    """
    _, times = net.getPerfProfile()
    fused: dict[str, list[str]] = {}
    hosts: dict[str, str] = {}  # the layer that computes each operator
    order: dict[str, int] = {}
    for layer in net.getLayerNames():
        place = order[layer] = int(net.getLayerId(layer))
        node = names.node(layer)
        if times[place - 1] > 0:
            fused[layer] = []
            hosts |= {} if node is None else {node: layer}
        elif node is not None:
            sources = [hosts[source] for source in names.sources[node] if source in hosts]
            if sources:
                hosts[node] = max(sources, key=order.__getitem__)
                fused[hosts[node]].append(layer)
    return {layer: tuple(followers) for layer, followers in fused.items()}


def layer_operators(
    net: Any, times: Sequence[float], fused: Mapping[str, tuple[str, ...]], names: LayerNames
) -> Iterator[OperatorTime]:
    """The layers of one run of the network. `times`: nanoseconds of each layer, as `getPerfProfile` orders them."""
    for layer, followers in fused.items():
        place = int(net.getLayerId(layer))
        kind = str(net.getLayer(place).type)
        nodes = dict.fromkeys(filter(None, map(names.node, (layer, *followers))))
        precision = "int8" if kind.endswith("Int8") else "float32"
        yield OperatorTime(layer, kind, round(times[place - 1]), nodes=tuple(nodes), precision=precision)
