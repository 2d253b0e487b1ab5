"""The verdict of an examination in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zoolens.findings.audit.doctor.bench import MIN_HELD_OUT
from zoolens.findings.audit.doctor.diagnosis import Confirmation, Fault, Status, VariantTrial
from zoolens.findings.audit.doctor.evidence import ALPHA, WORTH_SEEING
from zoolens.findings.audit.doctor.evidence_figures import gained
from zoolens.findings.audit.doctor.figure_words import FigureWords
from zoolens.inventory.tasks.judgement import Metric


@dataclass(frozen=True)
class VerdictWords:
    """What the sentence is made of. `few`: answers are right or wrong, and so few that a variant which is right on a
    tenth more of them would not be better by more than noise."""

    metric: Metric
    noun: str  # what inputs are called
    confirmation: Confirmation | None
    trials: Sequence[VariantTrial]  # the declared one first
    few: bool
    held_out: bool  # whether there are inputs that the search did not use

    @property
    def figures(self) -> FigureWords:
        return FigureWords(self.metric.name, self.metric.unit)

    @property
    def unconfirmed(self) -> VariantTrial | None:
        """The best of the variants that are better by more than noise among all that were tried; None: none is."""
        better = [
            trial
            for trial in self.trials[1:]
            if not trial.error and self._gain(trial) > 0 and trial.p_value is not None and trial.p_value < ALPHA
        ]
        return max(better, key=self._gain, default=None)

    def _gain(self, trial: VariantTrial) -> float:
        return gained(self.metric, trial.change or 0.0)

    def sentence(self, status: Status, faults: Sequence[Fault], proof: str | None, error: str | None) -> str:
        """`faults`: those that cost figures; `proof`: what is wrong besides, which costs none; `error`: why the
        manifest cannot be evaluated as declared."""
        confirmed = self.confirmation
        if confirmed is None or not faults:
            return f"The manifest is wrong: {proof}" if proof else self._no_fault(status) + _cannot(error)
        what = " and ".join(f"{fault.factor} {fault.correct} instead of {fault.declared}" for fault in faults)
        fresh = " that the search did not use" if confirmed.fresh else ""
        tests = "" if confirmed.fresh else f", adjusted for {_variants(len(self.trials) - 1)}"
        words = "wrong" if status is Status.WRONG else "not the best"
        return (
            f"The manifest is {words}: with {what}, {self._change(confirmed)} "
            f"({confirmed.n:,} {self.noun}{fresh}, {confirmed.test} p {_p(confirmed.p_value)}{tests})."
            + (f" Besides, {proof}" if proof else "")
            + _cannot(error)
        )

    def _change(self, confirmed: Confirmation) -> str:
        figures = self.figures
        if confirmed.before is None:
            return f"{figures.name} is {figures.value(confirmed.after)}"
        moves = "falls" if self.metric.lower_is_better else "rises"
        return f"{figures.name} {moves} from {figures.value(confirmed.before)} to {figures.value(confirmed.after)}"

    def _no_fault(self, status: Status) -> str:
        figures, declared, others = self.figures, self.trials[0], self.trials[1:]
        text = f"The manifest is right: {_none_of(len(others))} better than it by more than noise"
        if status is Status.UNDECIDED:
            text = self._undecided(declared, len(others))
        if self.confirmation is not None:
            confirmed = self.confirmation
            if confirmed.change is None:
                return f"{text}."
            other = "other " if confirmed.fresh else ""
            return (
                f"{text} ({figures.name} {figures.value(confirmed.before)}; the one that looked best while searching "
                f"is {figures.change(confirmed.change, confirmed.change_interval)} on {confirmed.n:,} {other}"
                f"{self.noun})."
            )
        seen = [trial for trial in others if trial.n == declared.n and trial.change is not None and not trial.error]
        best = max(seen, key=self._gain, default=None)
        if best is None:
            return f"{text}."
        p_value = "not known" if best.p_value is None else f"p {_p(best.p_value)} adjusted for all"
        return (
            f"{text} ({figures.name} {figures.value(declared.value)} on {declared.n:,} {self.noun}; the best other, "
            f"{best.variant}, is {figures.change(best.change, best.change_interval)}, {p_value})."
        )

    def _undecided(self, declared: VariantTrial, others: int) -> str:
        if not others:
            return (
                "Undecided whether the manifest is right: every other way to declare it is the same for these "
                f"{self.noun}, or is not tried"
            )
        if self._nothing_else:
            return "Undecided: there is no other variant that can be evaluated and that it could be compared with"
        if self.few:
            return (
                f"Undecided: {declared.n:,} {self.noun} are too few to distinguish a variant that is "
                f"{100 * WORTH_SEEING:.0f} points better from noise, "
                f"{_variants(others)} being tried; {2 * MIN_HELD_OUT} are enough"
            )
        if self.unconfirmed is not None:
            fresh = f" on {self.noun} that the search did not use" if self.held_out else ""
            return f"Undecided: {self.unconfirmed.variant} looks better, which is not confirmed{fresh}"
        tell = f"{self.noun} on which variants differ" if self._all_alike else f"more {self.noun}"
        return (
            f"Undecided: {_none_of(others)} better by more than noise, but {declared.n:,} {self.noun} do not "
            f"rule out that one of them is {100 * WORTH_SEEING:.0f} {self._unit} better; {tell} tell"
        )

    @property
    def remedy(self) -> str:
        """What would decide an undecided examination."""
        if self._nothing_else:
            return f"More {self.noun} would not help: see why nothing else was tried."
        few = self.trials[0].n < 2 * MIN_HELD_OUT
        wanted = f"{2 * MIN_HELD_OUT} labelled {self.noun} or more" if few else f"more labelled {self.noun}"
        return f"Use {wanted}, on which variants differ." if self._all_alike else f"Use {wanted}."

    @property
    def _nothing_else(self) -> bool:
        return all(trial.error for trial in self.trials[1:])

    @property
    def _all_alike(self) -> bool:
        """Whether every variant that can run has the very figure of the manifest."""
        return all(trial.error or trial.change == 0 for trial in self.trials[1:])

    @property
    def _unit(self) -> str:
        return "points" if self.figures.value(0.0).endswith("%") else "%"


def _cannot(error: str | None) -> str:
    return f" As declared it cannot be evaluated at all: {error}" if error else ""


def _variants(count: int) -> str:
    return "one variant" if count == 1 else f"{count} variants"


def _none_of(count: int) -> str:
    return "the other variant is not" if count == 1 else f"none of {count} variants is"


def _p(value: float) -> str:
    return "< 1e-9" if value < 1e-9 else f"= {value:.2g}"
