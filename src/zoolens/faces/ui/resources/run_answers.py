"""/runs/{run}/predictions and what is made of them: confusion, calibration, classes.

Where one of them cannot be told, as without labels, the answer says why.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, TypeVar

import numpy as np
from pydantic import Field

from zoolens.base.errors import StoreError, ZoolensError
from zoolens.base.present.charts import Chart, Spec, themed
from zoolens.base.present.figures import probability, with_interval
from zoolens.base.present.tables import Table
from zoolens.base.store.records import ANSWERING_KINDS, Observation, Run
from zoolens.base.store.scopes import Dimension, parse_scope
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, Paged, Query, RunName, Shown
from zoolens.faces.ui.page_figures import Figure, figure_of
from zoolens.faces.ui.resources.run_drawings import DrawnItem, drawn_item
from zoolens.faces.ui.resources.runs import LONGEST
from zoolens.faces.ui.word_tables import WordTable, word_table
from zoolens.findings.comparisons.answer_pages import (
    AnswerOrder,
    AnswerRow,
    AnswersShown,
    AnswersWithin,
    SideAnswer,
    page_of_answers,
)
from zoolens.findings.comparisons.signatures import Signature, task_of
from zoolens.findings.measure.class_order import judged_right
from zoolens.findings.measure.confusion import confusion_chart, confusion_of, pairs_table
from zoolens.findings.measure.metrics.calibration import BINS
from zoolens.findings.measure.reliability import bins_table, reliability_chart, reliability_of
from zoolens.inventory.manifests.schema_texts import PREDICTING
from zoolens.inventory.tasks.task import task_named

MOST_CLASSES: Final = 2000  # that are listed
_RECALL: Final = "recall"  # the figure of each class of a classifier
_LARGEST: Final = 1 << 31

Described = TypeVar("Described")


class AnsweringRunQuery(Query):
    run: RunName


# --- input by input


class PredictionsQuery(Paged):
    run: RunName
    other: str = Field("", max_length=LONGEST, description="Another run on the same inputs, to be shown beside it.")
    order: AnswerOrder = Field(AnswerOrder.INDEX, description="Which inputs come first.")
    shown: AnswersShown = Field(AnswersShown.ALL, description="Which inputs are listed.")
    label: int | None = Field(None, ge=0, lt=_LARGEST, description="Only inputs of the class with this number.")
    answer: int | None = Field(None, ge=0, lt=_LARGEST, description="Only inputs that the run gives this class.")
    bin: int | None = Field(None, ge=0, lt=BINS, description="Only inputs in this bin of the run's calibration.")


class ScoredClass(Answer):
    """A class and its score."""

    number: int
    name: Shown
    score: float
    words: Shown
    """The score in percent."""


class PredictedAnswer(Answer):
    """What one run answered."""

    words: Shown
    answer: int | None
    """`answer` is the number of the class; null where it answers no classes."""
    score: float | None
    right: bool | None
    """Whether the answer is right; null without a label."""
    best: list[ScoredClass]
    """The classes with the highest scores, as far as they were kept."""
    judged: float | None
    """How right the answer is, between 0 and 1, of a task whose truth is no class; null: not known."""
    judged_words: Shown
    drawn: DrawnItem | None


class PredictionItem(Answer):
    """One input."""

    index: int
    input: Shown
    label: int | None
    truth: Shown
    """`truth` is the name of its class, or what else is right in words; empty where the dataset does not say."""
    ours: PredictedAnswer
    theirs: PredictedAnswer | None
    label_score: float | None
    """`label_score` is the probability that the run gave to it."""
    label_words: Shown
    agreement: float | None
    """The agreement with the other run, between 0 and 1."""
    agreement_words: Shown
    right: DrawnItem | None
    """What is right, where that can be drawn."""


class PredictionPage(Answer):
    """`total` inputs are listed, of `inputs` that were answered; `unknown` of them stand last, because what they are
    sorted by is not known."""

    run: str
    other: str
    total: int
    inputs: int
    offset: int
    unknown: int
    bin: Shown
    """The range of confidence that was asked for, in words."""
    foresees: bool
    """Whether it is a language model, whose texts /runs/{run}/tokens has token by token."""
    rows: list[PredictionItem]


def predictions(context: Context, query: PredictionsQuery) -> PredictionPage:
    run = context.store.measured_run(query.run, ANSWERING_KINDS)
    other = context.store.measured_run(query.other, ANSWERING_KINDS) if query.other else None
    page = page_of_answers(
        context.answers,
        run,
        other,
        order=query.order,
        shown=query.shown,
        within=AnswersWithin(query.label, query.answer, query.bin),
        page=slice(query.offset, query.offset + query.limit),
    )
    return PredictionPage.of(
        page,
        run=run.id,
        other="" if other is None else other.id,
        offset=query.offset,
        foresees=task_of(run) == PREDICTING,
        bin="" if query.bin is None else f"{100 * query.bin / BINS:.1f} to {100 * (query.bin + 1) / BINS:.1f} %",
        rows=[_prediction(row) for row in page.rows],
    )


def _prediction(row: AnswerRow) -> PredictionItem:
    return PredictionItem.of(
        row,
        ours=_answered(row.ours),
        theirs=None if row.theirs is None else _answered(row.theirs),
        label_words="" if row.label_score is None else probability(row.label_score),
        agreement_words="" if row.agreement is None else probability(row.agreement),
        right=drawn_item(row.truth_drawing),
    )


def _answered(side: SideAnswer) -> PredictedAnswer:
    best = [ScoredClass.of(ranked, words=probability(ranked.score)) for ranked in side.best]
    judged = "" if side.judged is None else probability(side.judged)
    return PredictedAnswer.of(side, best=best, judged_words=judged, drawn=drawn_item(side.drawing))


# --- which classes are confused, and whether the run knows when it is wrong


class ClassPair(Answer):
    """The numbers of two classes, as `label` and `answer` of a list of predictions take them."""

    label: int
    answer: int


class ChartedAnswers(Answer):
    """A chart of a run's answers, and its numbers as a table."""

    reason: Shown
    """Why there is none."""
    title: Shown
    chart: Spec | None
    table: WordTable | None


class RunConfusion(ChartedAnswers):
    """`pairs` are the rows of `table`, in the same order."""

    pairs: list[ClassPair]


class RunCalibration(ChartedAnswers):
    """`table` has a row for each bin; its place is the number of the bin."""

    ece: Shown
    """The expected calibration error with its interval."""


def confusion(context: Context, query: AnsweringRunQuery) -> RunConfusion:
    def describe(answers: Signature) -> RunConfusion:
        confused = confusion_of(answers)
        pairs = [ClassPair.of(pair) for pair in confused.pairs]

        return RunConfusion(**_charted(confusion_chart(confused), pairs_table(confused)), pairs=pairs)

    return _described(context, query, describe, lambda reason: RunConfusion(**_uncharted(reason), pairs=[]))


def calibration(context: Context, query: AnsweringRunQuery) -> RunCalibration:
    def describe(answers: Signature) -> RunCalibration:
        reliability = reliability_of(answers)
        charted = _charted(reliability_chart(reliability), bins_table(reliability))
        return RunCalibration(**charted, ece=with_interval(reliability.ece))

    return _described(context, query, describe, lambda reason: RunCalibration(**_uncharted(reason), ece=""))


def _charted(chart: Chart, table: Table) -> dict[str, Any]:
    """The fields of `ChartedAnswers`."""
    return {"reason": "", "title": chart.title, "chart": themed(chart), "table": word_table(table)}


def _uncharted(reason: str) -> dict[str, Any]:
    return {"reason": reason, "title": "", "chart": None, "table": None}


def _described(
    context: Context,
    query: AnsweringRunQuery,
    describe: Callable[[Signature], Described],
    refuse: Callable[[str], Described],
) -> Described:
    """What `describe` makes of the answers of a run, or what `refuse` makes of the reason why there are none."""
    run = context.store.run(query.run)
    try:
        context.store.measured_run(run.id, ANSWERING_KINDS)
        return describe(context.answers.answers(run))
    except StoreError:
        raise
    except ZoolensError as error:
        return refuse(str(error))


# --- class by class


class ClassSort(StrEnum):
    NUMBER = "number"
    RECALL = "recall"  # the lowest figure of the class first
    INPUTS = "inputs"  # the most first
    ANSWERED = "answered"  # the most first


class ClassesQuery(AnsweringRunQuery):
    order: ClassSort = Field(ClassSort.NUMBER, description="Which classes come first.")


class ClassItem(Answer):
    """`inputs` of this class, and how many inputs were `answered` with it; null where an answer is no class."""

    number: int
    name: Shown
    inputs: int | None
    answered: int | None
    figure: Figure | None
    """The recall of the class, or what else its task tells of each class; null where it is not stored."""


class ClassList(Answer):
    """Classes that are a label or an answer of at least one input, or that have a figure of their own: `total` of them,
    of which no more than 2,000 are given."""

    reason: Shown
    """Why there are none."""
    metric: Shown
    """Which figure the classes have."""
    scored: bool
    """Whether the scores of the answers were kept, so that inputs can be sorted by them."""
    judged: bool
    """Whether the answers are no classes, and each of them has a score of its own that inputs can be sorted by."""
    foresees: bool
    """Whether it is a language model, whose texts are sorted by bits per byte."""
    total: int
    rows: list[ClassItem]


def classes(context: Context, query: ClassesQuery) -> ClassList:
    def describe(answers: Signature) -> ClassList:
        task = task_named(answers.main.task)
        if not task.discrete:
            judged = task.truth is not None and task.judged and answers.labelled
            reason = f"{answers.model} does {task.name}: it answers no class."
            metric, items = _classes_of_task(answers, _class_figures(context, answers.run))
            foresees = task.name == PREDICTING
            return _listed("" if items else reason, metric, items, query.order, judged=judged, foresees=foresees)
        items = _classes(answers, _class_figures(context, answers.run, _RECALL))
        scored = bool(np.isfinite(answers.score[:, 0]).any())
        return _listed("", _RECALL, items, query.order, scored=scored)

    def refuse(reason: str) -> ClassList:
        return _listed(reason, "", [], query.order)

    return _described(context, query, describe, refuse)


def _listed(
    reason: str,
    metric: str,
    items: list[ClassItem],
    order: ClassSort,
    *,
    scored: bool = False,
    judged: bool = False,
    foresees: bool = False,
) -> ClassList:
    return ClassList(
        reason=reason,
        metric=metric,
        scored=scored,
        judged=judged,
        foresees=foresees,
        total=len(items),
        rows=sorted(items, key=_KEYS[order])[:MOST_CLASSES],
    )


def _class_figures(context: Context, run: Run, metric: str = "") -> dict[int, Observation]:
    """The figures of single classes by the number of the class: those of a metric, or of the first that has any."""
    known = judged_right(run, context.store.observations(run.id))
    scopes = [(observation, parse_scope(observation.scope)) for observation in known]
    of_classes = [(found, scope) for found, scope in scopes if scope.dimension is Dimension.CLASS]
    chosen = metric or next((found.metric for found, _ in of_classes), "")
    return {scope.number: found for found, scope in of_classes if scope.number is not None and found.metric == chosen}


def _classes_of_task(answers: Signature, figures: dict[int, Observation]) -> tuple[str, list[ClassItem]]:
    """What a task whose answers are no classes tells of each class."""
    items = [
        ClassItem(
            number=number,
            name=answers.class_name(number),
            inputs=None,
            answered=None,
            figure=figure_of(found),
        )
        for number, found in figures.items()
    ]
    return next((found.metric for found in figures.values()), ""), items


def _classes(answers: Signature, recalls: dict[int, Observation]) -> list[ClassItem]:
    given, labels = np.asarray(answers.answers), answers.labels[answers.labels >= 0]
    size = int(max(given.max(initial=-1), labels.max(initial=-1))) + 1
    inputs, answered = (np.bincount(numbers, minlength=size).tolist() for numbers in (labels, given))
    return [
        ClassItem(
            number=number,
            name=answers.class_name(number),
            inputs=inputs[number],
            answered=answered[number],
            figure=figure_of(recalls[number]) if number in recalls else None,
        )
        for number in range(size)
        if inputs[number] or answered[number]
    ]


_KEYS: Final[dict[ClassSort, Callable[[ClassItem], tuple[float, int]]]] = {
    ClassSort.NUMBER: lambda item: (0, item.number),
    ClassSort.RECALL: lambda item: (
        2.0 if item.figure is None or item.figure.value is None else item.figure.value,
        item.number,
    ),
    ClassSort.INPUTS: lambda item: (-(item.inputs or 0), item.number),
    ClassSort.ANSWERED: lambda item: (-(item.answered or 0), item.number),
}


ENDPOINTS: Final = (
    Endpoint("/runs/{run}/predictions", "What a run answered, input by input", predictions),
    Endpoint("/runs/{run}/confusion", "Which classes a run confuses", confusion),
    Endpoint("/runs/{run}/calibration", "Calibration of a run", calibration),
    Endpoint("/runs/{run}/classes", "The classes of a run, each with its figure", classes),
)
