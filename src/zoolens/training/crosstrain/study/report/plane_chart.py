"""The trials of a study for who looks at them one by one: as plain data, and on a plane of any two quantities."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from zoolens.base.errors import UnknownName
from zoolens.base.present.charts import DIM, PERCENT, Chart, Spec, axis, fills_up_to, heading, shade, values
from zoolens.base.present.figures import percent
from zoolens.training.crosstrain.study.report.study_findings import DELTA, Findings, warnings
from zoolens.training.crosstrain.study.report.trial_charts import (
    DELTA_LEGEND,
    MOST_POINTS,
    ROOM,
    hyperparameter,
    scaled,
    shown_values,
)

WIDTH: Final = 560
WIDEST: Final = 900
HEIGHT: Final = 380


def trial_as_data(findings: Findings, place: int) -> dict[str, Any]:
    """The trial at this place of the study with its hyperparameters, the accuracy and state of each side, and Δ; None
    where it is not known."""
    trial = findings.study.trials[place]
    return {
        "trial": trial.id,
        "hyperparameters": dict(trial.hyperparameters),
        "delta": _known(findings.delta.values[place]),
        "sides": [
            {
                "framework": side.framework,
                "status": side.status,
                "accuracy": side.accuracy,
                "seconds": side.seconds,
                "run": side.run,
            }
            for side in trial.sides
        ],
        "notes": [*warnings(findings, trial), *trial.notes],
    }


def plane_names(findings: Findings) -> list[str]:
    """What a plane may be drawn over: hyperparameters, the accuracy of each side, and Δ."""
    return [*findings.columns, *findings.accuracies, DELTA]


def plane_chart(findings: Findings, x: str, y: str) -> Chart:
    """Trials as points in the colour of their Δ, those without one in grey. The selection "picked" gives the trials
    that are chosen, "brush" a rectangle."""
    across, up = (_values(findings, name) for name in (x, y))
    deltas = findings.delta.values
    rows = [
        {
            "x": across[place],
            "y": up[place],
            "delta": _known(deltas[place]),
            "trial": trial.id,
            "words": _words(findings, place),
        }
        for place, trial in enumerate(findings.study.trials)
        if across[place] is not None and up[place] is not None
    ]
    rows.sort(key=lambda row: -1.0 if row["delta"] is None else float(row["delta"]))  # the largest is drawn on top
    without = len(findings.study.trials) - len(rows)
    drawn = rows[-MOST_POINTS:]
    encoding = {"x": _position("x", x, findings), "y": _position("y", y, findings, upwards=True)}
    hint = [{"field": "trial", "type": "nominal"}, {"field": "words", "type": "nominal", "title": "accuracy"}]
    most = float(findings.delta.known.max()) if len(findings.delta.known) else 0.01
    layers: list[Spec] = [
        {
            "transform": [{"filter": "!isValid(datum.delta)"}],
            "mark": {"type": "circle", "size": 22, "opacity": 0.5, "color": DIM},
            "encoding": {**encoding, "tooltip": hint},
        },
        {
            "params": [
                {"name": "picked", "select": {"type": "point", "fields": ["trial"]}},
                {"name": "brush", "select": {"type": "interval", "encodings": ["x", "y"]}},
            ],
            "transform": [{"filter": "isValid(datum.delta)"}],
            "mark": {"type": "circle", "size": 52},
            "encoding": {
                **encoding,
                "color": shade("delta", 0.0, most, DELTA, **DELTA_LEGEND),
                "opacity": {"condition": {"param": "picked", "value": 0.9}, "value": 0.25},
                "tooltip": hint,
            },
        },
    ]
    title = f"Trials by {x} and {y}"
    notes = [f"{len(drawn):,} trials"]
    notes += [f"those with the smallest Δ of {len(rows):,} are left out"] if len(rows) > len(drawn) else []
    notes += [f"{without:,} without one of the two"] if without else []
    spec = {"title": heading(title, "; ".join(notes)), "width": WIDTH, "height": HEIGHT, "data": values(drawn)}
    spec |= fills_up_to(WIDEST)
    return Chart("plane", title, {**spec, "layer": layers})


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _values(findings: Findings, name: str) -> list[Any]:
    if name in findings.columns:
        return shown_values(findings.columns[name])
    figure = findings.delta if name == DELTA else findings.accuracies.get(name)
    if figure is None:
        raise UnknownName("hyperparameter or side", name, plane_names(findings))
    return [_known(value) for value in figure.values]


def _position(field: str, name: str, findings: Findings, *, upwards: bool = False) -> Spec:
    if name in findings.columns:
        return hyperparameter(field, name, findings, width=WIDTH, upwards=upwards)
    figure = findings.delta if name == DELTA else findings.accuracies[name]
    low, high = (float(figure.known.min()), float(figure.known.max())) if len(figure.known) else (0.0, 1.0)
    return scaled(field, name, low, high, log=False, room=ROOM, **axis(name, expression=PERCENT, tickCount=6))


def _words(findings: Findings, place: int) -> str:
    sides = [f"{name} {percent(figure.values[place])}" for name, figure in findings.accuracies.items()]
    return f"{', '.join(sides)}; Δ {percent(findings.delta.values[place])}"
