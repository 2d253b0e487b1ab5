"""The three values of a verdict, and the one rule by which every command decides between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from zoolens.base.errors import ZoolensError
from zoolens.base.verdicts.coverage import Coverage, merged


class Outcome(Enum):
    SAME = "same"
    DIFFERENT = "different"
    NOT_KNOWN = "not known"

    @property
    def exit_code(self) -> int:
        """0 and 1 as diff(1) has them; 2 is bad usage and 3 a gate that failed, so that "not known" has a code of its
        own."""
        return _EXIT_CODES[self]


_EXIT_CODES: Final = {Outcome.SAME: 0, Outcome.DIFFERENT: 1, Outcome.NOT_KNOWN: 4}


class NotKnown(ZoolensError):
    """Something that was asked for cannot be known from what is here. A gate raises this where it can neither pass nor
    fail, and `--fail-on unknown` raises it for a verdict that is not known."""

    exit_code = _EXIT_CODES[Outcome.NOT_KNOWN]


@dataclass(frozen=True)
class Verdict:
    """What a comparison says. Make one with `judged` or `combined`, which keep the rule."""

    outcome: Outcome
    coverage: Coverage

    def __post_init__(self) -> None:
        if self.outcome is Outcome.SAME and not self.coverage.whole:
            raise ValueError(f"The outcome cannot be 'same' with partial coverage: {self.coverage.text}")

    @property
    def known(self) -> bool:
        return self.outcome is not Outcome.NOT_KNOWN

    def as_data(self) -> dict[str, Any]:
        """The two keys that every judging command adds to its JSON."""
        return {"outcome": self.outcome.value, "coverage": self.coverage.as_data()}


def judged(coverage: Coverage, *, different: bool) -> Verdict:
    """`different` must be proved by what was understood alone. If it is not, the outcome is "same" only if everything
    was understood."""
    if different:
        return Verdict(Outcome.DIFFERENT, coverage)
    return Verdict(Outcome.SAME if coverage.whole else Outcome.NOT_KNOWN, coverage)


def combined(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a whole from those on its parts: one part that differs makes the whole differ, one part that is
    not known leaves the rest open. Without any part the outcome is not known."""
    parts = list(verdicts)
    outcomes = {part.outcome for part in parts}
    coverage = merged(part.coverage for part in parts)
    if Outcome.DIFFERENT in outcomes:
        return Verdict(Outcome.DIFFERENT, coverage)
    known = outcomes == {Outcome.SAME}
    return Verdict(Outcome.SAME if known else Outcome.NOT_KNOWN, coverage)


def refuse_unknown(verdict: Verdict, subject: str) -> None:
    """`--fail-on unknown`."""
    if verdict.known:
        return
    remedies = " ".join(verdict.coverage.remedies)
    raise NotKnown(f"Gate failed: unknown: {subject}: {verdict.coverage.text}", hint=remedies or None)
