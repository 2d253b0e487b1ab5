"""/measured: what was measured of one model, the newest figure of each environment with those before it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from pydantic import Field

from zoolens.base.present.metric_words import metric_title
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, Query, Shown
from zoolens.faces.ui.known_datasets import named_dataset
from zoolens.faces.ui.page_figures import Figure, figure_of
from zoolens.faces.ui.resources.model import find_model
from zoolens.findings.comparisons.history import History, HistoryPoint, run_history
from zoolens.findings.measure.run_data import judging_beside, main_metric
from zoolens.inventory.catalog.names import bare

MOST_STACKS: Final = 4  # of a figure; the page of the model's runs has all
MOST_POINTS: Final = 24  # of a small history
_FURTHER: Final = ("latency_p50", "file_size", "peak_memory")  # after the metric that judges the model
_PROCESS: Final = {"peak_memory": "process"}  # the scope, where it is not the usual one


class MeasuredQuery(Query):
    ref: str = Field(max_length=500, description="The model, as zoo:name@version.")
    data: str = Field("", max_length=200, description="The name of a dataset; empty: that with most of its runs.")


class MeasuredPoint(Answer):
    """The figure of one run."""

    run: str
    created: datetime
    figure: Figure
    current: bool
    """Whether the run was of the content that the name has now."""


class MeasuredStack(Answer):
    """One environment: its newest runs, the oldest of them first, of `runs` in all."""

    stack: Shown
    runs: int
    points: list[MeasuredPoint]


class MeasuredFigure(Answer):
    """One figure of the model on one dataset, the environments with the newest runs first, of `stacks_in_all`."""

    metric: Shown
    title: Shown
    dataset: Shown
    others: int
    """Runs on other datasets, which are left out."""
    stacks: list[MeasuredStack]
    stacks_in_all: int


class Measured(Answer):
    figures: list[MeasuredFigure]


def measured(context: Context, query: MeasuredQuery) -> Measured:
    row, _ = find_model(context, query.ref)
    name = bare(row.ref)
    chosen = named_dataset(context, query.data) if query.data else None
    newest = context.store.runs(model=name, dataset=query.data or None, limit=1)
    if not newest:
        return Measured(figures=[])
    wanted = dict.fromkeys((*judging_beside(main_metric(newest[0])), *_FURTHER))
    dataset = None if chosen is None else chosen.fingerprint
    courses = [run_history(context.store, name, metric, _PROCESS.get(metric), dataset=dataset) for metric in wanted]
    return Measured(figures=[_figure(course) for course in courses if course.points])


def _figure(course: History) -> MeasuredFigure:
    by_stack: dict[str, list[HistoryPoint]] = {}
    for point in course.points:
        by_stack.setdefault(point.stack, []).append(point)
    newest_first = sorted(by_stack, key=lambda stack: by_stack[stack][-1].created, reverse=True)
    return MeasuredFigure(
        metric=course.metric,
        title=_title(course),
        dataset=course.dataset,
        others=course.others,
        stacks=[_stack(stack, by_stack[stack]) for stack in newest_first[:MOST_STACKS]],
        stacks_in_all=len(by_stack),
    )


def _title(course: History) -> str:
    title = metric_title(course.metric)
    return title[:1].upper() + title[1:]


def _stack(stack: str, points: Sequence[HistoryPoint]) -> MeasuredStack:
    shown = [MeasuredPoint.of(point, figure=figure_of(point.observed)) for point in points[-MOST_POINTS:]]
    return MeasuredStack(stack=stack.partition(" on ")[0], runs=len(points), points=shown)


ENDPOINTS: Final = (Endpoint("/measured/{ref:path}", "What was measured of one model, with small histories", measured),)
