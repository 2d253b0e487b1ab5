"""A diagnosis as a page, and the words that it shares with the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zoolens.base.present.pages import Page, Section
from zoolens.base.present.tables import Column, Table
from zoolens.base.verdicts import Coverage, Gap, Verdict, judged
from zoolens.findings.audit.doctor.bench import MIN_HELD_OUT
from zoolens.findings.audit.doctor.verdict import Diagnosis, Status, VariantTrial

NOT_SWEPT: Final = "Not swept"
SENSITIVITY: Final = "Sensitivity of the model"
_EQUALS_SHOWN: Final = 4
_REASON_SHOWN: Final = 40  # characters; JSON and `frame` have it whole
_TRIALS: Final = (
    Column("variant", keep=9), Column("images", "number", keep=3), Column("top-1 [95 %]", "number", keep=8),
    Column("against the manifest", "number", keep=7), Column("p (Holm)", "number", keep=6), Column("run", keep=1),
)  # fmt: skip
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
    gap = Gap("whether another variant is better", remedy=f"Use {2 * MIN_HELD_OUT} labelled images or more.")
    return judged(Coverage((), (gap,)), different=False)


def title(diagnosis: Diagnosis) -> str:
    return f"{diagnosis.model} in {diagnosis.runtime} on {diagnosis.data}"


def trials_table(diagnosis: Diagnosis, *, show_all: bool = False) -> Table:
    """Returns the declared variant, then the others by accuracy; of combinations only the best, or all."""
    declared, *others = diagnosis.trials
    best = " + ".join(f"{fault.factor}: {fault.correct}" for fault in diagnosis.faults)
    shown = [trial for trial in others if show_all or trial.steps <= 1 or trial.variant == best]
    ordered = sorted(shown, key=lambda trial: (-trial.accuracy, trial.variant))
    return Table("trials", _TRIALS, tuple(map(_row, (declared, *ordered))))


def hidden_words(diagnosis: Diagnosis, table: Table) -> str:
    """Says how many combinations a table leaves out; empty where it has all."""
    hidden = len(diagnosis.trials) - len(table.rows)
    return f"{hidden} combinations of several changes are not listed" if hidden else ""


def _row(trial: VariantTrial) -> tuple[str, ...]:
    if trial.error:
        reason = trial.error if len(trial.error) <= _REASON_SHOWN else f"{trial.error[:_REASON_SHOWN]}…"
        return trial.variant, f"{trial.n:,}", "cannot run", reason, "–", (trial.run or "–")[:8]
    low, high = (100 * end for end in trial.interval)
    least, most = (100 * end for end in trial.change_interval)
    return (
        trial.variant,
        f"{trial.n:,}",
        f"{100 * trial.accuracy:.1f} % [{low:.1f}, {high:.1f}]",
        f"{100 * trial.change:+.1f} [{least:+.1f}, {most:+.1f}]" if trial.compared else "–",
        f"{trial.p_value:.2g}" if trial.compared else "–",
        (trial.run or "–")[:8],
    )


def sensitivity_words(diagnosis: Diagnosis) -> str:
    """Says what the sensitivity was measured on."""
    return f"top-1 on {diagnosis.sensitivity[0].n:,} images, one change each"


def sensitivity_lines(diagnosis: Diagnosis) -> Iterator[str]:
    for factor in diagnosis.sensitivity:
        ends = f"{factor.worst} {100 * factor.worst_accuracy:.1f} %, {factor.best} {100 * factor.best_accuracy:.1f} %"
        yield f"{factor.factor}: {100 * factor.spread:.1f} points ({ends})"


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
    if told or diagnosis.notes:
        yield Section(paragraphs=told, warnings=diagnosis.notes)
    if diagnosis.corrected is not None:
        faults = tuple((fault.factor, fault.declared, fault.correct) for fault in diagnosis.faults)
        yield Section("The manifest should say", tables=(("", Table("faults", _FAULTS, faults)),))
    trials = trials_table(diagnosis)
    hidden = hidden_words(diagnosis, trials)
    left_out = (f"{hidden}; `frame()` has them.",) if hidden else ()
    yield Section("Variants", left_out, tables=(("", trials),))
    if diagnosis.sensitivity:
        measured = sensitivity_words(diagnosis)
        yield Section(f"{SENSITIVITY} ({measured})", items=tuple(sensitivity_lines(diagnosis)))
    yield Section(NOT_SWEPT, items=tuple(not_swept_lines(diagnosis)))
