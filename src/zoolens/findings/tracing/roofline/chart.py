"""The roofline as a picture: operations per second over operations per byte, with layers as points; and as a table."""

from __future__ import annotations

from typing import Any, Final

from zoolens.base.present.charts import (
    DIM,
    INK,
    Chart,
    Spec,
    axis,
    heading,
    logarithmic_ticks,
    quantity,
    series,
    values,
)
from zoolens.base.present.figures import figure
from zoolens.base.present.tables import Column, Table
from zoolens.findings.tracing.report import share_words, short_name
from zoolens.findings.tracing.roofline.attained import RoofLayer, Roofline

WIDTH: Final = 720
HEIGHT: Final = 400
TOP: Final = 15
LABELLED: Final = 3  # layers that are named in the picture: those that take longest
_BOUNDS: Final = ("compute", "memory")


def roofline_chart(roofline: Roofline) -> Chart:
    trace, peaks = roofline.trace, roofline.peaks
    points = [layer for layer in roofline.layers if layer.flops and layer.moved_bytes and layer.seconds]
    precisions = sorted({layer.precision for layer in points}) or ["float32"]
    ceilings = {name: peaks.flops.get(name) or peaks.flops["float32"] for name in precisions}
    highest = max(ceilings.values())
    intensities = [layer.intensity for layer in points] or [1.0]
    ridge = highest / roofline.bandwidth
    low, high = min(*intensities, ridge) / 3, max(*intensities, ridge) * 4
    speeds = [layer.flops_per_second for layer in points] or [min(ceilings.values())]
    bottom = min(*speeds, roofline.bandwidth * low) / 2 / 1e9
    top = max(*speeds, highest) * 2 / 1e9
    x = quantity("x", low, high, axis("operations per byte", values=logarithmic_ticks(low, high)), type="log")
    y = quantity("y", bottom, top, axis("GFLOP/s", values=logarithmic_ticks(bottom, top)), type="log")
    layers: list[Spec] = []
    for name, peak in ceilings.items():
        layers += _roof(roofline, name, peak, low, high, x, y)
    layers += _points(points, x, y)
    title = heading(
        f"Roofline of {trace.run.ref} in {trace.runtime}, batch {trace.batch}",
        f"{peaks.title}; the larger a point, the longer the layer takes",
    )
    spec: Spec = {"layer": layers, "title": title, "width": WIDTH, "height": HEIGHT}
    return Chart(f"roofline-{trace.run.id[:8]}", "Layers against the peaks of the machine", spec)


def _roof(roofline: Roofline, name: str, peak: float, low: float, high: float, x: Spec, y: Spec) -> list[Spec]:
    """The slope of the memory and the ceiling of a precision, with its name."""
    ridge = min(max(peak / roofline.bandwidth, low), high)
    line = [(low, roofline.bandwidth * low), (ridge, min(peak, roofline.bandwidth * ridge)), (high, peak)]
    rows = [{"x": across, "y": up / 1e9, "order": place} for place, (across, up) in enumerate(line)]
    label = [{"x": high, "y": peak / 1e9, "text": f"{name} {peak / 1e9:,.0f} GFLOP/s"}]
    mark = {"type": "line", "color": INK, "strokeWidth": 1.5}
    text = {"type": "text", "align": "right", "dy": -8, "color": INK, "fontSize": 11}
    return [
        {"data": values(rows), "mark": mark, "encoding": {"x": x, "y": y, "order": {"field": "order"}}},
        {"data": values(label), "mark": text, "encoding": {"x": x, "y": y, "text": {"field": "text"}}},
    ]


def _points(points: list[RoofLayer], x: Spec, y: Spec) -> list[Spec]:
    rows: list[dict[str, Any]] = [
        {
            "x": layer.intensity,
            "y": layer.flops_per_second / 1e9,
            "bound": layer.bound,
            "seconds": layer.seconds,
            "name": short_name(layer.layer.name),
        }
        for layer in points
    ]
    longest = sorted(rows, key=lambda row: -row["seconds"])[:LABELLED]
    size = {"field": "seconds", "type": "quantitative", "scale": {"range": [20, 400]}, "legend": None}
    circles = {
        "data": values(rows),
        "mark": {"type": "circle", "opacity": 0.75, "tooltip": True},
        "encoding": {"x": x, "y": y, "size": size, "color": series("bound", _BOUNDS)},
    }
    names = {
        "data": values(longest),
        "mark": {"type": "text", "align": "left", "dx": 10, "dy": 4, "color": DIM, "fontSize": 10},
        "encoding": {"x": x, "y": y, "text": {"field": "name"}},
    }
    return [circles, names]


def roofline_table(roofline: Roofline, top: int | None = TOP) -> Table:
    columns = (
        Column("layer", keep=9),
        Column("time", "number", keep=8),
        Column("best", "number", keep=7),
        Column("efficiency", "number", keep=9),
        Column("bound", "key", keep=8),
        Column("GFLOP/s", "number", keep=6),
        Column("GB/s", "number", keep=6),
        Column("FLOP/B", "number", keep=4),
        Column("precision", "key", keep=3),
    )
    longest = sorted(roofline.layers, key=lambda layer: -layer.seconds)
    rows = [
        (
            short_name(layer.layer.name),
            figure(layer.seconds, "s"),
            figure(layer.best, "s"),
            "not known" if layer.absurd else share_words(layer.efficiency),
            layer.bound,
            f"{layer.flops_per_second / 1e9:.2f}",
            f"{layer.bytes_per_second / 1e9:.2f}",
            f"{layer.intensity:.2f}",
            f"{layer.precision} (assumed)" if layer.assumed else layer.precision,
        )
        for layer in (longest if top is None else longest[:top])
    ]
    return Table("roofline", columns, tuple(rows))


def roofline_as_data(roofline: Roofline) -> dict[str, Any]:
    return {
        "run": roofline.trace.run.id,
        "peaks_run": roofline.peaks.run,
        "batch": roofline.trace.batch,
        "best_seconds": roofline.best,
        "measured_seconds": roofline.measured,
        "efficiency": roofline.efficiency,
        "working_set_bytes": roofline.working_set,
        "bandwidth": roofline.bandwidth,
        "layers": [
            {
                "name": layer.layer.name,
                "nodes": list(layer.layer.nodes),
                "precision": layer.precision,
                "precision_assumed": layer.assumed,
                "seconds": layer.seconds,
                "best_seconds": layer.best,
                "efficiency": layer.efficiency,
                "bound": layer.bound,
                "flops": layer.flops,
                "moved_bytes": layer.moved_bytes,
                "flops_per_second": layer.flops_per_second,
                "bytes_per_second": layer.bytes_per_second,
            }
            for layer in roofline.layers
        ],
        "uncounted": [layer.name for layer in roofline.uncounted],
        "unknown": dict(roofline.unknown),
    }
