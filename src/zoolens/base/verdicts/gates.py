"""`--fail-on`: conditions that make a CI job fail, and the one way in which every command enforces them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from zoolens.base.errors import GateFailed
from zoolens.base.verdicts.verdict import NotKnown, Verdict, refuse_unknown

UNKNOWN: Final = "unknown"  # the condition that refuses a verdict which is not known

Judged = TypeVar("Judged")
Given = TypeVar("Given", contravariant=True)


class Condition(Protocol[Given]):
    def verdict(self, judged: Given, /) -> tuple[bool, str]:
        """Whether the condition holds (the gate fails), and the fact behind it; NotKnown where that cannot be told."""


@dataclass(frozen=True)
class UnknownGate(Generic[Judged]):
    """The condition "unknown". It never holds: what is not known is refused with its own exit code."""

    verdict_of: Callable[[Judged], Verdict]
    subject: str
    text: str = UNKNOWN

    def verdict(self, judged: Judged, /) -> tuple[bool, str]:
        verdict = self.verdict_of(judged)
        refuse_unknown(verdict, self.subject)
        return False, f"{self.text}: {self.subject}: {verdict.outcome.value}"


def enforce(gates: Sequence[Condition[Judged]], judged: Judged) -> None:
    """Raises `GateFailed` where a condition holds, and otherwise `NotKnown` where one cannot be judged: a gate that
    fails says more than one that says nothing."""
    broken: list[str] = []
    unknown: list[NotKnown] = []
    for gate in gates:
        try:
            holds, fact = gate.verdict(judged)
        except NotKnown as error:
            unknown.append(error)
            continue
        if holds:
            broken.append(fact)
    if broken:
        raise GateFailed("Gate failed: " + "; ".join(broken) + ".")
    if unknown:
        raise unknown[0]
