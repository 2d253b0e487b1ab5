"""Charts of what is known of an endpoint: the evidence prompt by prompt, and the verdicts over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from zoolens.base.present.charts import (
    DIM,
    FILLS,
    INK,
    SERIES,
    Chart,
    Spec,
    axis,
    heading,
    logarithmic_ticks,
    quantity,
    series,
    values,
)
from zoolens.base.verdicts.verdict import Outcome
from zoolens.findings.endpoints.endpoint_history import AskedPrompt, Evidence, StoredVerification

_WIDTH: Final = 760
_HEIGHT: Final = 240
_LEAST: Final = 1e-6  # a smaller total variation is drawn here
_NAMES: Final = {Outcome.SAME: "it is the model", Outcome.DIFFERENT: "it is not", Outcome.NOT_KNOWN: "not known"}
_SHAPES: Final = ("circle", "cross", "square")
_COLOURS: Final = (SERIES[2], SERIES[4], SERIES[5])
_LEGEND: Final[Spec] = {"orient": "top", "title": None}
_FORMS: Final = ((3 * 86_400.0, "%b %d"), (1_200.0, "%b %d %H:%M"))  # of moments, by the seconds that they span


def evidence_chart(found: StoredVerification, evidence: Evidence) -> Chart:
    """The capitals that bet against the named model and against all others, after each prompt."""
    against = f"against {found.claimed}"
    lines = {against: evidence.against}
    lines |= {f"against any other model, by {kind} prompts": each for kind, each in evidence.other.items()}
    rows: list[dict[str, Any]] = [
        {"x": place, "y": value, "of": name, "words": f"10^{value:.2f} after {place} prompts, {name}"}
        for name, line in lines.items()
        for place, value in enumerate((0.0, *line))
    ]
    ends = [row["y"] for row in rows] + [evidence.decides]
    room = 0.08 * (max(ends) - min(ends))
    decides = "at the dashed line the model is rejected"
    if evidence.other:
        decides += "; it fits where both other lines reach it"
    colour = series("of", list(lines), columns=1, symbolType="stroke", symbolStrokeWidth=3)
    x = quantity("x", 0, max(len(evidence.against), 1), axis("prompts", tickCount=8, format="d"))
    y = quantity("y", min(ends) - room, max(ends) + room, axis("powers of ten", tickCount=6))
    spec = {
        "title": heading("Evidence, prompt by prompt", f"{decides} (error {found.error:g})"),
        "width": _WIDTH,
        "height": _HEIGHT,
        **FILLS,
        "layer": [
            _border(evidence.decides, y, f"10^{evidence.decides:.1f}"),
            {
                "data": values(rows),
                "mark": {"type": "line", "strokeWidth": 2, "interpolate": "step-after"},
                "encoding": {"x": x, "y": y, "color": colour},
            },
            {
                "data": values(rows),
                "mark": {"type": "point", "opacity": 0, "size": 80},
                "encoding": {"x": x, "y": y, "tooltip": _hint("evidence")},
            },
        ],
    }
    return Chart("evidence", f"Evidence against {found.claimed} and against others after each of the prompts", spec)


def distance_chart(found: StoredVerification, prompts: Sequence[AskedPrompt]) -> Chart | None:
    """How far what was told lies from each model, prompt by prompt; None where nothing was told."""
    rows = [
        {
            "x": place,
            "y": max(distance, _LEAST),
            "of": name,
            "kind": "long" if prompt.long else "short",
            "words": f"{distance:.3g} from {name}, prompt {place} of {prompt.tokens:,} tokens",
        }
        for place, prompt in enumerate(prompts, 1)
        for name, distance in zip(found.models, prompt.distances, strict=True)
        if not math.isnan(distance)
    ]
    if not rows:
        return None
    ends = [float(row["y"]) for row in rows] + [found.allowance or _LEAST]
    low, high = min(ends) / 1.5, max(ends) * 1.5
    ticks = axis("total variation", values=logarithmic_ticks(low, high))
    y = quantity("y", low, high, ticks, type="log")
    legend = {"title": "prompts", "orient": "top", "symbolFillColor": INK}
    kinds = {"domain": ["short", "long"], "range": ["circle", "triangle-up"]}
    shape = {"field": "kind", "type": "nominal", "scale": kinds, "legend": legend}
    border = [_border(found.allowance, y, f"allowance {found.allowance:g}")] if found.allowance else []
    spec = {
        "title": heading(
            "What was told, beside each model's own distribution", "points above the dashed line speak against it"
        ),
        "width": _WIDTH,
        "height": _HEIGHT,
        **FILLS,
        "layer": [
            *border,
            {
                "data": values(rows),
                "mark": {"type": "point", "filled": True, "size": 55, "opacity": 0.8},
                "encoding": {
                    "x": quantity("x", 0, len(prompts) + 1, axis("prompt", tickCount=8, format="d")),
                    "y": y,
                    "color": series("of", list(found.models), columns=1, symbolType="circle"),
                    "shape": shape,
                    "tooltip": _hint("distance"),
                },
            },
        ],
    }
    return Chart("distances", f"Total variation of what was told from {found.claimed} and others, at each prompt", spec)


def verdicts_chart(history: Sequence[StoredVerification], ends: Sequence[float]) -> Chart:
    """The verdicts on one endpoint over time. `ends`: the evidence against the named model at the end of each, as a
    power of ten."""
    rows = [
        {
            "x": found.when.timestamp() * 1_000,
            "y": end,
            "run": found.run.id,
            "of": _NAMES[found.outcome],
            "words": f"{found.when:%Y-%m-%d %H:%M} UTC: {found.sentence}",
        }
        for found, end in zip(history, ends, strict=True)
    ]
    decides = [-math.log10(found.error) for found in history]
    heights = [*ends, *decides]
    room = 0.1 * (max(heights) - min(heights)) or 1.0
    y = quantity("y", min(heights) - room, max(heights) + room, axis("powers of ten", tickCount=5))
    errors = sorted({found.error for found in history})
    one = len(errors) == 1
    borders = [_border(-math.log10(error), y, "" if one else f"error {error:g}") for error in errors]
    line = "the dashed line" if one else "the dashed line of its error"
    names = list(_NAMES.values())
    # One legend for both, since both are of one field and look the same.
    shape = {"field": "of", "type": "nominal", "scale": {"domain": names, "range": list(_SHAPES)}, "legend": _LEGEND}
    marks = {**series("of", names, _COLOURS), "legend": _LEGEND}
    spec = {
        "title": heading(
            "Verdicts over time", f"evidence against the named model at the end; above {line} it is rejected"
        ),
        "width": _WIDTH,
        "height": 180,
        **FILLS,
        "layer": [
            *borders,
            {
                "data": values(rows),
                "mark": {"type": "point", "filled": True, "size": 90},
                "encoding": {
                    "x": _moments(history),
                    "y": y,
                    "color": marks,
                    "shape": shape,
                    "tooltip": _hint("verdict"),
                },
            },
        ],
    }
    return Chart("verdicts", "Verdicts on the endpoint over time", spec)


def _moments(history: Sequence[StoredVerification]) -> Spec:
    times = [found.when.timestamp() for found in history]
    span = max(times) - min(times)
    form = next((form for least, form in _FORMS if span >= least), "%H:%M:%S")
    labels: dict[str, Any] = {"title": "UTC", "labelAngle": 0, "labelOverlap": "greedy", "labelSeparation": 8}
    return {
        "field": "x",
        "type": "temporal",
        "scale": {"type": "utc", "nice": False, "padding": 20},
        "axis": {**labels, "tickCount": 6, "format": form},
    }


def _border(at: float, y: Spec, words: str) -> Spec:
    """A dashed line from side to side."""
    rule = {"mark": {"type": "rule", "color": DIM, "strokeDash": [5, 4]}, "encoding": {"y": {**y, "field": "y"}}}
    text = {"type": "text", "align": "right", "dy": -7, "dx": -4, "color": DIM, "fontSize": 11}
    place = {"x": {"value": "width"}, "y": {**y, "field": "y"}, "text": {"value": words}}
    return {"data": values([{"y": at}]), "layer": [rule, {"mark": text, "encoding": place}]}


def _hint(title: str) -> Spec:
    return {"field": "words", "type": "nominal", "title": title}
