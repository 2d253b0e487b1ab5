"""EXPLAIN and near misses as pictures: how many rows each condition leaves, and how far beyond it the nearest lie."""

from __future__ import annotations

from typing import Any, Final

from zoolens.base.present.charts import DIM, INK, LINE, SERIES, Chart, Spec, axis, heading, quantity, series, values
from zoolens.findings.queries.answers.explanation import FunnelStep, funnel
from zoolens.findings.queries.answers.matches import Match
from zoolens.findings.queries.answers.query_answers import Answer
from zoolens.findings.queries.planning.query_plan import Plan

WIDTH: Final = 440
NAMES: Final = 300  # pixels for what stands left of a bar
BAR: Final = 30  # pixels from one bar to the next
MOST_MISSES: Final = 8
MOST_CONDITIONS: Final = 30


def funnel_chart(plan: Plan) -> Chart:
    """Rows left after each condition, one bar below the other; what a condition leaves alone is outlined."""
    steps = [FunnelStep("all rows", len(plan.view), len(plan.view), 0), *funnel(plan)][: MOST_CONDITIONS + 1]
    rows = [
        {
            "condition": f"{place}. {step.condition}" if place else step.condition,
            "left": step.left,
            "alone": step.alone,
            "words": f"{step.left:,}" + (f" (without it {step.only:,} more)" if step.only else ""),
            "hint": f"{step.left:,} rows are left; {step.alone:,} pass it alone; {step.only:,} fail nothing else",
        }
        for place, step in enumerate(steps)
    ]
    most = max(len(plan.view), 1)
    x = quantity("left", 0, most * 1.3, axis("rows", tickCount=5, format=",d"))
    y = {"field": "condition", "type": "nominal", "sort": None, "axis": {"title": None, "labelLimit": NAMES}}
    hint = {"field": "hint", "type": "nominal", "title": "rows"}
    outline = {"type": "bar", "height": 16, "fill": None, "stroke": LINE, "strokeWidth": 1.5, "cornerRadius": 2}
    bar = {"type": "bar", "height": 16, "color": SERIES[0], "cornerRadius": 2}
    text = {"type": "text", "align": "left", "dx": 6, "color": DIM, "fontSize": 11}
    layers = [
        {"mark": outline, "encoding": {"y": y, "x": {**x, "field": "alone"}, "tooltip": hint}},
        {"mark": bar, "encoding": {"y": y, "x": x, "tooltip": hint}},
        {"mark": text, "encoding": {"y": y, "x": {**x, "field": "alone"}, "text": {"field": "words"}}},
    ]
    title = "Rows left after each condition"
    words = heading(title, "Filled: with all conditions above. Outlined: with this condition alone.")
    spec = {"title": words, "width": WIDTH, "height": BAR * len(rows), "data": values(rows), "layer": layers}
    return Chart("funnel", title, {**spec, "config": _BARE})


def misses_chart(answer: Answer) -> Chart | None:
    """How far each near miss lies beyond what rejects it; None where there is no near miss."""
    misses = answer.misses[:MOST_MISSES]
    rows = [row for match in misses for row in _rejections(match)]
    if not rows:
        return None
    kinds = list(dict.fromkeys(str(row["of"]) for row in rows))
    most = max([row["by"] for row in rows if row["by"] is not None], default=0.0) or 1.0
    x = quantity(
        "by", 0, most * 1.9, {**axis(tickCount=5), "title": "beyond the limit, in % of it or in points of shares"}
    )
    y = {"field": "place", "type": "ordinal", "axis": None}
    bar = {"type": "bar", "height": 14, "cornerRadius": 2}
    text = {"type": "text", "align": "left", "dx": 6, "color": DIM, "fontSize": 11, "limit": WIDTH}
    name = {"type": "text", "align": "right", "dx": -8, "color": INK, "fontSize": 12, "limit": NAMES}
    hint = {"field": "sentence", "type": "nominal", "title": "why not"}
    drawn = [{**row, "by": row["by"] or 0.0, "place": place} for place, row in enumerate(rows)]
    layers = [
        {"mark": bar, "encoding": {"y": y, "x": x, "color": series("of", kinds, columns=1), "tooltip": hint}},
        {"mark": text, "encoding": {"y": y, "x": x, "text": {"field": "sentence"}}},
        {"mark": name, "encoding": {"y": y, "x": {"value": 0}, "text": {"field": "name"}}},
    ]
    title = "What the nearest misses lack"
    spec = {
        "title": heading(title, "One line for each condition that a model fails, the nearest model first."),
        "width": WIDTH,
        "height": BAR * 0.8 * len(rows),
        "data": values(drawn),
        "layer": layers,
        "config": _BARE,
    }
    return Chart("misses", title, spec)


def _rejections(match: Match) -> list[dict[str, Any]]:
    """One row for each condition that a model fails, with the model's name beside the first."""
    name = match.ref.partition("@")[0] + (f" in {match.runtime}" if match.runtime else "")
    return [
        {
            "name": "" if number else name,
            "of": rejection.predicate,
            "by": None if rejection.by is None else 100 * rejection.by,
            "sentence": rejection.sentence,
        }
        for number, rejection in enumerate(match.rejections)
    ]


_BARE: Final[Spec] = {"view": {"fill": None}, "axisY": {"grid": False, "labelColor": INK, "labelFontSize": 12}}
