"""Does a run know when it is wrong? How often it is right where it says that it is so sure, bin by bin.

Marks of the chart carry the number of their bin (`bin`), so that who picks one can list its inputs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.present.charts import (
    DIM,
    INK,
    SERIES,
    SOFT,
    Chart,
    Spec,
    axis,
    fills_up_to,
    heading,
    quantity,
    values,
)
from zoolens.base.present.figures import NOTHING, percent, with_interval
from zoolens.base.present.tables import Column, Table
from zoolens.base.statistics.intervals import wilson
from zoolens.base.store.records import Observation
from zoolens.findings.measure.metrics.calibration import BINS, calibration, confidence_bins
from zoolens.findings.measure.predictions import Predictions

SIDE: Final = 360
_BIN_HINT: Final = {"field": "words", "type": "nominal", "title": "bin"}
FEW: Final = 10  # inputs of a bin, below which it is drawn pale


@dataclass(frozen=True)
class Bin:
    """One confidence bin of a reliability diagram; confidence and accuracy are None where it is empty."""

    low: float  # probability of the best class, from `low` to `high`
    high: float
    n: int
    confidence: float | None  # mean probability of the best class
    accuracy: float | None  # with its confidence interval
    accuracy_low: float | None
    accuracy_high: float | None


@dataclass(frozen=True)
class Reliability:
    """The reliability diagram of a run, over its labelled inputs."""

    n: int  # labelled inputs
    unlabelled: int
    bins: tuple[Bin, ...]
    ece: Observation  # expected calibration error over the same bins
    confidence: float  # mean; above `accuracy` the model is overconfident
    accuracy: float


def reliability_of(predictions: Predictions) -> Reliability:
    """Raises a ZoolensError where no input has a label, where answers are no classes, or where scores were not kept."""
    # Refuses what answers no classes.
    answers = predictions.answers
    labelled = predictions.labels >= 0
    if not labelled.any():
        raise ZoolensError(
            "No input of this run has a label, so the calibration is unknown.",
            hint="Evaluate it on a labelled dataset.",
        )
    if np.isnan(predictions.score[labelled, 0]).any():
        raise ZoolensError(
            "This run kept classes without their probabilities, so that its calibration is unknown.",
            hint="Evaluate the model with `zoolens eval`, which keeps probabilities.",
        )
    judged = _labelled(predictions)
    sure = judged.score[:, 0].astype(np.float64)
    right = np.asarray(answers)[labelled] == judged.labels
    places = confidence_bins(sure)
    bins = tuple(_bin(place, sure[places == place], right[places == place]) for place in range(BINS))
    ece = next(iter(calibration(judged)))
    unlabelled = int(np.count_nonzero(~labelled))
    return Reliability(len(judged), unlabelled, bins, ece, float(sure.mean()), float(right.mean()))


def _labelled(predictions: Predictions) -> Predictions:
    """The inputs that have a label."""
    kept = predictions.labels >= 0
    if kept.all():
        return predictions
    main = predictions.main
    chosen = replace(main, columns={name: column[kept] for name, column in main.columns.items()})
    return replace(predictions, inputs=predictions.inputs[kept], labels=predictions.labels[kept], outputs=(chosen,))


def _bin(place: int, sure: Any, right: Any) -> Bin:
    edges = place / BINS, (place + 1) / BINS
    if not len(sure):
        return Bin(*edges, 0, None, None, None, None)
    low, high = wilson(int(right.sum()), len(right))
    return Bin(*edges, len(sure), float(sure.mean()), float(right.mean()), low, high)


def reliability_chart(reliability: Reliability) -> Chart:
    """Accuracy against confidence with the diagonal on which both are equal, and how many inputs each bin has."""
    rows = [
        {
            "left": 100 * part.low,
            "right": 100 * part.high,
            "x": 100 * part.confidence,
            "y": 100 * part.accuracy,
            "low": 100 * (part.accuracy_low or 0.0),
            "high": 100 * (part.accuracy_high or 0.0),
            "n": part.n,
            "few": part.n < FEW,
            "bin": number,
            "words": _bin_words(part),
        }
        for number, part in enumerate(reliability.bins)
        if part.confidence is not None and part.accuracy is not None
    ]
    title = "Confidence and accuracy"
    subtitle = (
        f"Calibration error (ECE) {with_interval(reliability.ece)}{_noise(reliability)}; {_tendency(reliability)}"
    )
    panels = [_accuracy_panel(rows), _inputs_panel(rows, max(part.n for part in reliability.bins))]
    spec = {**fills_up_to(2 * SIDE), "title": heading(title, subtitle), "vconcat": panels}
    return Chart("reliability", title, spec)


def _accuracy_panel(rows: list[dict[str, Any]]) -> Spec:
    x = quantity("x", 0, 100, axis(tickCount=5, labels=False))
    y = quantity("y", 0, 100, axis("accuracy in %", tickCount=5))
    pale = {"condition": {"test": "datum.few", "value": 0.35}, "value": 1}
    span = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "opacity": pale}
    return {
        "width": SIDE,
        "height": SIDE,
        "data": values(rows),
        "layer": [
            {
                "data": values([{"x": 0, "y": 0}, {"x": 100, "y": 100}]),
                "mark": {"type": "line", "color": DIM, "strokeDash": [4, 3], "strokeWidth": 1},
                "encoding": {"x": x, "y": y},
            },
            {"mark": {"type": "rule", "color": SERIES[0], "strokeWidth": 1.5}, "encoding": span},
            {
                "mark": {"type": "circle", "size": 70, "color": SERIES[0]},
                "encoding": {"x": x, "y": y, "tooltip": _BIN_HINT, "opacity": pale},
            },
        ],
    }


def _inputs_panel(rows: list[dict[str, Any]], most: int) -> Spec:
    return {
        "width": SIDE,
        "height": 80,
        "data": values(rows),
        "mark": {"type": "rect", "color": INK, "opacity": 0.45, "stroke": SOFT},
        "encoding": {
            "x": quantity("left", 0, 100, axis("confidence in %", tickCount=5)),
            "x2": {"field": "right"},
            "y": quantity("n", 0, most * 1.08, axis("inputs", tickCount=3)),
            "y2": {"datum": 0},
            "tooltip": _BIN_HINT,
        },
    }


def bins_table(reliability: Reliability) -> Table:
    """One row for each bin, also for those without inputs."""
    rows = [
        (
            f"{100 * part.low:.1f} to {100 * part.high:.1f} %",
            part.n,
            percent(part.confidence, 1),
            NOTHING
            if part.accuracy is None
            else f"{percent(part.accuracy, 1)} [{percent(part.accuracy_low, 1)}, {percent(part.accuracy_high, 1)}]",
        )
        for part in reliability.bins
    ]
    columns = Column("confidence"), Column("inputs", "number"), Column("mean", "number"), Column("right", "number")
    return Table("calibration", columns, tuple(rows))


def _bin_words(part: Bin) -> str:
    sure, right = percent(part.confidence, 1), percent(part.accuracy, 1)
    interval = f"[{percent(part.accuracy_low, 1)}, {percent(part.accuracy_high, 1)}]"
    return f"{part.n:,} inputs, confidence {sure}, accuracy {right} {interval}"


def _tendency(reliability: Reliability) -> str:
    return f"mean confidence {percent(reliability.confidence, 1)}, accuracy {percent(reliability.accuracy, 1)}"


def _noise(reliability: Reliability) -> str:
    noise = reliability.ece.details.get("noise")
    return "" if noise is None else f" (noise alone {percent(noise, 1)})"
