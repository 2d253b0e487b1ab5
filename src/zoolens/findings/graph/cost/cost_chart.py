"""What each layer of a network costs, as a picture: multiply-accumulates, parameters and bytes in the graph's order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from zoolens.base.present.charts import DIM, FILLS, SERIES, Chart, Spec, axis, heading, quantity, values
from zoolens.base.present.figures import count, figure
from zoolens.base.present.labels import fitting_labels, label_mark
from zoolens.base.verdicts import at_least
from zoolens.findings.graph.cost.cost import Cost, LayerCost

WIDTH: Final = 760
HEIGHT: Final = 120
MOST_BARS: Final = 380  # of a panel; neighbouring layers of a larger network share a bar
LABELLED: Final = 3
NAMED: Final = 0.6  # of the largest bar: lower ones would have their names across others
_PANELS: Final = (("macs", "MACs"), ("parameters", "parameters"), ("moved_bytes", "bytes moved"))


@dataclass(frozen=True)
class CostBar:
    """What some neighbouring layers cost together; of most networks it is a single one. `first` and `last`: their
    places among the layers that cost anything, counted from 1."""

    name: str
    op: str
    first: int
    last: int
    macs: int
    flops: int
    parameters: int
    output_bytes: int
    moved_bytes: int


@dataclass(frozen=True)
class LayerCosts:
    """The layers that cost anything, in the order of the graph. `uncounted`: operators that nobody can count, by name;
    their cost is not among the sums."""

    bars: tuple[CostBar, ...]
    layers: int
    macs: int
    parameters: int
    moved_bytes: int
    uncounted: dict[str, int]
    macs_whole: bool
    parameters_whole: bool


def layer_costs(cost: Cost, most: int = MOST_BARS) -> LayerCosts:
    """What a network costs layer by layer; of more than `most` layers, neighbours are summed."""
    costly = [layer for layer in cost.layers if layer.flops or layer.parameters or layer.moved_bytes]
    each = -(-len(costly) // most) if costly else 1
    bars = [_bar(costly[start : start + each], start + 1) for start in range(0, len(costly), each)]
    sums = (cost.macs, cost.parameters, cost.moved_bytes)
    whole = (cost.macs_whole, cost.parameters_whole)
    return LayerCosts(tuple(bars), len(costly), *sums, dict(cost.unknown), *whole)


def _bar(layers: Sequence[LayerCost], first: int) -> CostBar:
    names = [layer.source or layer.name for layer in layers]
    sums = {
        name: sum(getattr(layer, name) for layer in layers)
        for name in ("macs", "flops", "parameters", "output_bytes", "moved_bytes")
    }
    name = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
    ops = ", ".join(dict.fromkeys(layer.op for layer in layers))
    return CostBar(name, ops, first, first + len(layers) - 1, **sums)


def cost_chart(costs: LayerCosts, name: str = "") -> Chart:
    """One panel for each kind of cost; the layers with most of it are named. `name`: of the network. The selection
    "picked" gives the names of the layers that are chosen."""
    title = f"Cost by layer of {name}" if name else "Cost by layer"
    panels = [_panel(costs, field, words, last=field == _PANELS[-1][0]) for field, words in _PANELS]
    spec = {**FILLS, "title": heading(title, _subtitle(costs)), "vconcat": panels, "spacing": 16}
    return Chart("cost", f"{title}: MACs, parameters and bytes", spec)


def _subtitle(costs: LayerCosts) -> str:
    macs = at_least(count(costs.macs), "MACs", whole=costs.macs_whole)
    parameters = at_least(count(costs.parameters), "parameters", whole=costs.parameters_whole)
    moved = at_least(figure(costs.moved_bytes, "B"), "moved", whole=not costs.uncounted)
    words = f"{macs}, {parameters}, {moved}"
    if len(costs.bars) < costs.layers:
        words += f"; {costs.layers:,} layers, up to {costs.bars[0].last} in a bar"
    if costs.uncounted:
        words += f"; not counted: {', '.join(sorted(costs.uncounted)[:3])}{' …' * (len(costs.uncounted) > 3)}"
    return words


def _panel(costs: LayerCosts, field: str, words: str, *, last: bool) -> Spec:
    amounts = [int(getattr(bar, field)) for bar in costs.bars]
    most = max(amounts, default=0) or 1
    unit = "B" if field == "moved_bytes" else ""
    rows: list[dict[str, Any]] = [
        {
            "x": bar.first - 0.5,
            "x2": bar.last + 0.5,
            "y": amount,
            "name": bar.name,
            "op": bar.op,
            "words": figure(amount, "B") if unit else f"{amount:,}",
            "share": f"{100 * amount / (sum(amounts) or 1):.1f} %",
        }
        for bar, amount in zip(costs.bars, amounts, strict=True)
    ]
    end = costs.layers + 0.5
    x = quantity("x", 0.5, max(end, 1.5), axis("layer" if last else None, tickCount=8, labels=last))
    y = quantity("y", 0, most * 1.32, {**axis(tickCount=3, tickMinStep=1), "title": words, "labelExpr": _AMOUNT})
    bars = {
        "params": [{"name": f"picked_{field}", "select": {"type": "point", "fields": ["name"]}}],
        "data": values(rows),
        "mark": {"type": "rect", "color": SERIES[[each for each, _ in _PANELS].index(field)]},
        "encoding": {
            "x": x,
            "x2": {"field": "x2"},
            "y": y,
            "y2": {"datum": 0},
            "tooltip": [
                {"field": "name", "type": "nominal", "title": "layer"},
                {"field": "op", "type": "nominal", "title": "operator"},
                {"field": "words", "type": "nominal", "title": words},
                {"field": "share", "type": "nominal"},
            ],
        },
    }
    named = ({"name": f"labels_{field}_{at}", **part} for at, part in enumerate(_names(costs, rows, x, y, most)))
    return {"width": WIDTH, "height": HEIGHT, "layer": [bars, *named]}


_AMOUNT: Final = "datum.value == 0 ? '0' : format(datum.value, '.2~s')"


def _names(costs: LayerCosts, rows: Sequence[dict[str, Any]], x: Spec, y: Spec, most: float) -> list[Spec]:
    """The names of the layers with most of it, above their bars."""
    largest = sorted((row for row in rows if row["y"] > NAMED * most), key=lambda row: -row["y"])[: 3 * LABELLED]
    points = [
        (
            ((row["x"] + row["x2"]) / 2 - 0.5) / costs.layers * WIDTH,
            HEIGHT * (1 - row["y"] / (most * 1.32)),
            str(row["name"]),
        )
        for row in largest
    ]
    layers = []
    labels = fitting_labels(points, WIDTH, LABELLED)
    for align in ("left", "right"):
        named = [
            {"x": (row["x"] + row["x2"]) / 2, "y": row["y"], "text": label.text}
            for label in labels
            if label.align == align
            for row in [largest[label.place]]
        ]
        if named:
            mark = {**label_mark(align), "color": DIM}
            layers.append(
                {"data": values(named), "mark": mark, "encoding": {"x": x, "y": y, "text": {"field": "text"}}}
            )
    return layers
