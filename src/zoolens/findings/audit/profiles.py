"""What rules ask of one graph, worked out together so that the graph need not be kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zoolens.findings.graph.cost.held_parameters import held_parameters
from zoolens.findings.graph.counters.conventions import as_counted_by
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.outline.outline import outline
from zoolens.findings.graph.signatures.signatures import signature

STUDY_COUNTERS = ("fvcore", "onnx-opcounter", "tensorflow")


@dataclass(frozen=True)
class StructureProfile:
    """`digest` is equal for networks that are the same but for norms, biases, padding, classes and image size."""

    digest: str
    residual: bool
    shortcuts: Mapping[str, int]  # blocks whose shortcut does something, by what it does: conv, pool
    unknown: tuple[str, ...]
    parameters_total: int | None  # with heads that only training uses
    statistics: int | None
    folded: int  # parameters where every norm that follows a layer is folded into it
    counted: Mapping[str, float]  # multiply-adds as the counters of the study would give them
    held: int | None = None  # parameters that the source holds, where that is more than the network uses
    held_reason: str = ""  # why it holds more


def profile(graph: Graph) -> StructureProfile:
    blocks = outline(graph)
    held = held_parameters(graph)
    shortcuts: Counter[str] = Counter({"conv": 0, "pool": 0})
    for block in blocks:
        shortcuts.update({layer.kind for layer in block.on("shortcut")} & {"conv", "pool"})
    return StructureProfile(
        signature(graph).digest,
        any("residual" in block.kind for block in blocks),
        dict(shortcuts),
        tuple(sorted({str(node.get("source_op")) for node in graph.unknown})),
        graph.facts.get("parameters_total"),
        graph.facts.get("statistics"),
        graph.parameters - sum(map(_folded_away, graph)),
        {counter: as_counted_by(counter, graph) for counter in STUDY_COUNTERS},
        held.total if held else None,
        held.reason if held else "",
    )


def _folded_away(node: Node) -> int:
    """Scale and shift of a merged norm become one bias, or nothing more where there is one already."""
    gone = ("norm_scale", "norm_shift") if node.parameter("bias") else ("norm_scale",)
    return sum(parameter.size for parameter in node.parameters if parameter.role in gone)


def from_json(row: Mapping[str, Any]) -> StructureProfile:
    return StructureProfile(**{**row, "unknown": tuple(row["unknown"])})
