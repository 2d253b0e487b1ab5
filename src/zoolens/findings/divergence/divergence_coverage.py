"""How many layers of two graphs the reference computes, and what of them it does not."""

from __future__ import annotations

from typing import Final

from zoolens.base.verdicts import Coverage, Gap, Tally
from zoolens.findings.divergence.holes import holes_of
from zoolens.findings.divergence.sides import Side
from zoolens.findings.graph.ir.vocabulary import LEAVES
from zoolens.inventory.runtimes.onnx.onnx_reference import has_reference

_TRIVIAL: Final = LEAVES | {"reshape", "flatten", "transpose", "identity", "cast"}


def layers_understood(a: Side, b: Side) -> Coverage:
    """Both graphs; of a side that is held against the other's graph only tensors were understood."""
    tallies: list[Tally] = []
    gaps: list[Gap] = []
    for side in (a, b):
        if side.graph is None or side.borrowed:
            remedy = _FIXED if side.job.asset.format == "onnx" else _EXPORT
            gaps.append(Gap(f"the graph of {side.label} ({side.job.asset.format})", remedy=remedy))
            continue
        understood = sum(node.op not in _TRIVIAL for node in side.graph.nodes)
        holes = holes_of(side.graph)
        remedy = _OPERATOR if has_reference() else _INSTALL
        missing = [f"operator {kind} in {side.label}, which has no reference" for kind in holes.values()]
        gaps += [Gap(words, 1, remedy) for words in missing]
        tallies.append(Tally(f"layers of {side.label}", understood, understood + len(holes)))
    return Coverage(tuple(tallies), tuple(dict.fromkeys(gaps)))


def not_compared(a: Side, b: Side) -> Coverage:
    """Why layers were not compared."""
    gaps = layers_understood(a, b).gaps
    return Coverage((), gaps or (Gap("layers, which could not be compared", remedy="See the notes above."),))


_EXPORT: Final = "Export the model to ONNX, whose graph can be read."
_FIXED: Final = "Export the model without the operators that the notes name, and with fixed extents."
_OPERATOR: Final = "Export the model without this operator."
_INSTALL: Final = "Install zoolens[onnx], which has a reference of all ONNX operators."
OTHER_TOKENS: Final = Coverage(
    (),
    (Gap("layers of other tokens", remedy="Give both sides the same tokenizer and the same first and last tokens."),),
)
