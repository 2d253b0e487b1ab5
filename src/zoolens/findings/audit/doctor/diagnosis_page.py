"""A diagnosis as a page, and the words that it shares with the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zoolens.base.present.pages import Page, Section
from zoolens.base.present.tables import Column, Table
from zoolens.base.verdicts import Coverage, Gap, Verdict, judged
from zoolens.findings.audit.doctor.diagnosis import Diagnosis, Status, VariantTrial
from zoolens.findings.audit.doctor.figure_words import NONE, FigureWords

NOT_SWEPT: Final = "Not swept"
SENSITIVITY: Final = "Sensitivity of the model"
_EQUALS_SHOWN: Final = 4
_REASON_SHOWN: Final = 40  # characters; JSON and `frame` have it whole
_FAULTS: Final = (Column("setting", "key"), Column("declared"), Column("correct"))


def diagnosis_page(diagnosis: Diagnosis) -> Page:
    """What `zoolens.doctor` found."""
    return Page(
        title(diagnosis),
        verdict=diagnosis.sentence,
        good=diagnosis.status is Status.RIGHT,
        sections=tuple(_sections(diagnosis)),
        judged=_undecided(diagnosis),
    )


def _undecided(diagnosis: Diagnosis) -> Verdict | None:
    """Returns the verdict where it is not known whether the manifest is right; None where the status says it."""
    if diagnosis.status is not Status.UNDECIDED:
        return None
    gap = Gap("whether another variant is better", remedy=diagnosis.remedy)
    return judged(Coverage((), (gap,)), different=False)


def title(diagnosis: Diagnosis) -> str:
    return f"{diagnosis.model} in {diagnosis.runtime} on {diagnosis.data}"


def trials_table(diagnosis: Diagnosis, *, show_all: bool = False) -> Table:
    """Returns the declared variant, then the others from the best to the worst; of combinations only the best, or
    all."""
    declared, *others = diagnosis.trials
    best = " + ".join(f"{fault.factor}: {fault.correct}" for fault in diagnosis.faults)
    shown = [trial for trial in others if show_all or trial.steps <= 1 or trial.variant == best]
    ran = sorted((trial for trial in shown if not trial.error), key=lambda trial: trial.variant)
    ran.sort(key=lambda trial: trial.value or 0.0, reverse=not diagnosis.lower_is_better)
    stopped = sorted((trial for trial in shown if trial.error), key=lambda trial: trial.variant)
    figures = _figures(diagnosis)
    rows = tuple(_row(trial, figures) for trial in (declared, *ran, *stopped))
    return Table("trials", _columns(diagnosis.noun, figures), rows)


def _figures(diagnosis: Diagnosis) -> FigureWords:
    return FigureWords(diagnosis.metric, diagnosis.unit)


def _columns(noun: str, figures: FigureWords) -> tuple[Column, ...]:
    return (
        Column("variant", keep=9), Column(noun, "number", keep=3), Column(f"{figures.name} [95 %]", "number", keep=8),
        Column("against the manifest", "number", keep=7), Column("p (Holm)", "number", keep=6), Column("run", keep=1),
    )  # fmt: skip


def hidden_words(diagnosis: Diagnosis, table: Table) -> str:
    """Says how many combinations a table leaves out; empty where it has all."""
    hidden = len(diagnosis.trials) - len(table.rows)
    if hidden == 1:
        return "1 combination of several changes is not listed"
    return f"{hidden:,} combinations of several changes are not listed" if hidden else ""


def _row(trial: VariantTrial, figures: FigureWords) -> tuple[str, ...]:
    if trial.error:
        reason = trial.error if len(trial.error) <= _REASON_SHOWN else f"{trial.error[:_REASON_SHOWN]}…"
        return trial.variant, f"{trial.n:,}", "cannot run", reason, "–", (trial.run or "–")[:8]
    return (
        trial.variant,
        f"{trial.n:,}",
        figures.value_and_interval(trial.value, trial.interval),
        figures.change(trial.change, trial.change_interval, unit=False) if trial.compared else NONE,
        f"{trial.p_value:.2g}" if trial.compared and trial.p_value is not None else NONE,
        (trial.run or "–")[:8],
    )


def sensitivity_words(diagnosis: Diagnosis) -> str:
    """Says what the sensitivity was measured on."""
    return f"{_figures(diagnosis).name} on {diagnosis.sensitivity[0].n:,} {diagnosis.noun}, one change each"


def sensitivity_lines(diagnosis: Diagnosis) -> Iterator[str]:
    figures = _figures(diagnosis)
    for factor in diagnosis.sensitivity:
        worst, best = (figures.value(value) for value in (factor.worst_value, factor.best_value))
        yield f"{factor.factor}: {figures.points(factor.spread)} ({factor.worst} {worst}, {factor.best} {best})"


def not_swept_lines(diagnosis: Diagnosis) -> Iterator[str]:
    for axis in diagnosis.not_swept:
        yield f"{axis.factor}: {axis.reason}"


def equals_lines(diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.equals:
        more = len(diagnosis.equals) - _EQUALS_SHOWN
        named = "; ".join(diagnosis.equals[:_EQUALS_SHOWN]) + (f"; and {more} more" if more > 0 else "")
        yield f"Not distinguishable from it: {named}."


def _sections(diagnosis: Diagnosis) -> Iterator[Section]:
    told = tuple(equals_lines(diagnosis))
    if diagnosis.sense is not None:
        told = (diagnosis.sense.sentence, *told)
    if told or diagnosis.notes:
        yield Section(paragraphs=told, warnings=diagnosis.notes)
    if diagnosis.corrected is not None:
        faults = tuple((fault.factor, fault.declared, fault.correct) for fault in diagnosis.faults)
        yield Section("The manifest should say", tables=(("", Table("faults", _FAULTS, faults)),))
    trials = trials_table(diagnosis)
    hidden = hidden_words(diagnosis, trials)
    left_out = (f"{hidden}; `frame()` has all.",) if hidden else ()
    yield Section("Variants", left_out, tables=(("", trials),))
    if diagnosis.sensitivity:
        measured = sensitivity_words(diagnosis)
        yield Section(f"{SENSITIVITY} ({measured})", items=tuple(sensitivity_lines(diagnosis)))
    yield Section(NOT_SWEPT, items=tuple(not_swept_lines(diagnosis)))
