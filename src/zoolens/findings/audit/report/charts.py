"""Charts of an audit: which accuracies zoos claim under one name, and what networks of one name cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from zoolens.base.present.charts import DIM, INK, LABEL, LINE, Chart, Spec, quantity, series, values
from zoolens.base.present.text import shareable
from zoolens.findings.audit.document import ArchitectureRow, Audit, counted_claims

SHOWN: Final = 10  # architectures
ZOOS: Final = (
    "#1f77b4", "#e08214", "#2ca02c", "#9467bd", "#d6455d", "#17a2b8", "#8c564b", "#7f7f7f", "#bcbd22",
)  # fmt: skip
LABELS: Final[Spec] = {"labelFontSize": 12.5, "labelFlush": False}
THINNEST: Final = 0.003  # of the axis: a bar that is still seen
BARS: Final = {"real": "var(--accent, #1f6feb)", "as studied": "var(--info, #6b7280)"}
BARE: Final[Spec] = {  # no ground, and the names of architectures as they stand in a text
    "view": {"fill": None},
    "axisY": {"grid": False, "labelColor": INK, "labelFontSize": 12.5, "labelLimit": 170, "minExtent": 170},
}


@dataclass(frozen=True)
class ArchitectureView:
    """One way to look at the architectures; None where no architecture is to be seen that way."""

    label: str
    chart: Chart | None


def spread_views(audit: Audit) -> list[ArchitectureView]:
    """Claimed accuracies, the widest spread first."""
    return [
        ArchitectureView("as in the 2022 study: its architectures, first weights", _spreads(audit, first=True)),
        ArchitectureView("today: all architectures, best weights", _spreads(audit, first=False)),
    ]


def ratio_views(audit: Audit) -> list[ArchitectureView]:
    """The cost of the costliest network of a name over that of the cheapest."""
    return [
        ArchitectureView("zoos of the study, by the ratio as studied", _ratios(audit, "studied_ratio")),
        ArchitectureView("by the real ratio", _ratios(audit, "real_ratio")),
        ArchitectureView("all zoos", _ratios(audit, "macs_ratio")),
    ]


def _top(rows: Sequence[ArchitectureRow], key: str, *, studied: bool) -> list[ArchitectureRow]:
    known = [row for row in rows if getattr(row, key) is not None and (row.study or not studied)]
    return sorted(known, key=lambda row: -getattr(row, key))[:SHOWN]


def _spreads(audit: Audit, *, first: bool) -> Chart | None:
    key = "spread_first" if first else "spread_best"
    rows = _top(audit.architectures, key, studied=first)
    if not rows:
        return None
    claims: list[dict[str, Any]] = []
    spans: list[dict[str, Any]] = []
    for row in rows:
        counted = counted_claims(row, first=first)
        shares = [claim for _, claim in counted]
        spans.append({"name": row.name, "low": min(shares), "high": max(shares), "spread": f"{getattr(row, key):.2f}"})
        claims += [
            {"name": row.name, "claim": claim, "zoo": of.zoo, "hint": f"{of.zoo}: {of.name}, {claim:.2f} %"}
            for of, claim in counted
        ]
    low, high = min(span["low"] for span in spans), max(span["high"] for span in spans)
    ticks = {"title": None, "orient": "top", "labelExpr": "datum.label + ' %'", "tickMinStep": 5, **LABELS}
    x = quantity("claim", math.floor(low - 1), math.ceil(high + 1), ticks)
    y = _architectures(rows)
    span = {"y": y, "x": {**x, "field": "low"}, "x2": {"field": "high"}}
    used = {claim["zoo"] for claim in claims}
    colours = [(zoo, ZOOS[place % len(ZOOS)]) for place, zoo in enumerate(audit.zoos) if zoo in used]
    colour = series("zoo", [zoo for zoo, _ in colours], [hue for _, hue in colours], symbolType="circle")
    layers = [
        {"data": values(spans), "mark": {"type": "rule", "strokeWidth": 4, "color": LINE}, "encoding": span},
        {
            "data": values(claims),
            "mark": {"type": "circle", "size": 144, "opacity": 1},
            "encoding": {"y": y, "x": x, "color": colour, "tooltip": {"field": "hint", "type": "nominal"}},
        },
        {
            "data": values(spans),
            "mark": {"type": "text", "align": "left", "dx": 12, "color": DIM, "fontSize": 12.5},
            "encoding": {"y": y, "x": {**x, "field": "high"}, "text": {"field": "spread"}},
        },
    ]
    name = "spreads-first" if first else "spreads-best"
    spec = {"width": 700, "height": {"step": 30}, "layer": layers, "config": BARE}
    return Chart(name, "Claimed top-1 by zoo", spec)


def _ratios(audit: Audit, key: str) -> Chart | None:
    everywhere = key == "macs_ratio"
    rows = _top(audit.architectures, key, studied=not everywhere)
    if not rows:
        return None
    bars: list[dict[str, Any]] = []
    for row in rows:
        ratios = {"real": row.macs_ratio} if everywhere else {"real": row.real_ratio, "as studied": row.studied_ratio}
        bars += [
            {
                "name": row.name,
                "kind": kind,
                "ratio": ratio,
                "label": f"{ratio:.2f}× {kind}",
                "hint": f"{row.name}, {kind}: {ratio:.3f}×. {row.summary}",
            }
            for kind, ratio in ratios.items()
            if ratio is not None
        ]
    kinds = list(dict.fromkeys(str(bar["kind"]) for bar in bars))
    most = max(1.1, *(bar["ratio"] for bar in bars))
    equal = {"title": None, "orient": "top", "values": [1], "labelExpr": "'1× (equal)'", "labelAlign": "left", **LABELS}
    x = quantity("ratio", 1.0, float(most), equal)
    place = {"y": _architectures(rows), "yOffset": {"field": "kind", "sort": kinds, "scale": {"domain": kinds}}}
    colour = {"field": "kind", "scale": {"domain": kinds, "range": [BARS[kind] for kind in kinds]}, "legend": None}
    bar = {"type": "bar", "height": 12, "cornerRadius": 2}
    label = {"type": "text", "align": "left", "dx": 8, "color": DIM, "fontSize": 12.5}
    for drawn in bars:
        drawn["end"] = max(drawn["ratio"], 1 + THINNEST * (most - 1))
    span = {"x": {**x, "field": "end"}, "x2": {"datum": 1}}
    layers = [
        {"mark": bar, "encoding": {**place, **span, "color": colour, "tooltip": {"field": "hint"}}},
        {"mark": label, "encoding": {**place, "x": x, "text": {"field": "label"}}},
    ]
    step = 38 if len(kinds) > 1 else 24
    spec = {"data": values(bars), "width": 640, "height": step * len(rows), "layer": layers, "config": BARE}
    return Chart(f"ratios-{key.removesuffix('_ratio')}", "Cost ratios by architecture", spec)


def _architectures(rows: Sequence[ArchitectureRow]) -> Spec:
    names = [shareable(row.name, LABEL) for row in rows]
    return {"field": "name", "type": "nominal", "title": None, "sort": None, "scale": {"domain": names}}
