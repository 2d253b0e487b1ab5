"""ReLUs that the quantisation of a file implies: they are no difference.

Whether the network has a ReLU there, and where it ends, cannot be told from a range of numbers: the data of the
calibration may never have been negative, or never as large as 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from zoolens.graph.diff.causes import LayerFinding
from zoolens.graph.diff.findings import Difference
from zoolens.graph.model import Node

_ALIKE: Final = frozenset({"relu", "relu6", "clip"})


def without_implied(differences: Sequence[Difference]) -> list[Difference]:
    """The differences without findings about activations that one side only implies."""
    kept = []
    for difference in differences:
        findings = tuple(finding for finding in difference.findings if not _is_implied(finding))
        if findings:
            kept.append(replace(difference, findings=findings))
    return kept


def _is_implied(finding: LayerFinding) -> bool:
    nodes = [layer.node for layer in (finding.pair.a, finding.pair.b) if layer is not None]
    return any(node.get("implied") for node in nodes) and all(map(_cuts, nodes))


def _cuts(node: Node) -> bool:
    """Whether it is an activation that a range of numbers may stand for."""
    return node.op in _ALIKE and (node.op != "clip" or node.get("low") in (0, None))
