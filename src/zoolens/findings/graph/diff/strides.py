"""Strides that differ: moved to another layer, or really another resolution.

Walking down both networks, the first pair of layers with other strides opens an event; once both sides are back at
the same resolution (relative to their inputs), it closes, and all in between is one change of place. An event that
never closes is a change of resolution.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import log2

from zoolens.findings.graph.diff import settings
from zoolens.findings.graph.diff.alignment import Alignment, BlockRow, LayerPair
from zoolens.findings.graph.diff.diff_causes import STRIDE, STRIDE_PLACEMENT, LayerFinding, input_resolution
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.ir.vocabulary import WINDOWED
from zoolens.findings.graph.outline.blocks import Block, resolution

TOLERANCE = 0.5  # in octaves: 10 cells of 299 are as fine as 7 of 224, but not as 14 of 224
Event = list[tuple[int, LayerPair]]


def stride_findings(alignment: Alignment, a: Graph, b: Graph) -> list[LayerFinding]:
    start = input_resolution(a), input_resolution(b)
    findings: list[LayerFinding] = []
    event: Event = []
    for number, row in enumerate(alignment.rows):
        event += [(number, pair) for pair in row.pairs if strides_differ(pair)]
        if event and row.a and row.b and _level(row.a, row.b, start):
            findings += _closed(event, alignment.rows)
            event = []
    return findings + _never_closed(event)


def strides_differ(pair: LayerPair) -> bool:
    if pair.a and pair.b:
        windowed = pair.a.node.op in WINDOWED and pair.b.node.op in WINDOWED
        return windowed and settings.stride(pair.a.node) != settings.stride(pair.b.node)
    return settings.strides(pair.either.node)


def _level(a: Block, b: Block, start: tuple[tuple[int, ...], tuple[int, ...]]) -> bool:
    """Whether both sides have the same resolution here, relative to their inputs."""
    here = (resolution(a.output.shape), resolution(b.output.shape))
    if not here[0] or len({len(extents) for extents in (*here, *start)}) > 1:
        return False
    for extent_a, extent_b, start_a, start_b in zip(*here, *start, strict=True):
        if min(extent_a, extent_b, start_a, start_b) <= 0:
            continue
        ratio = (extent_b / extent_a) / (start_b / start_a)
        if abs(log2(ratio)) >= TOLERANCE:
            return False
    return True


def _closed(event: Event, rows: Sequence[BlockRow]) -> list[LayerFinding]:
    """One change of place, if some layer of each side took part; else an extra layer that strides beside the trunk."""
    if not (any(_by(pair, 0) for _, pair in event) and any(_by(pair, 1) for _, pair in event)):
        return []
    moved = len({number for number, _ in event}) > 1
    group = tuple(_described(pair, rows[number], rows, moved=moved) for number, pair in event)
    return [
        LayerFinding(STRIDE_PLACEMENT, number, pair, "spatial", stride_values(pair), group) for number, pair in event
    ]


def _by(pair: LayerPair, side: int) -> bool:
    """Whether this side's layer strides more than its partner."""
    values = stride_values(pair)
    return max(values[side], default=1) > max(values[1 - side], default=1)


def stride_values(pair: LayerPair) -> tuple[tuple[int, ...], tuple[int, ...]]:
    of_a = settings.stride(pair.a.node) if pair.a else ()
    of_b = settings.stride(pair.b.node) if pair.b else ()
    return of_a, of_b


def _described(pair: LayerPair, row: BlockRow, rows: Sequence[BlockRow], *, moved: bool) -> Hashable:
    block = (row.a if pair.a else row.b) or row.a or row.b
    assert block is not None
    where = block_label(block, rows, 0 if pair.a else 1) if moved else ""
    layer = pair.either
    return (where, layer.path, layer.kind, layer.index, settings.kernel(layer.node), stride_values(pair))


def block_label(block: Block, rows: Sequence[BlockRow], side: int) -> str:
    """The place of a block within its stage: "first", "last" or its number."""
    if block.plain:
        return ""
    blocks = [each for row in rows if (each := (row.a, row.b)[side]) and not each.plain]
    same = [each for each in blocks if each.stage == block.stage]
    if block is same[0]:
        return "first"
    if block is same[-1]:
        return "last"
    return str(block.index)


def _never_closed(event: Event) -> list[LayerFinding]:
    findings = []
    for number, pair in event:
        if pair.a and pair.b:
            values = stride_values(pair)
            group = (pair.a.path, pair.a.kind, pair.a.index, values)
            findings.append(LayerFinding(STRIDE, number, pair, "spatial", values, group))
    return findings
