"""Findings put together by what is behind them: one fault of one family in one zoo is one cause, however many of the
family's networks have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from zoolens.findings.audit.audit_findings import Finding, Severity

# Of equally severe causes, what a name hides comes before what a claim hides, and that before what only costs.
_ORDER: Final = ("naming", "claims", "structure", "papers", "size", "constants", "failures", "counting", "shortcuts")


@dataclass(frozen=True)
class SharedCause:
    """`findings` are ids, the most telling first. `gap` is the largest cost ratio among them, 1 where there is none."""

    severity: Severity
    rule: str
    family: str
    zoos: tuple[str, ...]  # of the odd ones
    architectures: tuple[str, ...]
    findings: tuple[str, ...]
    title: str
    gap: float

    def as_data(self) -> dict[str, object]:
        return {**asdict(self), "severity": self.severity.label}


def causes(findings: Iterable[Finding], families: Mapping[str, str]) -> tuple[SharedCause, ...]:
    """The most important first. `families`: of each architecture's id."""
    groups: dict[tuple[Severity, str, str], list[Finding]] = {}
    for finding in findings:
        family = families.get(finding.architecture) or finding.architecture
        groups.setdefault((finding.severity, finding.rule, family), []).append(finding)
    causes_found = [_cause(severity, rule, family, group) for (severity, rule, family), group in groups.items()]
    return tuple(sorted(causes_found, key=_importance))


def _importance(cause: SharedCause) -> tuple[int, int, int, float, str]:
    kind = cause.rule.partition("/")[0]
    place = _ORDER.index(kind) if kind in _ORDER else len(_ORDER)
    return -cause.severity, place, -len(cause.findings), -cause.gap, cause.family


def _cause(severity: Severity, rule: str, family: str, findings: list[Finding]) -> SharedCause:
    telling = sorted(findings, key=lambda finding: -_gap(finding))
    return SharedCause(
        severity,
        rule,
        family,
        tuple(dict.fromkeys(finding.models[0].partition(":")[0] for finding in telling if finding.models)),
        tuple(dict.fromkeys(finding.architecture for finding in telling)),
        tuple(finding.id for finding in telling),
        telling[0].title,
        _gap(telling[0]),
    )


def _gap(finding: Finding) -> float:
    """How many times the cost of the one the other has."""
    both = [value for value in finding.details.get("macs", ()) if value]
    return max(both) / min(both) if len(both) == 2 else 1.0
