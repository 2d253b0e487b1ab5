"""Two traces as pictures: their calls below each other on one scale of time, and what makes the difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from zoolens.base.present.charts import DIM, INK, SERIES, Chart, Spec, axis, heading, level, quantity, series, values
from zoolens.base.present.figures import figure
from zoolens.findings.tracing.comparison import LayerDifference, TraceComparison
from zoolens.findings.tracing.report import median_words, short_name
from zoolens.findings.tracing.timeline import WHOLE, Band, Timeline, TimelineWindow, bands_chart
from zoolens.findings.tracing.trace_layers import TracedLayer

TOP: Final = 12
WIDTH: Final = 620
ROW: Final = 24
_SLOWER_A: Final = "A takes longer"
_SLOWER_B: Final = "B takes longer"
_UNCLEAR: Final = "unclear"


def aligned_chart(
    comparison: TraceComparison, a: Timeline, b: Timeline, picked: int | None = None, window: TimelineWindow = WHOLE
) -> Chart:
    """One call of each side from its own beginning. `picked`: the place of a difference, whose layers stand out."""
    row = None if picked is None else comparison.differences[picked]
    bands = [
        Band(a, f"A  {comparison.a.title}", None if row is None else _numbers(a, row.layers_a)),
        Band(b, f"B  {comparison.b.title}", None if row is None else _numbers(b, row.layers_b)),
    ]
    title = "One call of each side" if row is None else f"Where both sides compute {row.name}"
    return bands_chart(bands, title, window)


def difference_of(comparison: TraceComparison, side: str, drawn: Timeline, number: int) -> int | None:
    """The place of the difference that a span of a timeline is part of; None: it is part of none."""
    for place, row in enumerate(comparison.differences):
        if number in _numbers(drawn, row.layers_a if side == "a" else row.layers_b):
            return place
    return None


def _numbers(drawn: Timeline, layers: Sequence[TracedLayer]) -> set[int]:
    """The spans of these layers. Layers with the same name, kind and operators are parts of the same difference."""
    wanted = {(layer.name, layer.kind, layer.nodes) for layer in layers}
    return {span.number for span in drawn.spans if (span.name, span.kind, span.nodes) in wanted}


def differences_chart(comparison: TraceComparison, top: int = TOP) -> Chart:
    """The largest differences with their intervals: to the right B takes longer, to the left A does. Each datum has the
    `place` of its difference."""
    rows = comparison.differences[:top]
    scale = 1e3 if max((abs(row.difference) for row in rows), default=0.0) >= 1e-3 else 1e6
    names = [f"{place + 1}. {short_name(row.name, 40)}" for place, row in enumerate(rows)]
    drawn = [_row(place, row, names[place], scale) for place, row in enumerate(rows)]
    ends = [value for row in drawn for value in (row["low"], row["high"], row["difference"])] + [0.0]
    room = 0.04 * (max(ends) - min(ends)) or 1.0
    x = quantity(
        "difference", min(ends) - room, max(ends) + room, axis(f"B − A, {'ms' if scale == 1e3 else 'µs'}", tickCount=6)
    )
    y = level("name", names, axis(None, labelLimit=260))
    groups = (_SLOWER_A, _SLOWER_B, _UNCLEAR)
    colours = series("group", groups, (SERIES[0], SERIES[1], SERIES[-1]))
    hints = [{"field": field, "type": "nominal"} for field in ("name", "a", "b", "computed")]
    layers: list[Spec] = [
        {
            "mark": {"type": "rule", "color": DIM, "aria": False},
            "data": {"values": [{"zero": 0}]},
            "encoding": {"x": {"datum": 0}},
        },
        {
            "mark": {"type": "bar", "height": 12, "cornerRadius": 2},
            "encoding": {"x": x, "x2": {"datum": 0}, "y": y, "color": colours, "tooltip": hints},
        },
        {
            "mark": {"type": "rule", "color": INK, "strokeWidth": 1.2},
            "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y},
        },
    ]
    note = "lines are 95 % intervals"
    if len(rows) < len(comparison.differences):
        rest = sum(row.difference for row in comparison.differences[len(rows) :])
        words = f"{'+' if rest >= 0 else '−'}{figure(abs(rest), 's')}"
        note += f"; {len(comparison.differences) - len(rows):,} smaller ones sum to {words}"
    title = "What makes the difference"
    spec = {"title": heading(title, note), "width": WIDTH, "height": max(len(rows), 1) * ROW, "data": values(drawn)}
    return Chart("differences", title, {**spec, "layer": layers})


def _row(place: int, row: LayerDifference, name: str, scale: float) -> dict[str, Any]:
    before, after = map(median_words, (row.a, row.b))
    group = _UNCLEAR if not row.sure else _SLOWER_B if row.difference > 0 else _SLOWER_A
    low, high = (value if np.isfinite(value) else row.difference for value in (row.interval.low, row.interval.high))
    computed = row.computed_a if row.computed_a == row.computed_b else f"{row.computed_a} → {row.computed_b}"
    return {
        "place": place,
        "name": name,
        "difference": scale * row.difference,
        "low": scale * low,
        "high": scale * high,
        "group": group,
        "a": before,
        "b": after,
        "computed": computed,
    }
