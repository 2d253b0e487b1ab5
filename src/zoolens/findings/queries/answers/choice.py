"""What there is to choose from, as points: two figures of every row with their intervals, a third as its size, which
rows an answer takes or nearly takes, and which of them nothing beats.

choice = index_choice(zoolens.build_index())
choice = answer_choice(zoolens.query("CORR lenet-wide ON size <= 60%"))
choice_chart(choice)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.present.charts import si_labels
from zoolens.base.present.metric_words import figure_title
from zoolens.base.statistics.pareto import clearly_beaten, front
from zoolens.base.store.scopes import Dimension
from zoolens.findings.index.index import Index
from zoolens.findings.queries.answers.query_answers import Answer
from zoolens.findings.queries.answers.wording import predicate_words
from zoolens.findings.queries.language.errors import UnknownQueryName
from zoolens.findings.queries.planning.metrics import ResolvedMetric, higher_is_better
from zoolens.findings.queries.planning.view import View

MOST_POINTS: Final = 2000  # of a picture; those that matter are always among them
_SCALES: Final = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")),
    "B": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")),
    "": ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")),
}


class Standing(StrEnum):
    """How a row stands to a query; `INDEXED` where nobody asked one."""

    ANSWER = "in the answer"
    FITS = "fits too"
    NEAR_MISS = "near miss"
    REFERENCE = "reference"
    NOT_KNOWN = "not known"
    LEFT_OUT = "does not fit"
    INDEXED = "indexed"


@dataclass(frozen=True)
class Respect:
    """One figure that models are compared by. What a picture shows is the figure divided by `factor`, in `shown_unit`.
    `limits`: what the query asks of it, in the figure's own unit, each with its words."""

    metric: str  # as it was asked for
    column: str
    unit: str
    higher_is_better: bool
    factor: float = 1.0
    shown_unit: str = ""
    limits: tuple[tuple[float, str], ...] = ()

    @property
    def title(self) -> str:
        metric, _, scope = self.column.partition("@")
        name = figure_title(metric, scope if scope.startswith(Dimension.BATCH.prefix) else "")
        # Where every tick has its unit, the title has none.
        prefixed = not self.shown_unit or si_labels(self.unit, self.factor) is not None
        return name if prefixed else f"{name} in {self.shown_unit}"


@dataclass(frozen=True)
class Point:
    """One row as a point. Figures are in the store's unit; an unknown interval is None."""

    key: str
    ref: str
    runtime: str | None
    standing: Standing
    x: float
    y: float
    x_low: float | None
    x_high: float | None
    y_low: float | None
    y_high: float | None
    size: float | None
    measured: bool  # neither of the two figures is claimed or estimated
    x_disturbed: bool
    y_disturbed: bool
    front: bool  # no measured row beats it in both figures
    front_with_size: bool  # no measured row beats it in all three figures
    beaten: bool  # a measured row beats it in both, beyond all four confidence intervals
    why_not: str = ""  # of a near miss: the sentences of its rejections

    @property
    def disturbed(self) -> bool:
        """Whether one of the two was measured under load."""
        return self.x_disturbed or self.y_disturbed


@dataclass(frozen=True)
class Choice:
    """The rows of an index as points of a scatter plot."""

    points: tuple[Point, ...]  # at most `MOST_POINTS`
    x: Respect | None  # None: no row has such a figure
    y: Respect | None
    size: Respect | None
    dataset: str
    inputs: int
    rows: int  # of the index
    never_run: int  # models that nobody ran: only their files and claims are known
    placed: int  # rows that have both figures
    query: str = ""
    notes: tuple[str, ...] = ()  # what the chart leaves out or mixes


def index_choice(
    index: Index,
    *,
    x: str = "latency",
    y: str = "accuracy",
    size: str | None = "size",
    batch: int = 1,
    most: int | None = MOST_POINTS,
) -> Choice:
    """All rows of an index, by any two of their figures, and a third as the size of their points. `most`: so many
    points at most; None: all."""
    view = View(index)

    def resolve(name: str) -> ResolvedMetric:
        return view.metric(name, batch)

    figures = _Figures(index, resolve, lambda metric: index.columns.values(metric.column))
    return _choice(figures, (x, y, size), _Asked([Standing.INDEXED] * len(index)), most)


def answer_choice(
    answer: Answer,
    *,
    x: str = "latency",
    y: str = "accuracy",
    size: str | None = "size",
    most: int | None = MOST_POINTS,
) -> Choice:
    """All rows of the index that a query was asked of, with what it chose; figures relative to its reference too."""
    plan = answer.plan
    limits: dict[str, tuple[tuple[float, str], ...]] = {}
    for predicate in plan.everything:
        column = predicate.metric.column
        limits[column] = (*limits.get(column, ()), (predicate.threshold, predicate_words(predicate)))
    figures = _Figures(plan.view.index, plan.metric, plan.values)
    asked = _Asked(_standings(answer), limits, _reasons(answer), answer.query)
    return _choice(figures, (x, y, size), asked, most)


def _standings(answer: Answer) -> list[Standing]:
    plan = answer.plan
    standings = [Standing.FITS if fits else Standing.LEFT_OUT for fits in plan.fitting.tolist()]
    for place in np.flatnonzero(plan.undecided).tolist():
        standings[place] = Standing.NOT_KNOWN
    places = {key: place for place, key in enumerate(plan.view.index.rows.columns["key"].to_list())}
    for match in answer.misses if not answer.exact else ():
        standings[places[match.row.key]] = Standing.NEAR_MISS
    for match in answer.matches if answer.exact else ():
        standings[places[match.row.key]] = Standing.ANSWER
    if plan.reference is not None:
        standings[plan.reference.row] = Standing.REFERENCE
    return standings


def _reasons(answer: Answer) -> dict[str, str]:
    misses = () if answer.exact else answer.misses
    return {match.row.key: "; ".join(why.sentence for why in match.rejections) for match in misses}


@dataclass(frozen=True)
class _Figures:
    """How the rows of an index are read by the name of a metric."""

    index: Index
    resolve: Callable[[str], ResolvedMetric]
    values: Callable[[ResolvedMetric], NDArray[np.float64]]


@dataclass(frozen=True)
class _Asked:
    """What a query says of the rows; without a query every row is only indexed."""

    standings: Sequence[Standing]  # one a row
    limits: Mapping[str, tuple[tuple[float, str], ...]] = field(default_factory=dict)  # by column, with words
    reasons: Mapping[str, str] = field(default_factory=dict)  # why a near miss misses, by the key of its row
    query: str = ""


def _choice(read: _Figures, names: tuple[str, str, str | None], asked: _Asked, most: int | None) -> Choice:
    index = read.index
    notes: list[str] = []
    resolved: list[ResolvedMetric | None] = []
    for name in names:
        try:
            resolved.append(None if name is None else read.resolve(name))
        except UnknownQueryName:
            resolved.append(None)
            notes.append(f"No row of this index has its {name} known.")
    figures = [None if metric is None else read.values(metric) for metric in resolved]
    respects = [
        None if metric is None or column is None else _respect(metric, column, asked.limits.get(metric.column, ()))
        for metric, column in zip(resolved, figures, strict=True)
    ]
    points: list[Point] = []
    placed = 0
    if resolved[0] is not None and resolved[1] is not None:
        table = _Points(index, resolved, figures, asked.standings, asked.reasons)
        points, placed = table.drawn(most), len(table.placed)
        notes += table.notes(most)
    across, up, sized = respects
    return Choice(
        points=tuple(points),
        x=across,
        y=up,
        size=sized,
        dataset=index.dataset.name,
        inputs=index.semantic.probes if index.semantic else 0,
        rows=len(index),
        never_run=int(np.count_nonzero(index.rows.attribute("runtime").codes < 0)),
        placed=placed,
        query=asked.query,
        notes=tuple(notes),
    )


def _respect(metric: ResolvedMetric, column: NDArray[np.float64], limits: tuple[tuple[float, str], ...]) -> Respect:
    factor, unit = (0.01, "%") if metric.unit == "fraction" else (1.0, metric.unit)
    if metric.unit in _SCALES:
        known = np.abs(column[np.isfinite(column)])
        typical = float(np.median(known)) if len(known) else 1.0
        scales = _SCALES[metric.unit]
        factor, unit = next((scale for scale in scales if typical >= scale[0]), scales[-1])
    return Respect(metric.name, metric.column, metric.unit, higher_is_better(metric.column), factor, unit, limits)


def _cost_sign(metric: ResolvedMetric | None) -> float:
    """Return the factor that makes less of a figure better."""
    return -1.0 if metric is not None and higher_is_better(metric.column) else 1.0


class _Points:
    """The rows that have both figures, as arrays; a point is made of a row that is drawn."""

    def __init__(
        self,
        index: Index,
        metrics: Sequence[ResolvedMetric | None],
        figures: Sequence[NDArray[np.float64] | None],
        standings: Sequence[Standing],
        reasons: Mapping[str, str],
    ) -> None:
        first, second, third = metrics
        x, y, size = figures
        assert first is not None
        assert second is not None
        assert x is not None
        assert y is not None
        self._index, self._standings, self._reasons = index, standings, reasons
        self._x, self._y = x, y
        self._size = np.full(len(index), np.nan) if size is None else size
        self.placed = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        axes = (first, second)
        table = index.rows.figures
        self._intervals = [table.interval(metric.column) for metric in axes]
        self._disturbed = [table.disturbed(metric.column) for metric in axes]
        known_x, known_y = (metric.derived | table.measured(metric.column) for metric in axes)
        self._measured = np.asarray(known_x & known_y, np.bool_)
        # Claimed and estimated figures neither are on the front nor push others off it.
        judged = np.zeros(len(index), np.bool_)
        judged[self.placed] = self._measured[self.placed]
        signs = [_cost_sign(metric) for metric in axes]
        costs = np.stack([signs[0] * x, signs[1] * y, _cost_sign(third) * self._size], axis=1)
        costs[~judged] = np.nan
        self._front, self._front_with_size = front(costs[:, :2]), front(costs)
        intervals = []
        for sign, (low, high) in zip(signs, self._intervals, strict=True):
            ends = (low, high) if sign > 0 else (-high, -low)
            intervals.append((np.where(judged, ends[0], np.nan), np.where(judged, ends[1], np.nan)))
        self._beaten = clearly_beaten(*intervals)

    def drawn(self, most: int | None) -> list[Point]:
        """All placed rows, or of very many those that matter and a sample of the others; those that matter last, so
        that they are drawn on top."""
        matter = self._front | self._front_with_size
        others_too = (Standing.LEFT_OUT, Standing.NOT_KNOWN, Standing.INDEXED)
        matter |= np.array([standing not in others_too for standing in self._standings])
        kept, others = self.placed[matter[self.placed]], self.placed[~matter[self.placed]]
        room = max((most or 0) - len(kept), 0)
        if most is not None and len(others) > room:
            others = np.sort(np.random.default_rng(0).choice(others, room, replace=False))
        return [self._point(int(row)) for row in (*others, *(kept if most is None else kept[-most:]))]

    def _point(self, place: int) -> Point:
        rows = self._index.rows
        key, ref, runtime = rows.columns["key"][place], rows.columns["ref"][place], rows.attribute("runtime")[place]
        (x_low, x_high), (y_low, y_high) = self._intervals
        return Point(
            key=str(key),
            ref=str(ref),
            runtime=None if runtime is None else str(runtime),
            standing=self._standings[place],
            x=float(self._x[place]),
            y=float(self._y[place]),
            x_low=_known(x_low[place]),
            x_high=_known(x_high[place]),
            y_low=_known(y_low[place]),
            y_high=_known(y_high[place]),
            size=_known(self._size[place]),
            measured=bool(self._measured[place]),
            x_disturbed=bool(self._disturbed[0][place]),
            y_disturbed=bool(self._disturbed[1][place]),
            front=bool(self._front[place]),
            front_with_size=bool(self._front_with_size[place]),
            beaten=bool(self._beaten[place]),
            why_not=self._reasons.get(str(key), ""),
        )

    def notes(self, most: int | None) -> Iterator[str]:
        missing = len(self._index) - len(self.placed)
        if missing:
            yield f"Without one of the two figures, and so without a point: {missing:,} of {len(self._index):,} rows."
        if most is not None and len(self.placed) > most:
            yield f"A sample of {most:,} of {len(self.placed):,} rows is drawn; the front is of all of them."
        guessed = int((~self._measured[self.placed]).sum())
        if guessed:
            yield (
                f"Hollow points ({guessed:,}) have a figure that is claimed, perhaps about other data, or estimated. "
                "They are not on the front."
            )
        processors = self._index.rows.attribute("cpu")
        used = np.unique(processors.codes[self.placed[self._measured[self.placed]]])
        if np.count_nonzero(used >= 0) > 1:
            yield f"Times were measured on {np.count_nonzero(used >= 0)} different processors and compare these too."


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
