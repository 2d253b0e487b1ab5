"""How many layers of two graphs the reference computes, and what of them it does not."""

from __future__ import annotations

from typing import Final

from zoolens.divergence.sides import Side
from zoolens.graph.model import Node
from zoolens.verdicts import Coverage, Gap, Tally

_TRIVIAL: Final = ("input", "parameter", "constant", "reshape", "flatten", "transpose", "identity", "cast")


def layers_understood(a: Side, b: Side) -> Coverage:
    """Both graphs; of a side that is held against the other's graph only tensors were understood."""
    tallies: list[Tally] = []
    gaps: list[Gap] = []
    for side in (a, b):
        if side.graph is None or side.borrowed:
            gaps.append(Gap(f"the graph of {side.label} ({side.job.asset.format})", remedy=_EXPORT))
            continue
        layers = [node for node in side.graph.nodes if node.op not in _TRIVIAL]
        dark = [node for node in side.graph.nodes if node.get(HOLE)]
        gaps += [
            Gap(f"operator {_kind(node)} in {side.label}, which has no reference", remedy=_OPERATOR) for node in dark
        ]
        tallies.append(Tally(f"layers of {side.label}", len(layers), len(layers) + len(dark)))
    return Coverage(tuple(tallies), tuple(dict.fromkeys(gaps)))


def _kind(node: Node) -> str:
    return str(node.get("operator") or node.get("source_op") or node.op)[:60]


HOLE: Final = "hole"  # the attribute of a node whose value is taken from the runtime
_EXPORT: Final = "Export the model to ONNX, whose graph can be read."
_OPERATOR: Final = "Install zoolens[onnx] for the reference of ONNX operators, or export without this operator."
