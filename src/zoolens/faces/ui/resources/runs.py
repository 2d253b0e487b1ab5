"""/runs: the runs of the store, filtered, counted, sorted and in pages. `run` and its neighbours have one of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final

from pydantic import Field

from zoolens.base.present.figures import stack_label
from zoolens.base.present.metric_words import figure_title
from zoolens.base.store.browsing import Facets as RunFacets
from zoolens.base.store.browsing import FigureOrder, RunsWanted, TimeOrder, figures_stored, page_with_facets
from zoolens.base.store.records import Observation, Run, RunKind
from zoolens.base.store.run_columns import RunState
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import MOST_ROWS, Answer, Endpoint, Paged, Query, RequestError, Shown
from zoolens.faces.ui.facets import Facet, facet_of
from zoolens.faces.ui.page_figures import LISTED, Figure, figure_named, judging_figure
from zoolens.findings.measure.class_order import JUDGED_WRONGLY, judged_right
from zoolens.findings.measure.run_data import judging_metrics

LONGEST: Final = 200  # letters of a search, a name or a pattern
NEWEST: Final = TimeOrder()
_CREATED: Final = "created"
_MOST_FAILURES: Final = 20  # stages of one run that are named in a list
_MISJUDGED: Final = f"Its accuracy is not shown: {JUDGED_WRONGLY}. `zoolens eval` measures it again."

Pattern = Annotated[str, Field(max_length=LONGEST)]


class RunsQuery(Paged):
    """Several values of one facet mean any of them; several facets, and several words of a search, all of them."""

    q: str = Field(
        "", max_length=LONGEST, description="Words: parts of names of models, datasets and runtimes, or an id."
    )
    model: list[Pattern] = Field([], description="Names of models, with * and ?, with or without their versions.")
    dataset: list[Pattern] = Field([], description="Names of datasets, with * and ?.")
    runtime: list[Pattern] = Field([], description="Names of runtimes, with * and ?.")
    kind: list[RunKind] = Field([], description="Kinds of runs; without one, evaluations.")
    state: list[RunState] = Field([], description="How far a run came.")
    since: datetime | None = Field(None, description="Begun at this time or later; without a zone, UTC.")
    until: datetime | None = Field(None, description="Begun before this time.")
    sort: str = Field(
        f"-{_CREATED}",
        max_length=LONGEST,
        description="'created', or a metric and its scope such as 'top1' and 'latency_p50@batch=1'; with a minus sign, "
        "the largest first. Runs without the figure come last.",
    )


class Fact(Answer):
    """One fact about what a run was measured with."""

    name: Shown
    value: Shown


class FailedStage(Answer):
    stage: Shown
    error: Shown


class RunItem(Answer):
    """One run."""

    id: str
    created: datetime
    kind: RunKind
    state: RunState
    model: Shown
    format: Shown
    dataset: Shown
    inputs: int
    runtime: Shown
    stack: Shown
    """The environment: runtime, version and what sets it apart from others."""
    attempt: int
    failed: list[FailedStage]
    judged: Figure | None
    """The figure that says how good its answers are: top-1 of classes, AP of boxes."""
    latency_p50: Figure | None
    sorted_by: Figure | None
    """The figure that the list is sorted by."""
    note: Shown
    """Why figures are left out."""


class SortChoice(Answer):
    """What runs can be sorted by; `value` goes into `sort`."""

    value: Shown
    metric: Shown
    scope: Shown
    title: Shown
    """Both in words, such as "median latency, batches of 8"."""


class RunList(Answer):
    """`total` runs fit. `lacking` of them do not have the figure that they are sorted by."""

    total: int
    offset: int
    lacking: int
    rows: list[RunItem]
    facets: list[Facet]


def runs(context: Context, query: RunsQuery) -> RunList:
    wanted, order = _wanted(query), _order(query.sort)
    page, counts = page_with_facets(context.runs, wanted, order, limit=query.limit, offset=query.offset)
    by_id = {run.id: run for run in context.store.runs_of(page.ids)}
    listed = [by_id[run_id] for run_id in page.ids if run_id in by_id]
    by = [order.metric] if isinstance(order, FigureOrder) else []
    metrics = sorted({*LISTED, *judging_metrics(listed), *by})
    stored = context.store.observations_by_run(page.ids, metrics=metrics)
    return RunList(
        total=page.total,
        offset=query.offset,
        lacking=page.lacking,
        rows=[run_item(run, stored.get(run.id, ()), order) for run in listed],
        facets=_facets(counts, wanted),
    )


def _wanted(query: RunsQuery) -> RunsWanted:
    return RunsWanted(
        models=tuple(query.model),
        datasets=tuple(query.dataset),
        runtimes=tuple(query.runtime),
        kinds=tuple(query.kind) or (RunKind.EVALUATION,),
        states=tuple(query.state),
        since=query.since,
        until=query.until,
        text=query.q,
    )


def _order(sort: str) -> TimeOrder | FigureOrder:
    name, descending = sort.removeprefix("-"), sort.startswith("-")
    if name == _CREATED:
        return TimeOrder(descending)
    metric, _, scope = name.partition("@")
    if not metric:
        raise RequestError("sort: name 'created', or a metric such as 'top1'.")
    return FigureOrder(metric, scope, descending)


def _facets(counts: RunFacets, wanted: RunsWanted) -> list[Facet]:
    chosen_kinds = wanted.kinds if wanted.kinds != (RunKind.EVALUATION,) else ()
    return [
        facet_of("dataset", counts.datasets, wanted.datasets),
        facet_of("runtime", counts.runtimes, wanted.runtimes),
        facet_of("state", {str(state): count for state, count in counts.states.items()}, wanted.states),
        facet_of("kind", {str(kind): count for kind, count in counts.kinds.items()}, chosen_kinds),
    ]


def run_item(run: Run, stored: Sequence[Observation], order: TimeOrder | FigureOrder = NEWEST) -> RunItem:
    observations = judged_right(run, stored)
    failed = [FailedStage(stage=stage, error=error) for stage, error in run.failures.items()]
    by = figure_named(observations, order.metric, order.scope) if isinstance(order, FigureOrder) else None
    return RunItem.of(
        run,
        state=RunState.FAILED if failed else RunState.MEASURED if run.stages else RunState.BEGUN,
        model=run.ref,
        format=run.model.format,
        dataset=run.dataset.name,
        runtime=run.stack.runtime,
        stack=stack_label(run),
        attempt=run.key.attempt,
        failed=failed[:_MOST_FAILURES],
        judged=judging_figure(run, observations),
        latency_p50=figure_named(observations, "latency_p50"),
        sorted_by=by,
        note="" if len(observations) == len(stored) else _MISJUDGED,
    )


# --- what runs can be sorted by


class FiguresQuery(Query):
    pass


class SortableFigures(Answer):
    """The metrics of the store and their scopes, but for those of single classes, single epochs and pairs of runs."""

    rows: list[SortChoice]


def sortable_figures(context: Context, _: FiguresQuery) -> SortableFigures:
    return SortableFigures(
        rows=[
            SortChoice(
                value=f"{metric}@{scope}" if scope else metric,
                metric=metric,
                scope=scope,
                title=figure_title(metric, scope),
            )
            for metric, scope in figures_stored(context.store)[:MOST_ROWS]
        ]
    )


ENDPOINTS: Final = (
    Endpoint("/runs", "Runs of the store, by filters, facets and figures", runs),
    Endpoint("/figures", "What runs can be sorted by", sortable_figures),
)
