"""The ReLU that quantising does.

Where the zero point is the lowest number of its type nothing below zero survives, and converters drop the ReLU before
it. It is put back here; as a ReLU6 where the ranges show that 6 was the limit. It is marked as `implied`, because the
range may also come of data on which the layer was never negative, and the limit of data that never came near it.
"""

from __future__ import annotations

from typing import Final

from zoolens.findings.graph.importers.translation import OperatorCall, Translation
from zoolens.findings.graph.ir.model import Node

_RANGES: Final = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65_535), "int16": (-32_768, 32_767)}
_LINEAR: Final = frozenset({"conv", "dense", "add", "sub", "affine", "batch_norm"})  # what networks put a ReLU behind
_TRANSPARENT: Final = frozenset(
    {"max_pool", "avg_pool", "mean", "reshape", "flatten", "transpose", "quantize", "dequantize", "identity", "slice"}
)
_NEAR: Final = 0.01
_FAR_ENOUGH: Final = 64  # nodes looked back over
_SCALED: Final = 6  # nodes between a product and what is added to it


def integer_range(dtype: str) -> tuple[int, int]:
    return _RANGES.get(dtype, (0, 0))


def cut(call: OperatorCall, value: str, dtype: str, scale: float, zero_point: int) -> str:
    """The value behind the ReLU that its scale and zero point imply, if they do and it is not there already."""
    low, high = integer_range(dtype)
    if low == high or zero_point != low or not _may_be_negative(call.state, value):
        return value
    name = call.add("relu", (value,), implied=True)
    call.state.tops[name] = (high - zero_point) * scale
    return name


def _may_be_negative(state: Translation, name: str) -> bool:
    """Whether a layer that makes negative numbers comes before any that removes them."""
    for _ in range(_FAR_ENOUGH):
        node = state.node(name)
        if node.op not in _TRANSPARENT:
            return node.op in _LINEAR and not _adds_number(node) and not _adds_scores(state, node)
        name = node.inputs[0]
    return False


def _adds_number(node: Node) -> bool:
    """Whether it adds one number to a value, as the epsilon of a norm: no ReLU follows it."""
    return node.op in ("add", "sub") and len(node.inputs) == 1


def _adds_scores(state: Translation, node: Node) -> bool:
    """Whether it adds something to a product of two values, as to the scores of an attention: no ReLU follows it."""
    makers = [state.node(name) for name in node.inputs] if node.op == "add" else []
    for _ in range(_SCALED):
        makers = [
            state.node(maker.inputs[0]) if maker.op in (*_TRANSPARENT, "mul", "div") and maker.inputs else maker
            for maker in makers
        ]
    return any(maker.op == "matmul" for maker in makers)


def settle(state: Translation) -> None:
    """Call it when the whole graph is read: a ReLU6 shows in the range of some layers and not of others."""
    highest = max(state.tops.values(), default=0.0)
    if abs(highest - 6) < _NEAR:
        for name in state.tops:
            state.builder.amend(name, op="relu6")
