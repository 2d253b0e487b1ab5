"""A run as a page: its figures with intervals, the classes it confuses, how well it knows itself, how long it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from zoolens.base.errors import ZoolensError
from zoolens.base.present.figures import class_words, provenance_mark, stack_label, with_interval
from zoolens.base.present.metric_words import figure_title, important_first, metric_title, scope_title
from zoolens.base.present.pages import Page, Section, Tile
from zoolens.base.present.tables import Column, Table
from zoolens.base.store.records import GUESSED, Observation, Run
from zoolens.base.store.scopes import Dimension, parse_scope
from zoolens.base.store.store import Store
from zoolens.findings.measure.answers import has_answers, judged_predictions
from zoolens.findings.measure.class_order import JUDGED_WRONGLY, judged_right
from zoolens.findings.measure.confusion import confusion_chart, confusion_of
from zoolens.findings.measure.generation_table import generation_table
from zoolens.findings.measure.latency_chart import latency_distribution_chart, latency_distributions
from zoolens.findings.measure.reliability import reliability_chart, reliability_of
from zoolens.findings.measure.run_data import ACCURACY, judged_observation, judging_beside, main_metric
from zoolens.inventory.catalog.stored import guessed_of, guesses_in_words
from zoolens.inventory.tasks.task import task_named

_TILES: Final = ("latency_p50", "latency_first_token", "decode_speed", "file_size", "peak_memory")
_FIGURES: Final = (
    Column("metric", "key"), Column("of"), Column("value", "number"), Column("n", "number"), Column("why"),
)  # fmt: skip
_CLASSES: Final = (Column("class"), Column("metric"), Column("value", "number"))


def run_page(store: Store, run: Run) -> Page:
    """What a stored run found, with a picture of whatever can be pictured."""
    stored = store.observations(run.id)
    observations = judged_right(run, stored)
    misjudged = (f"Its accuracy is not shown: {JUDGED_WRONGLY}.",) if len(observations) < len(stored) else ()
    guessed = guessed_of(run) if any(each.details.get(GUESSED) for each in observations) else ()
    unchecked = (f"Guessed: {guesses_in_words(guessed)}.",) if guessed else ()
    failed = [f"{name}: failed: {error}" for name, error in run.failures.items()]
    return Page(
        run.ref,
        f"{run.inputs:,} inputs of {run.dataset.name} in {stack_label(run)}, {run.created:%Y-%m-%d %H:%M} UTC, "
        f"run {run.id[:8]}.",
        tiles=tuple(run_tiles(run, observations)),
        sections=(
            *([Section(warnings=unchecked)] if unchecked else ()),
            *_answers(store, run),
            *_classes(run, observations),
            *_latencies(store, run),
            *_speeds(observations),
            Section("Figures", warnings=(*misjudged, *failed), tables=(("", figures_table(observations)),)),
        ),
    )


def run_tiles(run: Run, observations: Sequence[Observation]) -> Iterator[Tile]:
    """The figures that stand for a run, each of all inputs or of the smallest batch."""
    standing = judged_observation(run, observations)
    judged = main_metric(run) if standing is None else standing.metric
    for metric in dict.fromkeys((*judging_beside(judged), *_TILES)):
        known = [each for each in observations if each.metric == metric and not _detail(each)]
        first = min(known, key=lambda each: (len(each.scope), each.scope), default=None)
        if first is not None and first.value is not None:
            yield Tile(with_interval(first), figure_title(metric, first.scope))


def _detail(observation: Observation) -> bool:
    scope = parse_scope(observation.scope)
    return scope.raw or scope.dimension in (Dimension.CLASS, Dimension.EPOCH)


def _answers(store: Store, run: Run) -> Iterator[Section]:
    """Sections about answers that are classes. What cannot be told of this run, as of one without labels, is said in a
    sentence."""
    if not has_answers(run):
        return
    try:
        predictions = judged_predictions(store, run)
        if not task_named(predictions.main.task).discrete:
            return
        chart = confusion_chart(confusion_of(predictions))
    except ZoolensError as error:
        yield Section("Answers", paragraphs=(str(error.message),))
        return
    yield Section("Confusion matrix", charts=(chart,))
    try:
        yield Section("Calibration", charts=(reliability_chart(reliability_of(predictions)),))
    except ZoolensError as error:
        yield Section("Calibration", paragraphs=(str(error.message),))


def _classes(run: Run, observations: Sequence[Observation]) -> Iterator[Section]:
    """What a task whose answers are no classes tells of each class; a classifier's are in the confusion matrix."""
    scopes = [(each, parse_scope(each.scope)) for each in observations]
    of_classes = [each for each, scope in scopes if scope.dimension is Dimension.CLASS and each.value is not None]
    if main_metric(run) == ACCURACY or not of_classes:
        return
    lowest = sorted(of_classes, key=lambda each: each.value or 0.0)
    rows = [(class_words(each), metric_title(each.metric), with_interval(each)) for each in lowest]
    yield Section("Classes", ("The lowest first.",), tables=(("", Table("classes", _CLASSES, tuple(rows))),))


def _latencies(store: Store, run: Run) -> Iterator[Section]:
    charts = tuple(map(latency_distribution_chart, latency_distributions(store, run)))
    if charts:
        yield Section("Latency", charts=charts)


def _speeds(observations: Sequence[Observation]) -> Iterator[Section]:
    table = generation_table(observations)
    if table.rows:
        yield Section("Reading and writing", tables=(("", table),))


def figures_table(observations: Sequence[Observation]) -> Table:
    """The figures that matter most first: all observations but those of single classes and epochs, and raw timings."""
    rows = [
        (
            metric_title(each.metric),
            scope_title(each.scope),
            f"{with_interval(each)}{provenance_mark(each)}",
            each.n,
            str(each.details.get("reason", "")) if each.value is None else "",
        )
        for each in important_first(observations)
        if not _detail(each)
    ]
    return Table("figures", _FIGURES, tuple(rows))
