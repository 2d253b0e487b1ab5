"""The parts of a network as an engineer would name them: layers, and the blocks they form.

`outline` finds them in a canonical graph.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from zoolens.findings.graph.ir.model import Node, Shape
from zoolens.findings.graph.ir.vocabulary import ACTIVATIONS, NORMS, POOLS

LEARNED: Final = frozenset({"conv", "conv_transpose", "dense"})


@dataclass(frozen=True, slots=True)
class BlockLayer:
    """One layer and where it lies. `index` counts from 1 the layers of one kind on one path of one block, or of one
    stage outside blocks."""

    node: Node
    path: str = ""  # main, shortcut, branch 2; "" where the block has but one, and for what joins them
    index: int = 1

    @property
    def kind(self) -> str:
        return layer_kind(self.node)


@dataclass(frozen=True)
class Block:
    kind: str  # layer (one node outside any block), residual, inverted residual, branches, fire, dense, transition …
    layers: tuple[BlockLayer, ...]
    stage: str = ""  # input, stem, stage 1 …, head, auxiliary
    index: int = 0  # within the stage; 0 for a single layer
    after: int = 0  # of a single layer: the index of the block before it in its stage

    @property
    def plain(self) -> bool:
        return self.kind == "layer"

    @cached_property
    def signature(self) -> tuple[object, ...]:
        """Equal for blocks that are the same by themselves, whatever resolution they work at."""
        own = {layer.node.name: number for number, layer in enumerate(self.layers)}
        return (self.kind, *(_signature(layer, own) for layer in self.layers))

    @cached_property
    def features(self) -> Counter[tuple[object, ...]]:
        """The block's layers without order, widths and activations, for a first look at similarity."""
        return Counter(
            (layer.path if layer.path in ("main", "shortcut") else "", layer.kind, layer.node.get("kernel"))
            for layer in self.layers
            if layer.kind != "activation"
        )

    @property
    def output(self) -> Node:
        return self.layers[-1].node

    def on(self, path: str) -> list[BlockLayer]:
        return [layer for layer in self.layers if layer.path == path]

    @cached_property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(layer.path for layer in self.layers))


def layer_kind(node: Node) -> str:
    if node.op in ("conv", "conv_transpose"):
        return "conv"
    if node.op in POOLS:
        return "pool"
    if node.op in ACTIVATIONS:
        return "activation"
    return "norm" if node.op in NORMS else node.op


def resolution(shape: Shape) -> tuple[int, ...]:
    """Spatial extents of an image-like value; the number of tokens of a sequence; nothing for a vector."""
    if len(shape) > 3:
        return tuple(shape[2:])
    return tuple(shape[1:-1])


def is_depthwise(node: Node) -> bool:
    kernel = node.parameter("kernel")
    return node.op == "conv" and node.get("groups", 1) > 1 and kernel is not None and kernel.shape[1] == 1


def _signature(layer: BlockLayer, own: dict[str, int]) -> tuple[object, ...]:
    node = layer.node
    attributes = tuple(sorted((key, str(value)) for key, value in node.attributes.items()))
    parameters = tuple((tensor.role, tensor.shape) for tensor in node.parameters)
    inputs = tuple(own.get(name, -1) for name in node.inputs)
    return node.op, layer.path, inputs, attributes, parameters
