"""ReLUs that the quantisation of a file implies are no difference to a ReLU, a limited one or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from zoolens.graph.diff.alignment import Alignment
from zoolens.graph.diff.causes import LayerFinding
from zoolens.graph.diff.findings import Difference
from zoolens.graph.implied_activations import without_implied
from zoolens.graph.model import Graph, Node

_ALIKE: Final = frozenset({"relu", "relu6", "clip"})


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
    there are none."""
    alone = [pair for pair in alignment.pairs if pair.a is None or pair.b is None]
    extra = {pair.either.node.name for pair in alone if pair.either.node.get("implied")}
    return (without_implied(graphs[0], extra), without_implied(graphs[1], extra)) if extra else None


def _is_implied(finding: LayerFinding) -> bool:
    nodes = [layer.node for layer in (finding.pair.a, finding.pair.b) if layer is not None]
    return any(node.get("implied") for node in nodes) and all(map(_cuts, nodes))


def _cuts(node: Node) -> bool:
    """Whether it is an activation that a range of numbers may stand for."""
    return node.op in _ALIKE and (node.op != "clip" or node.get("low") in (0, None))
