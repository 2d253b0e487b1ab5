"""What sentences about differences are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zoolens.graph.diff.align import Alignment
from zoolens.graph.diff.causes import Finding
from zoolens.graph.diff.findings import Difference
from zoolens.graph.diff.places import where
from zoolens.graph.model import Node

Names = tuple[str, str]


def window(extents: Sequence[int]) -> str:
    return "×".join(map(str, extents)) if extents else "dense"


def values_of(difference: Difference) -> tuple[Any, Any]:
    return difference.findings[0].values


def all_values(difference: Difference) -> list[tuple[Any, Any]]:
    return list(dict.fromkeys(one.values for one in difference.findings))


def owner(difference: Difference, names: Names) -> str:
    """Who has the layers that the other lacks."""
    return names[0] if difference.findings[0].pair.a else names[1]


def other(difference: Difference, names: Names) -> str:
    return names[1] if difference.findings[0].pair.a else names[0]


def instead(one: object, two: object, names: Names) -> str:
    return f"{two} in {names[1]} instead of {one} in {names[0]}"


def at(difference: Difference, alignment: Alignment, text: str) -> str:
    return f"{where(difference.findings, alignment)}: {text}"


def op_of(finding: Finding) -> str:
    return node_of(finding).op


def node_of(finding: Finding) -> Node:
    layer = finding.pair.a or finding.pair.b
    assert layer is not None
    return layer.node


def number(value: float) -> str:
    """1.001e-5, as it is written by hand."""
    return f"{value:.4g}".replace("e-0", "e-").replace("e+0", "e+")


def pad_words(pads: Sequence[int]) -> str:
    half = len(pads) // 2
    begins, ends = pads[:half], pads[half:]
    if not any(pads):
        return "no padding"
    if begins == ends:
        return f"padding {begins[0] if len(set(begins)) == 1 else window(begins)} on every side"
    if not any(begins):
        return f"padding {ends[0] if len(set(ends)) == 1 else window(ends)} at bottom and right only"
    return f"padding {window(begins)} at top and left, {window(ends)} at bottom and right"


def pool_word(op: str) -> str:
    return {"max_pool": "max-pool", "avg_pool": "average pool"}.get(op, op.replace("_", " "))
