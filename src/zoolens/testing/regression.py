"""What the pytest fixture `zoolens` does: evaluate, compare, and fail with a sentence that says what got worse.

A message names both models, the data, each condition that held, and the figures behind it with their intervals, so that
a line in a JUnit report is enough to know what happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import pytest

from zoolens.base.present.figures import with_interval
from zoolens.base.store.store import Store
from zoolens.base.verdicts import UnknownGate
from zoolens.findings.comparisons.compare import AnswerComparison, Report, compare
from zoolens.findings.comparisons.contents import changed_notes
from zoolens.findings.comparisons.equivalence import Equivalence, equiv
from zoolens.findings.comparisons.gate import ComparisonGate, DivergenceGate, parse_equivalence_gate, parse_gate
from zoolens.findings.comparisons.wording import agreement_words, full_words, next_token_words
from zoolens.findings.measure.evaluate import evaluate
from zoolens.findings.measure.plan import Outcome
from zoolens.inventory.catalog.names import is_run

# Timings of a CI machine are noise unless somebody asks for them.
_DEFAULTS: Mapping[str, Any] = {"batches": (), "cold": False}

Model = str | Path


class ModelTest:
    """Models in a test. `settings` come from the marker: `data`, and keywords of `zoolens.evaluate`."""

    def __init__(
        self, store: Store | str | Path | None, settings: Mapping[str, Any], properties: list[tuple[str, object]]
    ) -> None:
        self.store = store
        self._settings = dict(settings)
        self._data = self._settings.pop("data", None)
        self._properties = properties

    def evaluate(
        self, models: Sequence[Model] | Model, data: str | Path | None = None, **options: Any
    ) -> list[Outcome]:
        """`zoolens.evaluate` in this test's store. The test fails where a model cannot be measured or looks wrong."""
        outcomes = self._measured(models, data, options)
        wrong = [
            f"{outcome.title}: {' '.join((*outcome.errors, *outcome.warnings))}"
            for outcome in outcomes
            if outcome.failed
        ]
        if wrong:
            _fail(f"zoolens could not evaluate {_listed(models)} as asked. {' '.join(wrong)}")
        return outcomes

    def compare(
        self, a: Model, b: Model, *, fail_on: Sequence[str] | str = (), runtimes: Sequence[str] | str = ()
    ) -> Report:
        """Compare B with A input by input, and fail the test where a condition such as "top1 drop > 1%" holds.

        Where the marker names data, both models are evaluated on it first; what was measured before is kept.
        """
        gates = [parse_gate(text) for text in _texts(fail_on)]
        runtimes = runtimes or self._settings.get("runtimes", ())
        if self._data is not None:
            broken = [
                f"{outcome.title}: {' '.join(outcome.errors)}" for outcome in self._measured([a, b]) if outcome.errors
            ]
            if broken:  # answers that merely look wrong are for the gates to judge
                _fail(f"zoolens could not evaluate {a} and {b}. {' '.join(broken)}")
        report = compare(a, b, runtimes=runtimes, store=self.store)
        names = f"{_name(report.b, b)} against {_name(report.a, a)}"
        self._judge(
            f"{names} on {report.a.inputs:,} inputs of {report.a.dataset.name}",
            [(condition.text, *condition.verdict(report), _evidence(condition, report)) for condition in gates],
        )
        return report

    def equiv(
        self, a: Model, b: Model, *, fail_on: Sequence[str] | str = (), data: str | Path | None = None, **options: Any
    ) -> Equivalence:
        """How interchangeable two models are; fails the test where a condition such as "guaranteed < 95%" holds."""
        gates = [parse_equivalence_gate(text) for text in _texts(fail_on)]
        where = data if data is not None else self._data
        measured = [] if where is None or is_run(str(a)) or is_run(str(b)) else self._measured([a, b], where)
        if broken := [f"{outcome.title}: {' '.join(outcome.errors)}" for outcome in measured if outcome.errors]:
            _fail(f"zoolens could not evaluate {a} and {b}. {' '.join(broken)}")
        runtimes = _texts(self._settings.get("runtimes", ()))
        settings = {"data": where, "runtime": runtimes[0] if len(runtimes) == 1 else None, **options}
        report = equiv(a, b, store=self.store, **settings)
        now = {outcome.run.key.dataset for outcome in measured if outcome.run is not None}
        stale = list(changed_notes(run for pair in report.on for run in (pair.a, pair.b)))
        if stale or (now and not now & {pair.a.key.dataset for pair in report.on}):
            _fail(" ".join(stale) or f"{a} and {b} were not judged on {where} as it is now.")
        if report.reasons:
            _fail(f"{report.a} and {report.b} cannot be compared: {'; '.join(report.reasons)}.")
        names = f"{report.b} against {report.a} on " + ", ".join(
            f"{entry.n:,} inputs of {entry.dataset}" for entry in report.on
        )
        self._judge(names, [(gate.text, *gate.verdict(report), _agreement(report)) for gate in gates])
        return report

    def _measured(
        self,
        models: Sequence[Model] | Model,
        data: str | Path | None = None,
        options: Mapping[str, Any] = MappingProxyType({}),
    ) -> list[Outcome]:
        settings = {**_DEFAULTS, **self._settings, **options}
        where = data if data is not None else self._data
        if where is None and settings.get("accuracy", True):
            _fail("No dataset given: mark the test with @pytest.mark.zoolens(DATA), or say evaluate(…, data=DATA).")
        return evaluate(models, where, store=self.store, **settings)

    def _judge(self, names: str, verdicts: Iterable[tuple[str, bool, str, str]]) -> None:
        """Write every verdict into the test's properties, and fail with those whose condition holds."""
        broken = []
        for text, holds, fact, evidence in verdicts:
            words = f"{fact.removeprefix(f'{text}: ')}{f' ({evidence})' if evidence else ''}"
            self._properties.append((f"zoolens: {text}", words))
            if holds:
                broken.append(f"{words}, and the gate is {text!r}")
        if broken:
            _fail(f"Model regression: {names}: {'; '.join(broken)}.")


def _fail(message: str) -> NoReturn:
    pytest.fail(message, pytrace=False)


def _texts(conditions: Sequence[str] | str) -> Sequence[str]:
    return (conditions,) if isinstance(conditions, str) else conditions


def _listed(models: Sequence[Model] | Model) -> str:
    return str(models) if isinstance(models, (str, Path)) else ", ".join(map(str, models))


def _name(run: Any, asked: Model) -> str:
    """The model's name, and the name it was asked for where that says more."""
    return str(run.ref) if Path(asked).stem in str(run.ref) else f"{run.ref} ({asked})"


def _evidence(condition: ComparisonGate | DivergenceGate | UnknownGate[Report], report: Report) -> str:
    """The figures that a condition is about, with their intervals."""
    if isinstance(condition, UnknownGate):
        return ""
    if isinstance(condition, DivergenceGate):
        found = [change.next_tokens for change in report.vectors if change.next_tokens is not None]
        return "; ".join(map(next_token_words, found))
    if condition.metric == "disagreement":
        of_classes = [_different(report.answers)] if report.answers is not None else []
        of_vectors = [f"{change.output}: {agreement_words(change)}" for change in report.vectors]
        return "; ".join([*of_classes, *of_vectors])
    scope, _ = condition.worst(report)
    figure = next(
        (candidate for candidate in report.figures if (candidate.metric, candidate.scope) == (condition.metric, scope)),
        None,
    )
    if figure is None:
        return ""
    change = f"; {_paired(report.answers)}" if condition.metric == "top1" and report.answers is not None else ""
    return f"A {with_interval(figure.a)}, B {with_interval(figure.b)}{change}"


def _paired(answers: AnswerComparison) -> str:
    low, high = answers.difference
    return (
        f"B − A {100 * answers.top1_change:+.2f} points [{100 * low:+.2f}, {100 * high:+.2f}], "
        f"exact McNemar p = {answers.p_value:.3g}"
    )


def _different(answers: AnswerComparison) -> str:
    return f"{len(answers.disagreements):,} of {answers.n:,} inputs are answered differently"


def _agreement(report: Equivalence) -> str:
    """The measured share of equal answers and what is guaranteed, where bounds are on."""
    least = report.worst.worst
    words = f"{least.agreement_name(report.tolerance)} {100 * report.agreement:.2f} %"
    words += full_words(least.full, least.n, least.graded)
    if report.guaranteed is not None:
        words += f", at least {100 * report.guaranteed:.2f} % with {100 * report.confidence:g} % confidence"
    bounds = report.worst.bounds
    if bounds is not None and bounds.difference is not None:
        low, high = bounds.difference
        words += f", accuracy B − A [{100 * low:+.2f}, {100 * high:+.2f}] points"
    return words
