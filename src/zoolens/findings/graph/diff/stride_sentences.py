"""Strides that sit elsewhere, as one sentence: "stride 2 is on the 3×3 in A, on the 1×1 in B"."""

from __future__ import annotations

from collections.abc import Sequence

from zoolens.findings.graph.diff import settings
from zoolens.findings.graph.diff.alignment import Alignment
from zoolens.findings.graph.diff.diff_causes import LayerFinding
from zoolens.findings.graph.diff.diff_findings import Difference
from zoolens.findings.graph.diff.place_names import LayerPlace, described, place_of, position
from zoolens.findings.graph.diff.strides import stride_values


def stride_placement(difference: Difference, alignment: Alignment, names: tuple[str, str]) -> str:
    striding = [[finding for finding in difference.findings if _strides_more(finding, side)] for side in (0, 1)]
    main = [[finding for finding in findings if not on_shortcut(finding)] or findings for findings in striding]
    steps = sorted({max(stride_values(finding.pair)[side], default=1) for side in (0, 1) for finding in main[side]})
    stride = f"stride {' and '.join(map(str, steps))}"
    begin = ""
    spots = [_striding_places(main[side], side, alignment) for side in (0, 1)]
    if _within_blocks(difference):
        places = dict.fromkeys(place_of(finding.pair, alignment.rows[finding.row]) for finding in main[0] or main[1])
        begin = f"{described(list(places), alignment)}: "
        spots = [_striding_layers(main[side], side) for side in (0, 1)]
    return f"{begin}{stride} is on {spots[0]} in {names[0]}, on {spots[1]} in {names[1]}"


def _strides_more(finding: LayerFinding, side: int) -> bool:
    values = stride_values(finding.pair)
    return max(values[side], default=1) > max(values[1 - side], default=1)


def on_shortcut(finding: LayerFinding) -> bool:
    return finding.pair.either.path == "shortcut"


def _within_blocks(difference: Difference) -> bool:
    """Whether each stride moved within its block."""
    rows: dict[int, set[int]] = {}
    for finding in difference.findings:
        rows.setdefault(finding.row, set()).update(side for side in (0, 1) if _strides_more(finding, side))
    return all(len(sides) != 1 for sides in rows.values())


def _striding_layers(findings: Sequence[LayerFinding], side: int) -> str:
    nodes = [layer.node for finding in findings if (layer := (finding.pair.a, finding.pair.b)[side])]
    pools = {"max_pool": " max-pool", "avg_pool": " average pool"}
    words = dict.fromkeys(f"the {'×'.join(map(str, settings.kernel(n)))}{pools.get(n.op, '')}" for n in nodes)
    return " and ".join(words) or "no layer"


def _striding_places(findings: Sequence[LayerFinding], side: int, alignment: Alignment) -> str:
    places: dict[LayerPlace, None] = {}
    for finding in findings:
        row = alignment.rows[finding.row]
        layer, block = ((finding.pair.a, row.a), (finding.pair.b, row.b))[side]
        if layer and block:
            places[position(layer, block)] = None
    place = described(list(places), alignment) if places else "no layer"
    return f"{_striding_layers(findings, side)} ({place.removeprefix('the pools ').removeprefix('the pool ')})"
