"""/runs: the runs of the store, filtered, counted, sorted and in pages; one run with its figures and its answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import Field

from zoolens.comparisons.answer_pages import AnswerOrder, AnswerRow, AnswersShown, SideAnswer, page_of_answers
from zoolens.measure.answers import has_answers
from zoolens.measure.classorder import JUDGED_WRONGLY, judged_right
from zoolens.present.figures import stack_label
from zoolens.store.browsing import FigureOrder, RunsWanted, TimeOrder, count_facets, figures_stored, page_of_runs
from zoolens.store.records import ANSWERING_KINDS, Observation, Run, RunKind
from zoolens.store.run_columns import RunState
from zoolens.store.scopes import Dimension, parse_scope
from zoolens.ui.context import Context
from zoolens.ui.endpoint import MOST_ROWS, Answer, Endpoint, Paged, Query, RequestError, Shown
from zoolens.ui.facets import Facet, FacetValue, facet_of
from zoolens.ui.figures import LISTED, Figure, figure_named, figure_of

_LONGEST: Final = 200  # letters of a search, a name or a pattern
_CREATED: Final = "created"
_MOST_FAILURES: Final = 20  # stages of one run that are named in a list
_MOST_WORDS: Final = 50  # of a list in a fact
_MISJUDGED: Final = f"Its accuracy is not shown: {JUDGED_WRONGLY}. `zoolens eval` measures it anew."

Pattern = Annotated[str, Field(max_length=_LONGEST)]


class RunsQuery(Paged):
    """Several values of one facet mean any of them; several facets, and several words of a search, all of them."""

    q: str = Field("", max_length=_LONGEST, description="Words: parts of names of models, data and runtimes, or an id.")
    model: list[Pattern] = Field([], description="Names of models, with * and ?, with or without their versions.")
    dataset: list[Pattern] = Field([], description="Names of datasets, with * and ?.")
    runtime: list[Pattern] = Field([], description="Names of runtimes, with * and ?.")
    kind: list[RunKind] = Field([], description="Kinds of runs; without one, evaluations.")
    state: list[RunState] = Field([], description="How far a run came.")
    since: datetime | None = Field(None, description="Begun at this time or later; without a zone, UTC.")
    until: datetime | None = Field(None, description="Begun before this time.")
    sort: str = Field(
        f"-{_CREATED}",
        max_length=_LONGEST,
        description="'created', or a metric and its scope such as 'top1' and 'latency_p50@batch=1'; with a minus sign, "
        "the largest first. Runs without the figure come last.",
    )


class FailedStage(Answer):
    stage: Shown
    error: Shown


class RunItem(Answer):
    """One run. `stack`: runtime, version and what sets the stack apart. `sorted_by`: the figure that the list is sorted
    by. `note`: why figures are left out."""

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
    attempt: int
    failed: list[FailedStage]
    top1: Figure | None
    latency_p50: Figure | None
    sorted_by: Figure | None
    note: Shown


class SortChoice(Answer):
    """What runs can be sorted by; `value` goes into `sort`."""

    value: Shown
    metric: Shown
    scope: Shown


class RunList(Answer):
    """`total` runs fit. `lacking` of them do not have the figure that they are sorted by."""

    total: int
    offset: int
    lacking: int
    rows: list[RunItem]
    facets: list[Facet]


def runs(context: Context, query: RunsQuery) -> RunList:
    wanted, order = _wanted(query), _order(query.sort)
    page = page_of_runs(context.runs, wanted, order, limit=query.limit, offset=query.offset)
    by_id = {run.id: run for run in context.store.runs_of(page.ids)}
    listed = [by_id[run_id] for run_id in page.ids if run_id in by_id]
    metrics = (*LISTED, order.metric) if isinstance(order, FigureOrder) else LISTED
    stored = context.store.observations_by_run(page.ids, metrics=metrics)
    return RunList(
        total=page.total,
        offset=query.offset,
        lacking=page.lacking,
        rows=[_item(run, stored.get(run.id, ()), order) for run in listed],
        facets=_facets(context, wanted),
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


def _facets(context: Context, wanted: RunsWanted) -> list[Facet]:
    counts = count_facets(context.runs, wanted)
    chosen_kinds = wanted.kinds if wanted.kinds != (RunKind.EVALUATION,) else ()
    return [
        facet_of("dataset", counts.datasets, wanted.datasets),
        facet_of("runtime", counts.runtimes, wanted.runtimes),
        facet_of("state", {str(state): count for state, count in counts.states.items()}, wanted.states),
        facet_of("kind", {str(kind): count for kind, count in counts.kinds.items()}, chosen_kinds),
    ]


def _item(run: Run, stored: Sequence[Observation], order: TimeOrder | FigureOrder) -> RunItem:
    observations = judged_right(run, stored)
    failed = [
        FailedStage(stage=stage, error=words.removeprefix("failed: "))
        for stage, words in run.stages.items()
        if words != "done"
    ]
    by = figure_named(observations, order.metric, order.scope) if isinstance(order, FigureOrder) else None
    return RunItem(
        id=run.id,
        created=run.created,
        kind=run.kind,
        state=RunState.FAILED if failed else RunState.MEASURED if run.stages else RunState.BEGUN,
        model=run.ref,
        format=run.model.format,
        dataset=run.dataset.name,
        inputs=run.inputs,
        runtime=run.stack.runtime,
        stack=stack_label(run),
        attempt=run.key.attempt,
        failed=failed[:_MOST_FAILURES],
        top1=figure_named(observations, "top1"),
        latency_p50=figure_named(observations, "latency_p50"),
        sorted_by=by,
        note="" if len(observations) == len(stored) else _MISJUDGED,
    )


# --- one run


class RunQuery(Query):
    run: str = Field(max_length=_LONGEST, description="The id of a run, the beginning of one, or 'last'.")


class StageItem(Answer):
    stage: Shown
    done: bool
    error: Shown
    updated: datetime


class Fact(Answer):
    """One fact about what a run was measured with."""

    name: Shown
    value: Shown


class RunDetail(Answer):
    """`figures` are those of the whole run and of each batch size; those of single classes, of epochs and the like are
    further observations, of which there are `observations` in all. `environment` is what can change an answer or a
    time, `resolved` what only the open model knew. `answered`: it has predictions."""

    run: RunItem
    model_fingerprint: str
    data_fingerprint: str
    precision: Shown
    stages: list[StageItem]
    figures: list[Figure]
    observations: int
    environment: list[Fact]
    resolved: list[Fact]
    answered: bool


def run_detail(context: Context, query: RunQuery) -> RunDetail:
    run = context.store.run(query.run)
    stored = context.store.observations(run.id)
    known = judged_right(run, stored)
    stages = context.store.stages(run.id)
    return RunDetail(
        run=_item(run, stored, TimeOrder()),
        model_fingerprint=run.model.fingerprint,
        data_fingerprint=run.dataset.fingerprint,
        precision=run.precision or "",
        stages=[
            StageItem(stage=name, done=state.done, error=state.error or "", updated=state.updated)
            for name, state in stages.items()
        ],
        figures=[figure_of(observation) for observation in known if _of_run(observation)][:MOST_ROWS],
        observations=len(known),
        environment=_facts(run.stack.identity),
        resolved=_facts({name: value for name, value in run.resolved.items() if name not in ("origin", "outputs")}),
        answered=has_answers(run),
    )


def _of_run(observation: Observation) -> bool:
    return parse_scope(observation.scope).dimension in (None, Dimension.BATCH)


def _facts(data: Mapping[str, Any], before: str = "") -> list[Fact]:
    """A nested mapping as lines, as many as a page can show."""
    facts: list[Fact] = []
    for name, value in data.items():
        if isinstance(value, Mapping):
            facts += _facts(value, f"{before}{name} ")
        elif value not in (None, "", [], ()):
            words = ", ".join(map(str, value[:_MOST_WORDS])) if isinstance(value, list | tuple) else str(value)
            facts.append(Fact(name=f"{before}{name}", value=words))
        if len(facts) >= MOST_ROWS:
            break
    return facts[:MOST_ROWS]


class ObservationsQuery(Paged):
    run: str = Field(max_length=_LONGEST, description="The id of a run, the beginning of one, or 'last'.")
    metric: list[Pattern] = Field([], description="Only these metrics.")


class ObservationItem(Answer):
    """`details`: what else is known of it, in words."""

    stage: Shown
    figure: Figure
    details: list[Fact]


class ObservationPage(Answer):
    """`metrics`: how many observations there are of each."""

    total: int
    offset: int
    rows: list[ObservationItem]
    metrics: list[FacetValue]


def observations(context: Context, query: ObservationsQuery) -> ObservationPage:
    run = context.store.run(query.run)
    by_stage = context.store.observations_by_stage(run.id)
    stage_of = {id(observation): stage for stage, found in by_stage.items() for observation in found}
    known = judged_right(run, [observation for found in by_stage.values() for observation in found])
    counts = Counter(observation.metric for observation in known)
    fitting = [observation for observation in known if not query.metric or observation.metric in query.metric]
    return ObservationPage(
        total=len(fitting),
        offset=query.offset,
        rows=[
            ObservationItem(
                stage=stage_of[id(observation)], figure=figure_of(observation), details=_facts(observation.details)
            )
            for observation in fitting[query.offset : query.offset + query.limit]
        ],
        metrics=facet_of("metric", counts, query.metric).values,
    )


# --- what it answered


class PredictionsQuery(Paged):
    run: str = Field(max_length=_LONGEST, description="The id of a run, the beginning of one, or 'last'.")
    other: str = Field("", max_length=_LONGEST, description="Another run on the same inputs, to be shown beside it.")
    order: AnswerOrder = Field(AnswerOrder.INDEX, description="Which inputs come first.")
    shown: AnswersShown = Field(AnswersShown.ALL, description="Which inputs are listed.")


class PredictedAnswer(Answer):
    """What one run answered. `answer` is the number of the class; null where it answers no classes. `right`: null where
    nobody knows."""

    words: Shown
    answer: int | None
    score: float | None
    right: bool | None


class PredictionItem(Answer):
    """One input. `truth` is the name of its class, empty where the data do not say; `label_score` is the probability
    that the run gave to it. `agreement`: with the other run, between 0 and 1."""

    index: int
    input: Shown
    label: int | None
    truth: Shown
    ours: PredictedAnswer
    theirs: PredictedAnswer | None
    label_score: float | None
    agreement: float | None


class PredictionPage(Answer):
    """`total` inputs are listed, of `inputs` that were answered; `unknown` of them stand last, because what they are
    sorted by is not known."""

    run: str
    other: str
    total: int
    inputs: int
    offset: int
    unknown: int
    rows: list[PredictionItem]


def predictions(context: Context, query: PredictionsQuery) -> PredictionPage:
    run = context.store.measured_run(query.run, ANSWERING_KINDS)
    other = context.store.measured_run(query.other, ANSWERING_KINDS) if query.other else None
    page = page_of_answers(
        context.answers, run, other, order=query.order, shown=query.shown, limit=query.limit, offset=query.offset
    )
    return PredictionPage(
        run=run.id,
        other="" if other is None else other.id,
        total=page.total,
        inputs=page.inputs,
        offset=query.offset,
        unknown=page.unknown,
        rows=[_prediction(row) for row in page.rows],
    )


def _prediction(row: AnswerRow) -> PredictionItem:
    return PredictionItem(
        index=row.index,
        input=row.input,
        label=row.label,
        truth=row.truth,
        ours=_answered(row.ours),
        theirs=None if row.theirs is None else _answered(row.theirs),
        label_score=row.label_score,
        agreement=row.agreement,
    )


def _answered(side: SideAnswer) -> PredictedAnswer:
    return PredictedAnswer(words=side.words, answer=side.answer, score=side.score, right=side.right)


# --- what runs can be sorted by


class FiguresQuery(Query):
    pass


class SortableFigures(Answer):
    """The metrics of the store and their scopes, but for those of single classes, single epochs and pairs of runs."""

    rows: list[SortChoice]


def sortable_figures(context: Context, _: FiguresQuery) -> SortableFigures:
    return SortableFigures(
        rows=[
            SortChoice(value=f"{metric}@{scope}" if scope else metric, metric=metric, scope=scope)
            for metric, scope in figures_stored(context.store)[:MOST_ROWS]
        ]
    )


ENDPOINTS: Final = (
    Endpoint("/runs", "Runs of the store, by filters, facets and figures", RunsQuery, RunList, runs),
    Endpoint("/runs/{run}", "One run with its figures", RunQuery, RunDetail, run_detail),
    Endpoint("/runs/{run}/observations", "What a run found", ObservationsQuery, ObservationPage, observations),
    Endpoint(
        "/runs/{run}/predictions", "What a run answered, input by input", PredictionsQuery, PredictionPage, predictions
    ),
    Endpoint("/figures", "What runs can be sorted by", FiguresQuery, SortableFigures, sortable_figures),
)
