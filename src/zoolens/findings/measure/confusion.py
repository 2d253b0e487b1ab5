"""Which classes a run takes for which others: a matrix where there are few classes, else the pairs confused most.

In charts the marks of a cell or pair carry the numbers of both classes (`label_number`, `answer_number`), so that who
picks one can list its inputs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ZoolensError
from zoolens.base.present.charts import (
    DIM,
    INK,
    LINE,
    SERIES,
    Chart,
    Spec,
    axis,
    fills_up_to,
    heading,
    quantity,
    values,
)
from zoolens.base.present.figures import percent
from zoolens.base.present.tables import Column, Table
from zoolens.base.present.text import shareable
from zoolens.base.statistics.intervals import wilson
from zoolens.findings.measure.predictions import Predictions

MOST_CLASSES: Final = 30  # of a matrix; with more of them only the pairs confused most are told
MOST_PAIRS: Final = 25
CELL: Final = 34
NUMBERED: Final = 20  # classes of a matrix whose cells have room for numbers
LONGEST: Final = 26  # characters of a class's name
DEEP: Final = 0.55  # share from which on a cell is so dark that its number is white
_RIGHT, _WRONG = SERIES[0], "#c2410c"
_NAMES: Final = 320  # pixels for what stands left of a bar


@dataclass(frozen=True)
class ConfusedPair:
    """Inputs of one class that were taken for another. `share`: of the `of` inputs of that class, with its interval."""

    label: int
    answer: int
    label_name: str
    answer_name: str
    count: int
    of: int
    share: float
    low: float
    high: float


@dataclass(frozen=True)
class Confusion:
    """Which classes are confused, over the labelled inputs of a run."""

    n: int  # labelled inputs
    unlabelled: int
    right: int
    classes: int  # how many occur as a label or as an answer
    confused_pairs: int  # how many pairs were confused at all
    pairs: tuple[ConfusedPair, ...]  # those confused most, at most `MOST_PAIRS`
    numbers: tuple[int, ...] = ()  # classes of the matrix; empty where they are too many
    names: tuple[str, ...] = ()
    counts: tuple[tuple[int, ...], ...] = ()  # the matrix: rows are labels, columns answers


def confusion_of(predictions: Predictions) -> Confusion:
    """Raises a ZoolensError where no input has a label, or where answers are no classes."""
    answers, labels = np.asarray(predictions.answers), predictions.labels
    labelled = labels >= 0
    if not labelled.any():
        raise ZoolensError(
            "No input of this run has a label, so there is no confusion matrix.",
            hint="Evaluate it on a labelled dataset.",
        )
    unlabelled = int(np.count_nonzero(~labelled))
    answers, labels = answers[labelled], labels[labelled]
    occurring = np.union1d(labels, answers)
    names = _names(predictions, occurring)
    pairs, counts = _pairs(labels, answers)
    totals = np.bincount(labels)
    order = np.lexsort((pairs[:, 1], pairs[:, 0], -counts))[:MOST_PAIRS]
    shown = tuple(
        _pair(names, totals, int(pairs[place, 0]), int(pairs[place, 1]), int(counts[place])) for place in order
    )
    right = int(np.count_nonzero(labels == answers))
    whole = Confusion(len(labels), unlabelled, right, len(occurring), len(pairs), shown)
    if len(occurring) > MOST_CLASSES:
        return whole
    matrix = np.zeros((len(occurring), len(occurring)), np.int64)
    np.add.at(matrix, (np.searchsorted(occurring, labels), np.searchsorted(occurring, answers)), 1)
    return replace(
        whole,
        numbers=tuple(occurring.tolist()),
        names=tuple(names[number] for number in occurring.tolist()),
        counts=tuple(tuple(row) for row in matrix.tolist()),
    )


def _names(predictions: Predictions, occurring: NDArray[Any]) -> dict[int, str]:
    """The name of each class; names that several classes share, as ImageNet's two cranes do, get their numbers."""
    names = {int(number): predictions.class_name(int(number)) for number in occurring}
    several = {
        name for name, count in Counter(shareable(name, LONGEST) for name in names.values()).items() if count > 1
    }
    return {
        number: f"{name} #{number}" if shareable(name, LONGEST) in several else name for number, name in names.items()
    }


def _pairs(labels: NDArray[Any], answers: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    wrong = labels != answers
    if not wrong.any():
        return np.empty((0, 2), np.int64), np.empty(0, np.int64)
    return np.unique(np.stack([labels[wrong], answers[wrong]], axis=1), axis=0, return_counts=True)


def _pair(names: dict[int, str], totals: NDArray[np.int64], label: int, answer: int, count: int) -> ConfusedPair:
    of = int(totals[label])
    low, high = wilson(count, of)
    return ConfusedPair(label, answer, names[label], names[answer], count, of, count / of, low, high)


def pairs_table(confusion: Confusion) -> Table:
    """The pairs of classes that are confused most, one row each, in the order of `confusion.pairs`."""
    rows = [
        (
            pair.label_name,
            pair.answer_name,
            f"{pair.count:,} of {pair.of:,}",
            f"{percent(pair.share, 1)} [{100 * pair.low:.1f}, {100 * pair.high:.1f}]",
        )
        for pair in confusion.pairs
    ]
    columns = Column("label"), Column("predicted"), Column("inputs", "number"), Column("share of the class", "number")
    return Table("confused-pairs", columns, tuple(rows))


# --- pictures

_AROUND: Final = 260  # pixels beside the cells: names of classes, and cells that are wider than high
_SLANTED: Final = {"left": 5, "top": 5, "right": 22, "bottom": 5}  # pixels: the last name reaches beyond its cell


def confusion_chart(confusion: Confusion) -> Chart:
    """The matrix where there is one, else the pairs confused most."""
    return _matrix_chart(confusion) if confusion.names else pairs_chart(confusion)


def _subtitle(confusion: Confusion) -> str:
    words = f"{confusion.n:,} inputs, accuracy {percent(confusion.right / confusion.n, 1)}"
    return words + (f"; {confusion.unlabelled:,} without a label are left out" if confusion.unlabelled else "")


def _matrix_chart(confusion: Confusion) -> Chart:
    names = [shareable(name, LONGEST) for name in confusion.names]
    side = CELL * len(names)
    totals = [sum(row) for row in confusion.counts]
    cells = [
        {
            "label": names[i],
            "answer": names[j],
            "count": count,
            "share": count / totals[i] if totals[i] else 0.0,
            "right": i == j,
            "label_number": confusion.numbers[i],
            "answer_number": confusion.numbers[j],
            "words": _cell_words(names[i], names[j], count, totals[i]),
        }
        for i, row in enumerate(confusion.counts)
        for j, count in enumerate(row)
        if count or i == j
    ]
    common: Spec = {"type": "nominal", "sort": None, "scale": {"domain": names, "paddingInner": 0}}
    labels: Spec = {"labelLimit": 190, "labelOverlap": False}
    place = {
        "y": {**common, "field": "label", "axis": {"title": "label", **labels}},
        "x": {**common, "field": "answer", "axis": {"title": "answer", "orient": "top", "labelAngle": -45, **labels}},
    }
    rect = {"type": "rect", "width": {"band": 0.96}, "height": {"band": 0.96}}
    layers = [_cells(place, rect, right=True), _cells(place, rect, right=False)]
    if len(names) <= NUMBERED:
        deep = f"datum.share > (datum.right ? {DEEP} : {DEEP / 2})"
        white = {"condition": {"test": deep, "value": "#fff"}, "value": INK}
        text = {"type": "text", "fontSize": 11, "tooltip": None}
        layers.append({"mark": text, "encoding": {**place, "text": {"field": "count"}, "color": white}})
    title = "Labels and answers"
    spec = {
        **fills_up_to(side + _AROUND),
        "title": heading(title, f"{_subtitle(confusion)}. Blue: correct. Orange: another class was predicted."),
        "padding": _SLANTED,
        "width": side,
        "height": side,
        "data": values(cells),
        "layer": layers,
        "resolve": {"scale": {"opacity": "independent"}},
        "config": {"view": {"fill": None}, "axis": {"grid": False, "labelColor": INK}},
    }
    return Chart("confusion", f"Confusion matrix of {len(names)} classes", spec)


def _cells(place: Spec, rect: Spec, *, right: bool) -> Spec:
    scale = {"domain": [0, 1 if right else 0.5], "range": [0.12, 1], "clamp": True}
    return {
        "transform": [{"filter": "datum.right" if right else "!datum.right"}],
        "mark": {**rect, "color": _RIGHT if right else _WRONG},
        "encoding": {
            **place,
            "opacity": {"field": "share", "type": "quantitative", "scale": scale, "legend": None},
            "tooltip": {"field": "words", "type": "nominal"},
        },
    }


def _cell_words(label: str, answer: str, count: int, of: int) -> str:
    if not of:
        return f"No input has the label {label}."
    what = "classified correctly" if label == answer else f"classified as {answer}"
    return f"{count:,} of {of:,} inputs of {label} ({percent(count / of, 1)}) were {what}."


def pairs_chart(confusion: Confusion) -> Chart:
    """The pairs of classes that are confused most, as shares of the first class's inputs with their intervals."""
    title = "Most confused pairs of classes"
    rows = [
        {
            "pair": f"{place}. {shareable(pair.label_name, LONGEST)} → {shareable(pair.answer_name, LONGEST)}",
            "share": 100 * pair.share,
            "low": 100 * pair.low,
            "high": 100 * pair.high,
            "label_number": pair.label,
            "answer_number": pair.answer,
            "words": f"{pair.count:,} of {pair.of:,}",
        }
        for place, pair in enumerate(confusion.pairs, 1)
    ]
    counted = sum(pair.count for pair in confusion.pairs)
    wrong = confusion.n - confusion.right
    of_all = f"{len(rows):,} of {confusion.confused_pairs:,} confused pairs of {confusion.classes:,} classes"
    subtitle = f"{of_all}, with {counted:,} of {wrong:,} mistakes." if wrong else f"{_subtitle(confusion)}: no mistake."
    most = min(100.0, max((100 * pair.high for pair in confusion.pairs), default=1.0))
    x = quantity("share", 0, most * 1.15, axis("% of the class", tickCount=5))
    y = {
        "field": "pair", "type": "nominal", "sort": None,
        "axis": {"title": None, "labelLimit": _NAMES, "labelOverlap": False},
    }  # fmt: skip
    text = {"type": "text", "align": "left", "dx": 6, "color": DIM, "fontSize": 11}
    span = {"y": y, "x": {**x, "field": "low"}, "x2": {"field": "high"}}
    layers: list[Spec] = [
        {"mark": {"type": "bar", "height": 12, "color": SERIES[1], "opacity": 0.85}, "encoding": {"y": y, "x": x}},
        {"mark": {"type": "rule", "color": INK, "strokeWidth": 1}, "encoding": span},
        {"mark": text, "encoding": {"y": y, "x": {**x, "field": "high"}, "text": {"field": "words"}}},
    ]
    spec = {
        "title": heading(title, subtitle),
        "width": 460,
        "height": max(22 * len(rows), 22),
        "data": values(rows),
        "layer": layers,
        "config": {"view": {"fill": None, "stroke": LINE}, "axisY": {"grid": False, "labelColor": INK}},
    }
    return Chart("confused-pairs", title, spec)
