"""All findings of an alignment, put together into differences: one for each cause and group."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

from zoolens.findings.graph.diff.alignment import Alignment, BlockRow
from zoolens.findings.graph.diff.block_order import cycles
from zoolens.findings.graph.diff.connections import connection_findings
from zoolens.findings.graph.diff.diff_causes import (
    ACTIVATION,
    NORM,
    NORM_PLACEMENT,
    ORDER,
    POOLING,
    SETTING,
    STRIDE_PLACEMENT,
    WIDTH,
    WIRING,
    LayerFinding,
    PairContext,
    own_findings,
)
from zoolens.findings.graph.diff.shared_tensors import sharing_findings
from zoolens.findings.graph.diff.strides import stride_findings
from zoolens.findings.graph.diff.unmatched_layers import absent_findings
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.outline.blocks import LEARNED

EVEN: Final = 3  # kinds of place with one ratio of widths
_REARRANGING: Final = frozenset({"reshape", "transpose"})


@dataclass(frozen=True)
class Difference:
    """All findings of one cause and group. `macs` and `parameters` are its share of what b has more than a; negative
    where b has less."""

    cause: str
    findings: tuple[LayerFinding, ...]
    text: str = ""
    macs: int = 0
    parameters: int = 0


def differences(alignment: Alignment, a: Graph, b: Graph) -> list[Difference]:
    findings = [
        *_own(alignment, a, b),
        *stride_findings(alignment, a, b),
        *absent_findings(alignment),
        *_order_findings(alignment, b),
        *sharing_findings(alignment, a, b),
    ]
    if not any(finding.cause == ORDER for finding in findings):
        findings += connection_findings(alignment, a, b)
    for change in (_with_other_arrangements, _with_moved_norms, _with_even_widths, _with_moved_pools):
        findings = change(findings)
    grouped: dict[tuple[str, Hashable], list[LayerFinding]] = {}
    for finding in sorted(findings, key=attrgetter("row")):
        grouped.setdefault((finding.cause, finding.group), []).append(finding)
    return [Difference(cause, tuple(members)) for (cause, _), members in grouped.items()]


def _own(alignment: Alignment, a: Graph, b: Graph) -> Iterator[LayerFinding]:
    last = frozenset(name for graph in (a, b) for name in _last_learned(graph))
    for number, row in enumerate(alignment.rows):
        if row.a is None or row.b is None:
            continue
        context = PairContext(a, b, last, number)
        for pair in row.pairs:
            if pair.a and pair.b:
                yield from own_findings(pair, context)


def _order_findings(alignment: Alignment, b: Graph) -> Iterator[LayerFinding]:
    """Blocks that change places, once for each block; those that change places among themselves form one group."""
    position = {node.name: number for number, node in enumerate(b)}
    blocks: list[tuple[int, BlockRow, tuple[int, int]]] = []  # number of the row, the row, the numbers of its blocks
    places: list[int] = []
    for number, row in enumerate(alignment.rows):
        if row.a and row.b and not row.a.plain:
            blocks.append((number, row, (row.a.index, row.b.index)))
            places.append(position[row.b.output.name])
    ranks = {place: rank for rank, place in enumerate(sorted(places))}
    for cycle in cycles([ranks[place] for place in places]):
        for index in cycle:
            number, row, numbers = blocks[index]
            pair = next(pair for pair in row.pairs if pair.a and pair.b)
            yield LayerFinding(ORDER, number, pair, "order", numbers, cycle)


def _last_learned(graph: Graph) -> list[str]:
    return [node.name for node in graph if node.op in LEARNED][-1:]


def _with_other_arrangements(findings: list[LayerFinding]) -> list[LayerFinding]:
    """Where one side has reshapes or transposes that the other lacks, those that stand beside each other by chance have
    other settings: both only follow from another arrangement of the same values."""
    rows = {finding.row for finding in findings if finding.cause == WIRING}

    def follows(finding: LayerFinding) -> bool:
        rearranges = finding.pair.either.node.op in _REARRANGING
        return finding.cause == SETTING and finding.row in rows and rearranges

    return [replace(finding, cause=WIRING, group=()) if follows(finding) else finding for finding in findings]


def _with_moved_norms(findings: list[LayerFinding]) -> list[LayerFinding]:
    """Norms merged into convolutions on one side and standing before them on the other: one cause, not two."""
    merged = {finding.values[0] != "" for finding in findings if _is_merged_norm(finding)}
    alone = {finding.pair.b is not None for finding in findings if _is_lone_norm(finding)}
    moved = merged & alone  # True: merged in a, alone in b
    if not moved:
        return findings

    def follows(finding: LayerFinding) -> bool:
        if _is_merged_norm(finding):
            return (finding.values[0] != "") in moved
        if _is_lone_norm(finding):
            return (finding.pair.b is not None) in moved
        return finding.cause == ACTIVATION and finding.aspect == "whole"

    return [replace(finding, cause=NORM_PLACEMENT, group=()) if follows(finding) else finding for finding in findings]


def _with_even_widths(findings: list[LayerFinding]) -> list[LayerFinding]:
    """Group widths that differ by one ratio at three or more kinds of place: that is a width multiplier."""
    labels: dict[float, set[Hashable]] = {}
    for finding in findings:
        if finding.cause == WIDTH:
            labels.setdefault(_ratio(finding), set()).add(finding.group)
    even = {ratio for ratio, groups in labels.items() if len(groups) >= EVEN}

    def is_even(finding: LayerFinding) -> bool:
        return finding.cause == WIDTH and _ratio(finding) in even

    return [replace(finding, group=_ratio(finding)) if is_even(finding) else finding for finding in findings]


def _ratio(finding: LayerFinding) -> float:
    return round(float(finding.values[1]) / float(finding.values[0]), 4)


def _with_moved_pools(findings: list[LayerFinding]) -> list[LayerFinding]:
    """Leave out pools that only moved: the placement of their stride is reported."""
    placed = {key for finding in findings if finding.cause == STRIDE_PLACEMENT and (key := _alone(finding))}
    sides = {side for side, _ in placed}
    if sides != {0, 1}:
        return list(findings)
    return [finding for finding in findings if finding.cause != POOLING or _alone(finding) not in placed]


def _alone(finding: LayerFinding) -> tuple[int, str] | None:
    """Side and name of a layer without partner that is not on a shortcut."""
    if finding.pair.a and finding.pair.b:
        return None
    layer = finding.pair.either
    if layer.path == "shortcut":
        return None
    return (0 if finding.pair.a else 1, layer.node.name)


def _is_lone_norm(finding: LayerFinding) -> bool:
    """A batch norm that stands by itself on one side only."""
    return finding.cause == NORM and finding.aspect == "whole" and finding.pair.either.node.op == "batch_norm"


def _is_merged_norm(finding: LayerFinding) -> bool:
    """A convolution with a norm on one side only."""
    return finding.cause == NORM and finding.aspect == "norm" and "" in finding.values
