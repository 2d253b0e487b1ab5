"""A finding: one thing that is not as it is said to be, with its evidence and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any


class Severity(IntEnum):
    """How much it matters to someone who swaps one model for another of the same name."""

    INFO = 0  # worth knowing; nothing to mend
    LOW = 1  # constants differ: answers change in the last digits
    MEDIUM = 2  # answers or cost change, or a claim cannot be true as written
    HIGH = 3  # it is another network than its name says, or a claim is refuted

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Finding:
    """`rule` is "group/what", such as "structure/stride placement"; `models` are refs, the odd one first.

    `id` is the same in every run that finds the same, so that a gate can name the ones it accepts.
    """

    rule: str
    severity: Severity
    architecture: str
    models: tuple[str, ...]
    title: str
    evidence: tuple[str, ...]
    fix: str
    details: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def id(self) -> str:
        rule = self.rule.replace("/", "-").replace(" ", "-")
        return f"{rule}:{self.architecture}:{self.models[0] if self.models else ''}"

    @property
    def group(self) -> str:
        return self.rule.partition("/")[0]

    def as_data(self) -> dict[str, Any]:
        return {"id": self.id, **asdict(self), "severity": self.severity.label}


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The gravest first; within a severity by rule and architecture; of those with one id the first."""
    unique: dict[str, Finding] = {}
    for finding in findings:
        unique.setdefault(finding.id, finding)
    return tuple(
        sorted(
            unique.values(), key=lambda finding: (-finding.severity, finding.rule, finding.architecture, finding.models)
        )
    )
