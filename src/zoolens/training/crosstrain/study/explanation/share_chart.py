"""An explanation as a picture: which part of the gap each semantic makes, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from zoolens.base.present.charts import DIM, INK, LINE, SERIES, Chart, Spec, axis, heading, quantity, values
from zoolens.base.present.text import shareable
from zoolens.training.crosstrain.study.explanation.explanation_results import Explanation
from zoolens.training.pairs.explanation.shapley import ShapleyShare

WIDTH: Final = 420
STEP: Final = 28
MOST_SHARES: Final = 20
_NAME: Final = 40  # characters of a semantic's name


def shares_of(explanation: Explanation) -> list[ShapleyShare]:
    """The shares of all semantics, and what belongs to no single one."""
    explained = explanation.explained
    if explained is None:
        return []
    return [*explained.shares, *([explained.unassigned] if explained.unassigned is not None else [])]


def shares_chart(explanation: Explanation) -> Chart | None:
    """Points of accuracy that each semantic adds to the gap b − a; pale where they may be none. None: no shares."""
    return chart_of_shares(shares_of(explanation), explanation.pair.difference.value)


def chart_of_shares(all_shares: Sequence[ShapleyShare], gap: float) -> Chart | None:
    """Draws the shares of a gap (b − a, in accuracy), the largest first; None: there are none."""
    shares = all_shares[:MOST_SHARES]
    if not shares:
        return None
    rows = [_row(share) for share in shares]
    ends = [end for row in rows for end in (row["points"], row["low"], row["high"]) if end is not None]
    low, high = min(0.0, *ends), max(0.0, *ends)
    room = 0.08 * (high - low) or 1.0
    x = quantity("points", low - room, high + room, {**axis(tickCount=6), "title": "points of accuracy, b − a"})
    y: Spec = {
        "field": "name",
        "type": "nominal",
        "sort": None,
        "axis": {"title": None, "labelLimit": 240, "labelOverlap": False, "labelColor": INK},
    }
    pale = {"condition": {"test": "datum.sure", "value": 0.95}, "value": 0.35}
    layers: list[Spec] = [
        {
            "data": values([{"points": 0.0}]),
            "mark": {"type": "rule", "color": LINE, "aria": False},
            "encoding": {"x": x},
        },
        {
            "mark": {"type": "bar", "height": 13, "color": SERIES[0]},
            "encoding": {"y": y, "x": x, "x2": {"datum": 0}, "opacity": pale},
        },
        {
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": {"type": "rule", "color": INK, "strokeWidth": 1.2},
            "encoding": {"y": y, "x": {**x, "field": "low"}, "x2": {"field": "high"}},
        },
        {
            "mark": {"type": "text", "align": "left", "dx": 8, "color": DIM, "fontSize": 11},
            "encoding": {"y": y, "x": {"value": WIDTH}, "text": {"field": "words"}},
        },
    ]
    title = "Which semantic makes the gap"
    subtitle = f"Gap {100 * gap:+.2f} points; right: share of it. Pale: may be none.".replace("-", "−")
    spec = {
        "title": heading(title, subtitle),
        "width": WIDTH,
        "height": STEP * len(rows),
        "data": values(rows),
        "layer": layers,
        "config": {"view": {"fill": None}, "axisY": {"grid": False}},
    }
    return Chart("shares", title, spec)


def _row(share: ShapleyShare) -> dict[str, Any]:
    interval = share.points.interval
    return {
        "name": shareable(share.name, _NAME),
        "points": 100 * share.points.value,
        "low": None if interval is None else 100 * interval[0],
        "high": None if interval is None else 100 * interval[1],
        "sure": share.points.excludes_zero,
        "words": f"{100 * share.share.value:.0f} %".replace("-", "−"),
    }
