"""/comparison: two runs on the same inputs. What each answered to each input is at /runs/{run}/predictions?other=."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, Literal

from pydantic import Field

from zoolens.base.present.charts import Spec, drawn_spec
from zoolens.base.present.figures import class_words, p_value, percent, stack_label, with_interval
from zoolens.base.present.metric_words import metric_title, scope_title
from zoolens.base.statistics.intervals import Interval
from zoolens.base.store.records import ANSWERING_KINDS, Observation, Run
from zoolens.base.store.scopes import is_of_part
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import MOST_ROWS, Answer, Endpoint, NotFound, Query, Shown
from zoolens.faces.ui.jobs.outputs import printed_by
from zoolens.faces.ui.page_figures import Figure, TileItem, figure_of, tile_items
from zoolens.faces.ui.verdict_items import VerdictItem, verdict_item
from zoolens.findings.comparisons.compare import ClassChange, FigurePair, Report, compare_runs, verdict_of_report
from zoolens.findings.comparisons.report_charts import figures_chart, flips_chart, key_figures
from zoolens.findings.comparisons.report_page import (
    UNJUDGED,
    change_words,
    class_figures,
    tiles,
    unchecked_sides,
    verdict,
)
from zoolens.findings.comparisons.wording import agreement_words, metric_words, silence_words, uncompared_words
from zoolens.findings.queries.planning.metrics import higher_is_better

_LONGEST: Final = 200  # letters of a run's name
_MOST_CLASSES: Final = 50
_MOST_SENTENCES: Final = 20

Outcome = Literal["both right", "only A right", "only B right", "both wrong", "same answer", "different answers"]


class ComparisonQuery(Query):
    a: str = Field(max_length=_LONGEST, description="The id of a run, the beginning of one, or 'last'.")
    b: str = Field(max_length=_LONGEST, description="Another run on the same inputs.")


class ComparedRun(Answer):
    """One of the two runs of a comparison."""

    id: str
    created: datetime
    model: Shown
    stack: Shown
    precision: Shown
    """The precision in effect; empty where it is unknown."""


class ComparedDifference(Answer):
    """B − A on the same inputs, by the metric that judges the task, with its 95 % interval."""

    metric: Shown
    """In words."""
    more_is_better: bool
    """Not of errors: where B has more of them, A is better."""
    value: float
    low: float
    high: float
    unit: Shown
    """Points for shares; empty where the metric is no share."""
    clear: bool
    """Whether the interval leaves 0 out."""
    p: Shown
    """The p-value of the test that was made; empty where none was."""


class OutcomeCount(Answer):
    """How many inputs ended in one way, such as "only A correct"."""

    outcome: Outcome
    inputs: int
    share: Shown


class ComparedFigure(Answer):
    """One figure of both runs; null where one of them lacks it."""

    metric: Shown
    scope: Shown
    title: Shown
    """The metric in words, and `part` likewise what the figure is of."""
    part: Shown
    a: Figure | None
    b: Figure | None
    change: Shown
    """How much B is above A, in words."""
    overlap: bool | None
    """Whether the intervals of two figures that are no shares overlap; null where it is not known, and for shares,
    which are of the same inputs and are therefore judged in pairs."""


class ComparedClass(Answer):
    """A class of which the two runs have different figures."""

    name: Shown
    inputs: int | None
    """The inputs of this class; null where an input may hold several classes."""
    a: Shown
    b: Shown
    change: Shown
    p: Shown
    """The p-value of the exact McNemar test on the inputs of this class alone; empty where none was made."""


class StackChange(Answer):
    """One fact about the environments or the manifests that differs."""

    what: Shown
    a: Shown
    b: Shown
    telling: bool
    """Whether the fact can change answers by itself."""


class Comparison(Answer):
    """What `zoolens compare` says of two runs."""

    a: ComparedRun
    b: ComparedRun
    dataset: Shown
    inputs: int
    verdict: Shown
    """How many answers differ, and whether the change of accuracy is more than chance."""
    judged: VerdictItem | None
    """The verdict with its coverage; null where both are one run."""
    tiles: list[TileItem]
    cautions: list[Shown]
    """What the comparison rests on that nobody has checked, or leaves out."""
    notes: list[Shown]
    cause: Shown
    """The likely cause; empty where nothing differs, or nothing that was recorded explains it."""
    cause_in_files: bool
    """Whether the cause is in the files of two models, which a job "compare" opens."""
    parts_by_stack: bool
    """Whether one model answers differently in two environments; a job "diverge" finds the layer."""
    answered: bool
    """Whether both have answers that can be listed side by side."""
    labelled: bool
    differing: int | None
    """Inputs with different answers; null where the answers are no classes."""
    difference: ComparedDifference | None
    """null where nothing judges both runs on the same inputs."""
    outcomes: list[OutcomeCount]
    """Every input of classifiers, by who was right; without labels, by whether the answers are the same."""
    key_figures: list[ComparedFigure]
    """The few figures that decide between two runs."""
    figures: list[ComparedFigure]
    figures_chart: Spec | None
    flips_chart: Spec | None
    class_metric: Shown
    """Which figure of each class `classes` have: the recall, the AP."""
    classes: list[ComparedClass]
    changed_classes: int
    """How many classes changed, of which `classes` are the clearest."""
    environment: list[StackChange]


def comparison(context: Context, query: ComparisonQuery) -> Comparison:
    a, b = (context.store.measured_run(name, ANSWERING_KINDS) for name in (query.a, query.b))
    report = compare_runs(context.store, a, b, open_files=False)
    answers = report.answers
    metric, changed = _changed_classes(report)
    return Comparison(
        a=_side(a),
        b=_side(b),
        dataset=a.dataset.name,
        inputs=a.inputs,
        verdict=verdict(report),
        judged=None if a.id == b.id else verdict_item(verdict(report) or UNJUDGED, verdict_of_report(report)),
        tiles=tile_items(tiles(report)),
        cautions=list(_cautions(report)),
        notes=list(_notes(report)),
        cause=report.cause or "",
        cause_in_files=report.differs and a.model.fingerprint != b.model.fingerprint,
        parts_by_stack=report.parts_by_stack,
        answered=answers is not None or bool(report.vectors),
        labelled=answers is not None and answers.labelled,
        differing=None if answers is None else len(answers.disagreements),
        difference=_difference(report),
        outcomes=_outcomes(report),
        key_figures=[_figure(pair) for pair in key_figures(report)],
        figures=list(_figures(report))[:MOST_ROWS],
        figures_chart=drawn_spec(figures_chart(report)),
        flips_chart=drawn_spec(flips_chart(report)),
        class_metric=metric_title(metric),
        classes=changed[:_MOST_CLASSES],
        changed_classes=len(changed),
        environment=[StackChange.of(line) for line in report.environment[:MOST_ROWS]],
    )


def _side(run: Run) -> ComparedRun:
    return ComparedRun.of(run, model=run.ref, stack=stack_label(run))


def _difference(report: Report) -> ComparedDifference | None:
    """B − A: of top-1 for classifiers; of the metric, or of the mean score, of the first output of other tasks."""
    answers = report.answers
    if answers is not None:
        return (
            _apart("top1", "fraction", answers.top1_change, answers.difference, answers.p_value)
            if answers.labelled
            else None
        )
    for change in report.vectors[:1]:
        metric = change.metric
        if metric is not None:
            return _apart(metric.name, metric.unit, metric.b - metric.a, metric.difference, metric.p_value)
        if change.score_a is not None and change.score_b is not None:
            return _apart("score", "", change.score_b - change.score_a, change.difference, None)
    return None


def _apart(
    metric: str, unit: str, value: float, interval: Interval | None, p: float | None
) -> ComparedDifference | None:
    if interval is None or not all(map(math.isfinite, (value, *interval))):
        return None
    scale, shown = (100.0, "points") if unit == "fraction" else (1.0, unit)
    low, high = (scale * end for end in interval)
    clear, words = low > 0 or high < 0, "" if p is None else p_value(p)
    return ComparedDifference(
        metric=metric_title(metric),
        more_is_better=higher_is_better(metric),
        value=scale * value,
        low=low,
        high=high,
        unit=shown,
        clear=clear,
        p=words,
    )


def _outcomes(report: Report) -> list[OutcomeCount]:
    answers = report.answers
    if answers is None:
        return []
    if not answers.labelled:
        return [
            _counted("same answer", answers.full, answers.n),
            _counted("different answers", len(answers.disagreements), answers.n),
        ]
    counts: dict[Outcome, int] = {
        "both right": answers.both_right, "only A right": answers.only_a, "only B right": answers.only_b,
        "both wrong": answers.both_wrong,
    }  # fmt: skip
    return [_counted(name, inputs, answers.n) for name, inputs in counts.items()]


def _counted(outcome: Outcome, inputs: int, n: int) -> OutcomeCount:
    return OutcomeCount(outcome=outcome, inputs=inputs, share=percent(inputs / n, 1))


def _changed_classes(report: Report) -> tuple[str, list[ComparedClass]]:
    """The figure that is told of each class, and the classes of which the two have different ones."""
    if report.answers is not None:
        return "recall", [_changed_recall(change) for change in report.answers.classes]
    figures = class_figures(report)
    return figures[0].metric if figures else "", [_changed_figure(pair) for pair in figures]


def _changed_recall(change: ClassChange) -> ComparedClass:
    a, b = percent(change.recall_a, 1), percent(change.recall_b, 1)
    points = f"{100 * (change.recall_b - change.recall_a):+.1f} pt".replace("-", "−")
    return ComparedClass(name=change.name, inputs=change.n, a=a, b=b, change=points, p=p_value(change.p_value))


def _changed_figure(pair: FigurePair) -> ComparedClass:
    a, b = with_interval(pair.a), with_interval(pair.b)
    return ComparedClass(name=class_words(pair.a), inputs=None, a=a, b=b, change=change_words(pair), p="")


def _figures(report: Report) -> Iterator[ComparedFigure]:
    """Yields the figures of both runs, then those that only one of them has; without those of single classes and the
    like."""
    for pair in report.figures:
        if not is_of_part(pair.scope):
            yield _figure(pair)
    for only_a, alone in ((True, report.only_a), (False, report.only_b)):
        for observation in alone:
            if not is_of_part(observation.scope):
                shown = figure_of(observation)
                sides = {"a": shown, "b": None} if only_a else {"a": None, "b": shown}
                yield ComparedFigure.of(observation, **_named(observation), **sides, change="", overlap=None)


def _figure(pair: FigurePair) -> ComparedFigure:
    a, b = figure_of(pair.a), figure_of(pair.b)
    return ComparedFigure.of(pair, **_named(pair), a=a, b=b, change=change_words(pair), overlap=_overlap(pair))


def _named(figure: FigurePair | Observation) -> dict[str, str]:
    return {"title": metric_title(figure.metric), "part": scope_title(figure.scope)}


def _overlap(pair: FigurePair) -> bool | None:
    a, b = pair.a, pair.b
    if pair.unit == "fraction" or a.low is None or a.high is None or b.low is None or b.high is None:
        return None
    return a.low <= b.high and b.low <= a.high


def _cautions(report: Report) -> Iterator[str]:
    yield from unchecked_sides(report)
    if report.answers is None and not report.vectors and not report.uncompared:
        yield "There are no answers to compare: at least one of the runs was measured without them (--no-accuracy)."
    if report.uncompared:
        yield uncompared_words(report.uncompared)


def _notes(report: Report) -> Iterator[str]:
    """What else there is to say of the answers."""
    answers = report.answers
    if answers is not None and answers.median_score_change is not None:
        yield (
            f"Where both give the same answer, its score changes by {answers.median_score_change:.2g} (median) and by "
            f"{answers.max_score_change:.2g} at most."
        )
    if answers is not None and (answers.ties_a or answers.ties_b):
        yield (
            f"The two best classes have exactly the same score for {answers.ties_a:,} inputs in A and for "
            f"{answers.ties_b:,} in B: the class with the lower number is taken for the answer."
        )
    for change in report.vectors:
        distance = ""
        if change.median_distance is not None:
            largest = f"{change.max_distance:.2g} at most"
            distance = f"; the relative distance is {change.median_distance:.2g} (median) and {largest}"
        yield (f"Output {change.output} ({change.task}): {agreement_words(change)} of {change.n:,} inputs{distance}.")
        if silence := silence_words(change.silent, change.n):
            yield f"{silence.capitalize()}, which counts as agreement."
        if change.score_a is not None and change.score_b is not None and change.difference is not None:
            low, high = change.difference
            yield (
                f"The mean score of {change.output} is {change.score_a:.4f} in A and {change.score_b:.4f} in B; "
                f"B − A is in [{low:+.4f}, {high:+.4f}]."
            )
        if change.metric is not None:
            yield f"{change.output}: {metric_words(change.metric)}."


# --- what a job found out about the two


class FindingQuery(ComparisonQuery):
    job: str = Field(max_length=50, description="The id of a job 'compare' or 'diverge' of these two runs.")


class JobFinding(Answer):
    """What the job says, in the sentences of its command."""

    sentences: list[Shown]


def finding(context: Context, query: FindingQuery) -> JobFinding:
    folder = context.jobs.job(query.job)
    asked = folder.asked()
    parameters = asked.get("parameters") or {}
    if (parameters.get("a"), parameters.get("b")) != (query.a, query.b):
        raise NotFound("This job is about other runs.")
    printed = printed_by(folder)
    sentences = list(_divergence(printed)) if asked.get("kind") == "diverge" else [printed.get("cause")]
    return JobFinding(sentences=[text for text in sentences if text][:_MOST_SENTENCES] or ["It found no cause."])


def _divergence(printed: dict[str, Any]) -> Iterator[Any]:
    """The verdict of a job "diverge", each cause with its proof, and notes."""
    yield printed.get("verdict")
    for cause in printed.get("causes") or ():
        yield f"{'Cause' if cause['proved'] else 'Suspected, not proved'}: {cause['sentence']}."
        if cause["proof"] is not None and cause["proof"]["holds"]:
            yield f"Proof: {cause['proof']['sentence']}."
    yield from printed.get("notes") or ()


ENDPOINTS: Final = (
    Endpoint("/comparison", "Two runs on the same inputs, compared", comparison),
    Endpoint("/comparison/finding", "What a job found out about two runs", finding),
)
