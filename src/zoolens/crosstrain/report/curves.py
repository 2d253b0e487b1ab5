"""How trainings went, epoch by epoch: loss and test accuracy of the sides of a trial, beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from zoolens.crosstrain.report.axes import Frame, Scale, scale_between
from zoolens.crosstrain.report.marks import SIDES, Line, Mark, Picture, Points, Text, box, shortened
from zoolens.crosstrain.report.pictures import WIDTH
from zoolens.crosstrain.study import Side, Trial

PANEL = 180.0
STEP = PANEL + 84


def training_picture(trials: Sequence[Trial]) -> Picture | None:
    """One row for each trial that has at least two epochs: the loss on the left, the accuracy on the right."""
    shown = [trial for trial in trials if max((_epochs(side) for side in trial.sides), default=0) > 1]
    if not shown:
        return None
    frameworks = list(dict.fromkeys(side.framework for trial in shown for side in trial.sides))
    colours = {name: SIDES[place % len(SIDES)] for place, name in enumerate(frameworks)}
    title = "How the trials that are furthest apart were trained"
    marks: list[Mark] = [Text((20, 24), title, size=15, bold=True)]
    for place, name in enumerate(frameworks):
        x = 20 + place * 170
        marks += [box(x, 40, x + 14, 50, colours[name]), Text((x + 20, 49), shortened(name, 20), size=12)]
    for row, trial in enumerate(shown):
        top = 92 + row * STEP
        delta = "" if trial.delta is None else f", Δ {100 * trial.delta:.2f} %"
        marks.append(Text((60, top - 12), f"Trial {shortened(trial.id, 40)}{delta}", size=12, bold=True))
        marks += _panel(trial, top, 60.0, "loss", colours)
        marks += _panel(trial, top, 60.0 + WIDTH / 2, "accuracy", colours)
    return Picture("training", title, WIDTH, 92 + len(shown) * STEP, tuple(marks))


def _epochs(side: Side) -> int:
    return max(len(side.losses), len(side.accuracies))


def _series(side: Side, what: str) -> list[float]:
    values = side.losses if what == "loss" else side.accuracies
    return [np.nan if value is None else float(value) for value in values]


def _panel(trial: Trial, top: float, left: float, what: str, colours: dict[str, str]) -> Iterator[Mark]:
    series = {side.framework: _series(side, what) for side in trial.sides}
    known = [value for values in series.values() for value in values if np.isfinite(value)]
    if not known:
        return
    most = max(_epochs(side) for side in trial.sides)
    scale = scale_between(min(known), max(known), log=False)
    y = Scale(scale.low, scale.high, percent=what == "accuracy")
    frame = Frame(left, top, WIDTH / 2 - 90, PANEL, Scale(0.5, most + 0.5), y)
    name = "loss while training" if what == "loss" else "test accuracy"
    yield frame.ground()
    yield from frame.x_axis("epoch", most=min(most, 6))
    yield from frame.y_axis(name, away=46)
    for framework, values in series.items():
        through = frame.path(np.arange(1, len(values) + 1), np.array(values))
        yield Line(through, colours[framework], 2)
        yield Points(through, colours[framework], 2.5)
