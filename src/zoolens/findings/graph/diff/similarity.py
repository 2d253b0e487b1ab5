"""The similarity of two layers or two blocks, from 0 (never the same thing) to 1 (the same)."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import Final

from zoolens.findings.graph.diff import settings
from zoolens.findings.graph.ir.model import Node
from zoolens.findings.graph.ir.vocabulary import ARITHMETIC
from zoolens.findings.graph.outline.blocks import LEARNED, Block, BlockLayer, is_depthwise, layer_kind, resolution

WEIGHT: Final = {"conv": 3.0, "dense": 3.0, "attention": 3.0, "pool": 1.5}  # what holds an alignment together
SMALL_WEIGHT: Final = 0.5
LEAST: Final = 0.25  # below, two things are not put beside each other
FIXED: Final = 0.5  # numbers that are learned on one side only, such as those of a position embedding
OTHER_JOIN: Final = 0.4  # a sum of two values and their product, maximum, difference or concat
RESIDUAL: Final = frozenset({"residual", "inverted residual", "attention"})
_FAMILY: Final = RESIDUAL | {"chain"}


def weight(layer: BlockLayer) -> float:
    return WEIGHT.get(layer.kind, SMALL_WEIGHT)


def node_similarity(a: Node, b: Node) -> float:
    if settings.is_pointwise(a) and settings.is_pointwise(b):
        return _learned(a, b)
    if {a.op, b.op} == {"parameter", "constant"} and a.shape == b.shape:
        return FIXED
    if layer_kind(a) != layer_kind(b):
        return OTHER_JOIN if joins_values(a) and joins_values(b) else 0.0
    if a.op in LEARNED:
        return _learned(a, b)
    same = 1.0 if a.op == b.op else 0.6
    return same * (1.0 if dict(a.attributes) == dict(b.attributes) else 0.8)


def joins_values(node: Node) -> bool:
    """Whether two or more computed values meet here; a number that is added is none."""
    return len(node.inputs) > 1 and (node.op in ARITHMETIC or node.op == "concat")


def _learned(a: Node, b: Node) -> float:
    score = 0.25 + 0.2 * _ratio(channels(a), channels(b))
    score += 0.1 * (is_depthwise(a) == is_depthwise(b))
    score += 0.25 if settings.kernel(a) == settings.kernel(b) else 0.1 * _ratio(_area(a), _area(b))
    score += 0.1 * (settings.stride(a) == settings.stride(b))
    same_dilation = settings.dilation(a) == settings.dilation(b)
    same_groups = settings.groups(a) == settings.groups(b)
    return score + 0.1 * (same_dilation and same_groups)


def channels(node: Node) -> int:
    """Channels of a value: axis 1 of images and of what a convolution computes, the last axis of tokens and vectors."""
    if node.op in ("conv", "conv_transpose"):
        return node.shape[1]
    if len(node.shape) > 3:
        return node.shape[1]
    if node.shape:
        return node.shape[-1]
    return 1


def _area(node: Node) -> int:
    return prod(node.get("kernel", (1,)))


def _ratio(value_a: float, value_b: float) -> float:
    if value_a and value_b:
        return min(value_a, value_b) / max(value_a, value_b)
    return float(value_a == value_b)


def block_similarity(a: Block, b: Block) -> float:
    """The similarity of two blocks or two single layers; that of a block and a single layer is 0."""
    if a.plain != b.plain:
        return 0.0
    if a.plain:
        return _plain(a, b)
    family = a.kind == b.kind or {a.kind, b.kind} <= _FAMILY
    score = 0.2 * (a.kind == b.kind) + 0.1 * family + 0.3 * _overlap(a.features, b.features)
    score += 0.15 * _ratio(channels(a.output), channels(b.output))
    score += 0.05 * (resolution(a.output.shape) == resolution(b.output.shape))
    return score + 0.2 * (a.stage == b.stage) * (0.5 + 0.5 * (a.index == b.index))


def _plain(a: Block, b: Block) -> float:
    score = node_similarity(a.layers[0].node, b.layers[0].node)
    return score * (1.0 if a.stage == b.stage else 0.8)


def _overlap(a: Counter[tuple[object, ...]], b: Counter[tuple[object, ...]]) -> float:
    together = (a | b).total()
    return (a & b).total() / together if together else 1.0


def block_weight(block: Block) -> float:
    return sum(weight(layer) for layer in block.layers)
