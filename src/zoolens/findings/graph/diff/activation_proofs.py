"""ReLUs that the quantisation of a file implies are no difference to a ReLU, a limited one or none.

Here and there a layer happens to be without negative numbers. Where most of them are, and the other side has no ReLU
behind these layers, somebody may as well have removed those: that is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from zoolens.base.verdicts import Gap
from zoolens.findings.graph.diff.alignment import Alignment
from zoolens.findings.graph.diff.diff_causes import LayerFinding
from zoolens.findings.graph.diff.diff_findings import Difference
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.outline.blocks import LEARNED
from zoolens.findings.graph.passes.implied_activations import without_implied

_RECTIFIERS: Final = frozenset({"relu", "relu6", "clip"})
# Of the layers: ranges of so few are without negative numbers by chance. Quantised copies of gMLP imply more ReLUs
# than that, which the source lacks.
_FEW: Final = 0.25
_REMEDY: Final = "Compare with the file that was quantised."


def proved_activations(differences: Sequence[Difference]) -> list[Difference]:
    """The differences without findings about activations that one side only implies."""
    kept = []
    for difference in differences:
        findings = tuple(finding for finding in difference.findings if not _is_implied(finding))
        if findings:
            kept.append(replace(difference, findings=findings))
    return kept


def without_extra(graphs: tuple[Graph, Graph], alignment: Alignment) -> tuple[Graph, Graph] | None:
    """The graphs without implied activations that have no partner, which may lead to an order of their own; None where
    there are none, or too many."""
    extra, _ = _implied(alignment)
    if not any(extra) or implied_gaps(alignment):
        return None
    return without_implied(graphs[0], extra[0]), without_implied(graphs[1], extra[1])


def implied_gaps(alignment: Alignment) -> tuple[Gap, ...]:
    """What is not known of implied activations: whether the other side had them, where it has few of them."""
    extra, paired = _implied(alignment)
    alone = len(extra[0]) + len(extra[1])
    layers = sum(pair.either.node.op in LEARNED for pair in alignment.pairs)
    if alone <= max(paired, _FEW * layers, 1):
        return ()
    return (Gap("ReLU that a quantised range implies and the other side lacks", alone, _REMEDY),)


def _implied(alignment: Alignment) -> tuple[tuple[set[str], set[str]], int]:
    """The implied activations of each side that have no partner, and how many have one."""
    alone: tuple[set[str], set[str]] = (set(), set())
    paired = 0
    for pair in alignment.pairs:
        layers = [layer for layer in (pair.a, pair.b) if layer is not None]
        if not any(layer.node.get("implied") for layer in layers):
            continue
        if len(layers) == 1:
            # Two files may give one name to different layers, so each side has a set of its own.
            side = 0 if pair.a is not None else 1
            alone[side].add(layers[0].node.name)
        else:
            paired += 1
    return alone, paired


def _is_implied(finding: LayerFinding) -> bool:
    nodes = [layer.node for layer in (finding.pair.a, finding.pair.b) if layer is not None]
    return any(node.get("implied") for node in nodes) and all(map(_cuts, nodes))


def _cuts(node: Node) -> bool:
    """Whether it is an activation that a range of numbers may stand for."""
    return node.op in _RECTIFIERS and (node.op != "clip" or node.get("low") in (0, None))
