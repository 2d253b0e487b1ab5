"""A verdict as the API gives it: its outcome in one of three words, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zoolens.base.verdicts import Outcome, Verdict
from zoolens.base.verdicts.coverage import coverage_of
from zoolens.faces.ui.endpoint import Answer, Shown


class VerdictItem(Answer):
    """A verdict with what it rests on."""

    outcome: Outcome | None
    """Same, different or not known; null where a job of an earlier version did not say."""
    words: Shown
    coverage: Shown
    """How much was understood and what was not; empty where everything was, or where `words` say it."""
    remedies: list[Shown]
    """What would make the rest known."""


def verdict_item(words: str, verdict: Verdict | None) -> VerdictItem:
    """`words`: the sentence that tells the verdict."""
    if verdict is None:
        return VerdictItem(outcome=None, words=words, coverage="", remedies=[])
    coverage = verdict.coverage
    told = coverage.whole or coverage.text in words
    return VerdictItem(
        outcome=verdict.outcome,
        words=words,
        coverage="" if told else coverage.text,
        remedies=[] if coverage.whole else list(coverage.remedies),
    )


def printed_verdict(words: str, printed: Mapping[str, Any]) -> VerdictItem:
    """The verdict that a command printed as JSON (`Verdict.as_data`)."""
    if "outcome" not in printed or "coverage" not in printed:
        return verdict_item(words, None)
    return verdict_item(words, Verdict(Outcome(printed["outcome"]), coverage_of(printed["coverage"])))
