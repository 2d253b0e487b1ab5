"""A change of place of strides in words: which layer strides on which side."""

from __future__ import annotations

from collections.abc import Sequence

from zoolens.graph.diff import settings
from zoolens.graph.diff.align import Alignment
from zoolens.graph.diff.causes import Finding
from zoolens.graph.diff.findings import Difference
from zoolens.graph.diff.places import Place, described, place_of, position
from zoolens.graph.diff.strides import stride_values
from zoolens.graph.model import Node


def placement(difference: Difference, alignment: Alignment, names: tuple[str, str]) -> str:
    striding = [[one for one in difference.findings if _strides_more(one, side)] for side in (0, 1)]
    main = [[one for one in found if not _on_shortcut(one)] or found for found in striding]
    steps = sorted({max(stride_values(one.pair)[side], default=1) for side in (0, 1) for one in main[side]})
    stride = f"stride {' and '.join(map(str, steps))}"
    if _one_row_each(difference):
        within = where_blocks(main[0] or main[1], alignment)
        return f"{within}: {stride} is on {_layers(main[0], 0)} in {names[0]}, on {_layers(main[1], 1)} in {names[1]}"
    spots = [_side_places(main[side], side, alignment) for side in (0, 1)]
    return f"{stride} is on {spots[0]} in {names[0]}, on {spots[1]} in {names[1]}"


def _strides_more(finding: Finding, side: int) -> bool:
    values = stride_values(finding.pair)
    return max(values[side], default=1) > max(values[1 - side], default=1)


def _on_shortcut(finding: Finding) -> bool:
    layer = finding.pair.a or finding.pair.b
    return layer is not None and layer.path == "shortcut"


def _one_row_each(difference: Difference) -> bool:
    """Whether each stride moved within its block."""
    rows: dict[int, set[bool]] = {}
    for one in difference.findings:
        for side in (0, 1):
            if _strides_more(one, side):
                rows.setdefault(one.row, set()).add(bool(side))
    return all(len(sides) == 2 for sides in rows.values())


def where_blocks(findings: Sequence[Finding], alignment: Alignment) -> str:
    places = dict.fromkeys(place_of(one.pair, alignment.rows[one.row]) for one in findings)
    return described(list(places), alignment)


def _layers(findings: Sequence[Finding], side: int) -> str:
    nodes = [layer.node for one in findings if (layer := (one.pair.a, one.pair.b)[side])]
    return " and ".join(dict.fromkeys(f"the {layer_word(node)}" for node in nodes)) or "no layer"


def layer_word(node: Node) -> str:
    window = "×".join(map(str, settings.kernel(node)))
    pool = {"max_pool": " max-pool", "avg_pool": " average pool"}.get(node.op, "")
    return f"{window}{pool}"


def _side_places(findings: Sequence[Finding], side: int, alignment: Alignment) -> str:
    places: dict[Place, None] = {}
    for one in findings:
        row = alignment.rows[one.row]
        layer, block = ((one.pair.a, row.a), (one.pair.b, row.b))[side]
        if layer and block:
            places[position(layer, block)] = None
    where = described(list(places), alignment) if places else "no layer"
    return f"{_layers(findings, side)} ({where.removeprefix('the pools ').removeprefix('the pool ')})"
