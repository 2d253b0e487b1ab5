"""Two runs as a page: what changed and whether that is more than noise, figures, flipped inputs, environment, cause."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from zoolens.base.present.figures import class_words, figure, p_value, percent, stack_label, with_interval
from zoolens.base.present.metric_words import metric_title
from zoolens.base.present.pages import Page, Section, Tile
from zoolens.base.present.tables import Column, Table
from zoolens.base.store.scopes import Dimension, is_of_part, parse_scope
from zoolens.findings.comparisons.behaviour import unknown_first
from zoolens.findings.comparisons.compare import AnswerComparison, FigurePair, Report, verdict_of_report
from zoolens.findings.comparisons.machine_share import share_words
from zoolens.findings.comparisons.pooled_runs import repeated_words
from zoolens.findings.comparisons.report_charts import class_names, figures_chart, flips_chart
from zoolens.findings.comparisons.vector_changes import VectorChange
from zoolens.findings.comparisons.wording import agreement_words, metric_words, silence_words
from zoolens.inventory.catalog.stored import guessed_of, guesses_in_words

MOST_FLIPS: Final = 20
MOST_CLASSES: Final = 10
UNJUDGED: Final = "Whether the two give the same answers is unknown."
NOT_PAIRED: Final = "Each interval is of one run by itself: how far two classes differ by chance was not tested."
_UNSURE: Final = 0.05  # p above which a change is called not significant
_MOST_RELATIVE: Final = 10.0  # B/A − 1; above it a change is told in the figure's unit
_SCORES: Final = frozenset({"brier", "nll"})  # scores with a scale of their own, which come near zero
_FIGURES: Final = (
    Column("metric", "key"), Column("scope"), Column("A", "number"), Column("B", "number"), Column("B vs A", "number"),
)  # fmt: skip
_FLIPS: Final = (
    Column("input"), Column("label"), Column("answer A"), Column("confidence A", "percent"), Column("answer B"),
    Column("confidence B", "percent"),
)  # fmt: skip
_CLASSES: Final = (
    Column("class"), Column("inputs", "number"), Column("recall A", "percent"), Column("recall B", "percent"),
    Column("p", "p"),
)  # fmt: skip
_CLASS_FIGURES: Final = (Column("class"), Column("A", "number"), Column("B", "number"), Column("B vs A", "number"))
_CONTESTED: Final = (Column("input"), Column("agreement", "percent"), Column("answer A"), Column("answer B"))


def report_page(report: Report) -> Page:
    """What `zoolens.compare` found."""
    itself = report.a.id == report.b.id
    return Page(
        f"{report.a.ref} and {report.b.ref}",
        f"A: {stack_label(report.a)}, run {report.a.id[:8]}. B: {stack_label(report.b)}, run {report.b.id[:8]}. "
        f"{report.a.inputs:,} inputs of {report.a.dataset.name}.",
        verdict(report) or UNJUDGED,
        good=itself,
        tiles=tiles(report),
        sections=tuple(_sections(report)),
        judged=None if itself else verdict_of_report(report),
    )


def verdict(report: Report) -> str:
    """Whether answers and accuracy differ, in a sentence; empty where there is nothing to compare."""
    answers = report.answers
    if report.a.id == report.b.id:
        return "A and B are the same run."
    if answers is None:
        return _vector_verdict(report)
    if answers.agreement == 1:
        return f"Both give the same answers to all {answers.n:,} inputs."
    apart = f"{percent(1 - answers.full / answers.n)} of {answers.n:,} inputs are answered differently"
    if not answers.labelled:
        return f"{apart}; the dataset has no labels, so the accuracy is unknown."
    low, high = answers.difference
    change = f"{100 * answers.top1_change:+.2f} points [{100 * low:+.2f}, {100 * high:+.2f}]".replace("-", "−")
    clear = "not significant" if answers.p_value > _UNSURE else "significant"
    test = f"exact McNemar p = {p_value(answers.p_value)}, {clear} at {100 * _UNSURE:g} %"
    return f"{apart}; top-1 of B less that of A is {change} ({test})."


def _vector_verdict(report: Report) -> str:
    """Return the agreement on the vector output on which the two agree least."""
    if not report.vectors:
        return ""
    worst = min(report.vectors, key=lambda change: unknown_first(change.agreement))
    which = f"{worst.output}: " if len(report.vectors) > 1 else ""
    return f"{which}{agreement_words(worst)}, {worst.n:,} inputs."


def unchecked_sides(report: Report) -> Iterator[str]:
    """What the accuracy of either side rests on that nobody has checked."""
    for side, run in (("A", report.a), ("B", report.b)):
        if guessed := guessed_of(run):
            yield f"{side}: {guesses_in_words(guessed)}."


def tiles(report: Report) -> tuple[Tile, ...]:
    """The figures at the head of the page."""
    answers = report.answers
    if answers is None:
        return tuple(_vector_tiles(report))
    shown = [Tile(percent(answers.agreement), answers.agreement_name)]
    if answers.identical_outputs is not None:
        shown.append(Tile(percent(answers.identical_outputs, 1), "bit-equal outputs"))
    if answers.labelled:
        shown += [Tile(f"{answers.only_a:,}", "only A correct"), Tile(f"{answers.only_b:,}", "only B correct")]
    return tuple(shown)


def _vector_tiles(report: Report) -> Iterator[Tile]:
    for change in report.vectors[:1]:
        if not math.isnan(change.agreement):
            yield Tile(percent(change.agreement), change.agreement_name)
        if change.metric is not None and not math.isnan(change.metric.a + change.metric.b):
            shares = change.metric.unit == "fraction"
            for side, value in (("A", change.metric.a), ("B", change.metric.b)):
                yield Tile(
                    percent(value) if shares else f"{value:.4g}", f"{metric_title(change.metric.name)} of {side}"
                )


def _sections(report: Report) -> Iterator[Section]:
    answers = report.answers
    if unchecked := tuple(unchecked_sides(report)):
        yield Section(warnings=unchecked)
    if report.cause:
        yield Section("Likely cause", paragraphs=(report.cause,))
    chart = figures_chart(report)
    yield Section("Figures", charts=(chart,) if chart else (), tables=(("", figures_table(report)),))
    if answers is not None and answers.disagreements:
        flips = flips_chart(report)
        caption = (
            f"The {MOST_FLIPS} with the highest confidence of both" if len(answers.disagreements) > MOST_FLIPS else ""
        )
        yield Section(
            "Different answers", charts=(flips,) if flips else (), tables=((caption, _flips(report, answers)),)
        )
    if answers is not None and answers.classes:
        yield Section("Classes that change most", ("Each p is for itself.",), tables=(("", _class_changes(answers)),))
    if answers is None and (of_classes := class_figures(report)):
        yield Section("Classes that change most", (NOT_PAIRED,), tables=(_class_figures(of_classes),))
    for change in report.vectors:
        distance = "" if change.median_distance is None else f", median distance {change.median_distance:.2g}"
        judged = () if change.metric is None else (f"{metric_words(change.metric)}.",)
        silence = silence_words(change.silent, change.n)
        contested = (("Inputs on which the two agree least", _contested(change)),) if change.contested else ()
        yield Section(
            change.output,
            (f"{change.task}: {agreement_words(change)}{distance}{f', {silence}' if silence else ''}.", *judged),
            tables=contested,
        )
    if report.environment:
        items = tuple(f"{item.what}: {item.a} → {item.b}" for item in report.environment)
        yield Section("Environment", items=items)
    if report.shares:
        yield Section("Machine and software", items=tuple(map(share_words, report.shares)))
    if report.repeated:
        yield Section("Repeated runs", items=tuple(map(repeated_words, report.repeated)))


def figures_table(report: Report) -> Table:
    """The figures of the whole that both runs have; those of single classes and epochs are left out."""
    rows = [
        (each.metric, each.scope, with_interval(each.a), with_interval(each.b), change)
        for each in report.figures
        if not is_of_part(each.scope) and (change := change_words(each))
    ]
    return Table("figures", _FIGURES, tuple(rows))


def class_figures(report: Report) -> list[FigurePair]:
    """The figures of single classes that differ between the runs, those that differ most first."""
    known = [each for each in report.figures if parse_scope(each.scope).dimension is Dimension.CLASS]
    # A task has one figure of classes; a plug-in may keep more, of which the first is told.
    told = [each for each in known if each.metric == known[0].metric and each.change]
    return sorted(told, key=lambda each: -abs(each.change or 0.0))


def change_words(each: FigurePair) -> str:
    """How much B is above A: in points for shares, in percent of A for everything else; empty where it is unknown.

    Percents of next to nothing are large and say nothing: a change of more than 1,000 % is told in the figure's unit,
    and so is every change of a score that has a scale of its own, such as the Brier score.
    """
    a, b = each.a.value, each.b.value
    if a is None or b is None or not (math.isfinite(a) and math.isfinite(b)):
        return ""
    if each.unit == "fraction":
        words = f"{100 * (b - a):+.2f} pt"
    elif each.change is None or each.change > _MOST_RELATIVE or each.metric in _SCORES:
        amount = figure(abs(b - a), each.unit) if each.unit else f"{abs(b - a):.3g}"
        words = f"{'+' if b >= a else '-'}{amount}"
    else:
        words = f"{100 * each.change:+.1f} %"
    return words.replace("-", "−")


def _flips(report: Report, answers: AnswerComparison) -> Table:
    named = class_names(report)
    rows = [
        (
            flip.input,
            named(flip.label) if flip.label >= 0 else None,
            named(flip.answer_a),
            flip.score_a,
            named(flip.answer_b),
            flip.score_b,
        )
        for flip in answers.disagreements[:MOST_FLIPS]
    ]
    return Table("flips", _FLIPS, tuple(rows))


def _class_figures(figures: Sequence[FigurePair]) -> tuple[str, Table]:
    rows = [
        (class_words(each.a), with_interval(each.a), with_interval(each.b), change_words(each))
        for each in figures[:MOST_CLASSES]
    ]
    return figures[0].metric, Table("classes", _CLASS_FIGURES, tuple(rows))


def _contested(change: VectorChange) -> Table:
    rows = [(found.input, found.agreement, found.a, found.b) for found in change.contested]
    return Table("contested", _CONTESTED, tuple(rows))


def _class_changes(answers: AnswerComparison) -> Table:
    rows = [(each.name, each.n, each.recall_a, each.recall_b, each.p_value) for each in answers.classes[:MOST_CLASSES]]
    return Table("classes", _CLASSES, tuple(rows))
