"""/runs/{run}: one run with its figures, everything that it found, its timings, and all of it as a file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from pydantic import Field

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.present.charts import Spec, themed
from zoolens.base.present.metric_words import important_first
from zoolens.base.store.json_columns import as_plain
from zoolens.base.store.records import (
    ANSWERING_KINDS,
    GUESSED,
    MEASURED_KINDS,
    WITH_NETWORK,
    Observation,
    Run,
    RunKey,
    is_disturbed,
)
from zoolens.base.store.run_columns import RunState
from zoolens.base.store.scopes import Dimension, parse_scope
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import MOST_ROWS, Answer, Endpoint, File, Paged, Query, RowPage, RunName, Shown
from zoolens.faces.ui.facets import FacetValue, facet_of
from zoolens.faces.ui.model_index import run_task
from zoolens.faces.ui.page_figures import Figure, TileItem, figure_of, tile_items
from zoolens.faces.ui.resources.runs import Fact, Pattern, RunItem, run_item
from zoolens.faces.ui.word_tables import WordTable, word_table
from zoolens.findings.measure.answers import has_answers
from zoolens.findings.measure.class_order import judged_right
from zoolens.findings.measure.evaluation_page import run_tiles
from zoolens.findings.measure.generation_table import generation_table
from zoolens.findings.measure.latency_chart import latency_distribution_chart, latency_distributions, latency_table
from zoolens.findings.measure.run_data import run_data
from zoolens.findings.measure.suspicions import remarks, suspicions
from zoolens.inventory.catalog.stored import guessed_of, guesses_in_words
from zoolens.inventory.manifests.schema_texts import PREDICTING
from zoolens.inventory.tasks.task import DEFAULT_TASK, task_named

_MOST_ATTEMPTS: Final = 50
_MOST_WORDS: Final = 50  # of a list in a fact
_AGAIN: Final = {
    RunState.FAILED: "Once that is fixed, the same `zoolens eval` again measures what is missing, and nothing twice.",
    RunState.BEGUN: "Whether it is still at work is not stored. If it is not, the same `zoolens eval` again goes on "
    "where it stopped.",
}


class RunQuery(Query):
    run: RunName


class StageItem(Answer):
    stage: Shown
    done: bool
    error: Shown
    updated: datetime


class RunAttempt(Answer):
    """A repetition of the same model on the same dataset in the same environment."""

    id: str
    attempt: int
    created: datetime


class RunDetail(Answer):
    """One run with its figures and what it was measured with."""

    run: RunItem
    model_fingerprint: str
    data_fingerprint: str
    precision: Shown
    tiles: list[TileItem]
    notes: list[Shown]
    """Caveats about the figures."""
    advice: Shown
    """What to do about a run that is not finished."""
    stages: list[StageItem]
    figures: list[Figure]
    """`figures` are those of the whole run, of each batch size and of each context length; those of single classes, of
    epochs and the like are further observations, of which there are `observations` in all."""
    observations: int
    environment: list[Fact]
    """`environment` is what can change an answer or a time, `resolved` what only the open model knew, `origin` where
    model and dataset were found."""
    resolved: list[Fact]
    origin: list[Fact]
    task: Shown
    """What its main output does; empty where the run does not say it."""
    of_classes: bool
    """Whether an answer is one class, so that classes can be confused and confidence can be calibrated."""
    has_classes: bool
    """Whether anything is known of single classes."""
    answered: bool
    """Whether the run has predictions."""
    attempts: list[RunAttempt]
    """This run and its repetitions, where there are any."""


def run_detail(context: Context, query: RunQuery) -> RunDetail:
    run = context.store.run(query.run)
    stored = context.store.observations(run.id)
    known = judged_right(run, stored)
    item = run_item(run, stored)
    task = run_task(run)
    of_classes = run.kind in ANSWERING_KINDS and _of_classes(task)
    return RunDetail(
        run=item,
        model_fingerprint=run.model.fingerprint,
        data_fingerprint=run.dataset.fingerprint,
        precision=run.precision or "",
        tiles=tile_items(run_tiles(run, known)),
        notes=list(_notes(context, run, known)),
        advice=_AGAIN.get(item.state, "") if run.kind in MEASURED_KINDS else "",
        stages=[StageItem.of(state, stage=name) for name, state in context.store.stages(run.id).items()],
        figures=[figure_of(observation) for observation in important_first(known) if _of_run(observation)][:MOST_ROWS],
        observations=len(known),
        environment=facts_of(run.stack.identity),
        resolved=facts_of({name: value for name, value in run.resolved.items() if name not in ("origin", "outputs")}),
        origin=facts_of({name: value for name, value in run.origin.items() if name not in ("manifest", "classes")}),
        task=task,
        of_classes=of_classes,
        has_classes=of_classes or any(_dimension(each) is Dimension.CLASS for each in known),
        answered=has_answers(run),
        attempts=_attempts(context, run),
    )


def _of_classes(task: str) -> bool:
    try:
        return task_named(task or DEFAULT_TASK).discrete
    except UnknownName:
        # The plug-in that brought the task is not installed here.
        return False


def _notes(context: Context, run: Run, known: Sequence[Observation]) -> Iterator[str]:
    drawn_from = run.dataset.details.get("drawn_from")
    if isinstance(drawn_from, int):
        yield f"It is about a part of the dataset: {run.inputs:,} of {drawn_from:,} inputs."
    if any(observation.details.get(GUESSED) for observation in known):
        words = guesses_in_words(guessed_of(run))
        yield f"{words[0].upper()}{words[1:]}."
    if any(map(is_disturbed, known)):
        yield ("Machine load was high: timings marked (disturbed) are of all calls, because too few were undisturbed.")
    if any(WITH_NETWORK in observation.details for observation in known):
        yield "A server answered: timings marked (with network) hold the way to it."
    outputs = run.resolved.get("outputs")
    if isinstance(outputs, list) and len(outputs) > 1:
        name = outputs[0].get("name") if isinstance(outputs[0], Mapping) else None
        yield (
            f"It has {len(outputs)} outputs. What the page says of single inputs and classes is about the first"
            f"{f', {name}' if name else ''}; Compare looks at all of them."
        )
    if run.kind in MEASURED_KINDS and has_answers(run):
        try:
            answers = context.answers.answers(run)
            yield from (f"This cannot be right: {words}." for words in suspicions(answers))
            yield from (f"{words}." for words in remarks(answers))
        except ZoolensError:  # answers that are no classes, or cannot be read: the parts about answers say why
            return


def _attempts(context: Context, run: Run) -> list[RunAttempt]:
    """This run and its repetitions; none where there is but one."""
    key = run.key
    count = context.store.next_attempt(key.model, key.dataset, key.stack)
    if count < 2:
        return []
    last = range(max(0, count - _MOST_ATTEMPTS), count)
    ids = {RunKey(key.model, key.dataset, key.stack, number).id for number in last} | {run.id}
    repeated = sorted(context.store.runs_of(list(ids)), key=lambda other: other.key.attempt)
    return [RunAttempt.of(other, attempt=other.key.attempt) for other in repeated]


def _of_run(observation: Observation) -> bool:
    return _dimension(observation) in (None, Dimension.BATCH, Dimension.CONTEXT)


def _dimension(observation: Observation) -> Dimension | None:
    return parse_scope(observation.scope).dimension


def facts_of(data: Mapping[str, Any], before: str = "") -> list[Fact]:
    """A nested mapping as lines, as many as a page can show."""
    facts: list[Fact] = []
    for name, value in data.items():
        if isinstance(value, Mapping):
            facts += facts_of(value, f"{before}{name} ")
        elif value not in (None, "", [], ()):
            words = _listed(value) if isinstance(value, list | tuple) else str(value)
            facts.append(Fact(name=f"{before}{name}", value=words))
        if len(facts) >= MOST_ROWS:
            break
    return facts[:MOST_ROWS]


def _listed(values: Sequence[Any]) -> str:
    words = ", ".join(map(str, values[:_MOST_WORDS]))
    return words if len(values) <= _MOST_WORDS else f"{words}, … ({len(values):,} in all)"


# --- everything that it found


class ObservationsQuery(Paged):
    run: RunName
    metric: list[Pattern] = Field([], description="Only these metrics.")


class ObservationItem(Answer):
    """One thing that a run found."""

    stage: Shown
    figure: Figure
    details: list[Fact]
    """Further facts about the observation, in words."""


class ObservationPage(RowPage[ObservationItem]):
    """Some of the observations of a run."""

    metrics: list[FacetValue]
    """How many observations there are of each metric."""


def observations(context: Context, query: ObservationsQuery) -> ObservationPage:
    run = context.store.run(query.run)
    by_stage = context.store.observations_by_stage(run.id)
    known = [(stage, found) for stage, several in by_stage.items() for found in judged_right(run, several)]
    counts = Counter(observation.metric for _, observation in known)
    fitting = [(stage, found) for stage, found in known if not query.metric or found.metric in query.metric]
    return ObservationPage(
        total=len(fitting),
        offset=query.offset,
        rows=[
            ObservationItem(stage=stage, figure=figure_of(observation), details=facts_of(observation.details))
            for stage, observation in fitting[query.page]
        ],
        metrics=facet_of("metric", counts, query.metric).values,
    )


# --- how long its calls took


class LatencyChart(Answer):
    title: Shown
    chart: Spec


class RunLatency(Answer):
    """A chart for each batch size that the run was timed with; none where it was not."""

    charts: list[LatencyChart]
    table: WordTable
    writing: WordTable | None
    """How fast a language model reads and writes, by context length; null where that was not measured."""
    writes: bool
    """Whether it is a language model, which `zoolens eval` times at context lengths."""


def latency(context: Context, query: RunQuery) -> RunLatency:
    run = context.store.run(query.run)
    distributions = list(latency_distributions(context.store, run))
    charts = [latency_distribution_chart(distribution) for distribution in distributions]
    speeds = generation_table(context.store.observations(run.id))
    return RunLatency(
        charts=[LatencyChart(title=chart.title, chart=themed(chart)) for chart in charts],
        table=word_table(latency_table(distributions)),
        writing=word_table(speeds) if speeds.rows else None,
        writes=run_task(run) in (PREDICTING, *task_named(PREDICTING).by_truth.values()),
    )


# --- as a file


def as_file(context: Context, query: RunQuery) -> File:
    run = context.store.run(query.run)
    data = run_data(run, context.store.stages(run.id), context.store.observations(run.id))
    text = json.dumps(data, indent=2, ensure_ascii=False, default=as_plain)
    return File(text.encode(), "application/json", f"run-{run.id}.json")


ENDPOINTS: Final = (
    Endpoint("/runs/{run}", "One run with its figures", run_detail),
    Endpoint("/runs/{run}/observations", "What a run found", observations),
    Endpoint("/runs/{run}/latency", "How long the calls of a run took", latency),
    Endpoint("/runs/{run}/json", "All of a run as a file, as `zoolens runs show --json` prints it", as_file),
)
