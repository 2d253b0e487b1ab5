"""What an audit found, as plain values: the terminal, HTML, JSON and CSV reports all read this and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from zoolens.base.errors import UnknownName
from zoolens.base.present.results import Result, frame
from zoolens.base.verdicts import Coverage, Gap, Tally, Verdict, judged
from zoolens.findings.audit.audit_causes import SharedCause, causes
from zoolens.findings.audit.audit_findings import Finding, Severity


@dataclass(frozen=True)
class AuditedNetwork:
    """One structure under one name in one zoo. `models` are all refs that share it (weights of one architecture)."""

    zoo: str
    architecture: str
    name: str  # what the zoo calls it
    models: tuple[str, ...]
    size: tuple[int, int] | None
    macs: int | None
    flops: int | None
    parameters: int | None
    peak_bytes: int | None
    group: int | None  # networks of an architecture with the same number are the same network
    as_studied: float | None  # MACs as the study's counter for this zoo would give them
    claimed_top1: float | None  # of the first weights, in percent
    best_top1: float | None  # of the best weights today
    claimed_macs: float | None
    claimed_parameters: float | None
    error: str | None = None  # why its structure is not known
    outlier_first: bool = False  # `claimed_top1` is far from all others and counts for nothing in `spread_first`
    outlier_best: bool = False  # likewise `best_top1` and `spread_best`
    parameters_held: int | None = None  # where the source holds more than `parameters`, which the network uses
    parameters_held_reason: str = ""
    not_understood: tuple[str, ...] = ()  # operators; the counts are then lower bounds


@dataclass(frozen=True)
class ArchitectureRow:
    """One architecture over all zoos. Spreads are in points, ratios are largest over smallest."""

    id: str
    name: str
    study: bool  # in the table's list of what Montes et al. 2022 could compare; others were not studied
    networks: tuple[AuditedNetwork, ...]
    groups: int  # how many different networks go by this name
    spread_first: float | None
    spread_best: float | None
    macs_ratio: float | None  # over all zoos, the first network of each at its own image size, one counter
    real_ratio: float | None  # the same over the zoos that the study looked at
    studied_ratio: float | None  # over these zoos, each with the counter the study used for it
    summary: str  # one sentence: who agrees with whom
    family: str = ""


@dataclass(frozen=True)
class ZooRank:
    """Table 1: how often a zoo claims the highest and the lowest top-1 among those that offer an architecture."""

    zoo: str
    offered: int
    highest: int
    lowest: int


@dataclass(frozen=True)
class Conformance:
    """One network against its paper. `departures` is empty where it conforms, and where that is not known because some
    of its operators are not understood."""

    architecture: str
    zoo: str
    name: str
    paper: str
    table: str
    departures: tuple[str, ...]
    known: bool = True

    @property
    def conforms(self) -> bool:
        return self.known and not self.departures


@dataclass(frozen=True)
class JudgedClaim:
    """A claimed accuracy beside ours."""

    model: str
    metric: str
    verdict: str  # consistent, not consistent, not comparable
    sentence: str


@dataclass(frozen=True, repr=False)
class Audit(Result):
    architectures: tuple[ArchitectureRow, ...]
    findings: tuple[Finding, ...]
    ranks: tuple[ZooRank, ...]
    conformance: tuple[Conformance, ...]
    judged: tuple[JudgedClaim, ...]
    notes: tuple[str, ...]  # zoos left out and why
    facts: Mapping[str, Any] = field(default_factory=dict)  # versions, seconds, how many structures were exported

    def frame(self) -> Any:
        """Returns a pandas DataFrame with a row for each finding."""
        rows = [
            {
                "rule": one.rule,
                "severity": one.severity.label,
                "architecture": one.architecture,
                "models": ", ".join(one.models),
                "title": one.title,
                "fix": one.fix,
            }
            for one in self.findings
        ]
        return frame(rows, "Audit.frame")

    @property
    def shared(self) -> tuple[ArchitectureRow, ...]:
        """The architectures whose structure is known in at least two zoos."""
        return tuple(row for row in self.architectures if len(known_zoos(row)) > 1)

    @property
    def zoos(self) -> tuple[str, ...]:
        return tuple(sorted({network.zoo for row in self.architectures for network in row.networks}))

    @property
    def causes(self) -> tuple[SharedCause, ...]:
        """The causes behind the findings, the most important first."""
        return causes(self.findings, {row.id: row.family for row in self.architectures})

    @property
    def coverage(self) -> Coverage:
        """How many networks have a structure that was read and understood."""
        networks = [network for row in self.architectures for network in row.networks]
        gaps = tuple(_gap(network) for network in networks if network.macs is None or network.not_understood)
        return Coverage((Tally("networks", len(networks) - len(gaps), len(networks)),), gaps)

    @property
    def decision(self) -> Verdict:
        """Different where one name stands for several networks; the same only if every network was understood."""
        return judged(self.coverage, different=any(row.groups > 1 for row in self.architectures))

    def count(self, severity: Severity) -> int:
        return Counter(finding.severity for finding in self.findings)[severity]

    def without(self, accepted: Collection[str]) -> Audit:
        """The audit without accepted findings, which are given by id; an unknown id is an error."""
        known = {finding.id for finding in self.findings}
        strange = next((accepted_id for accepted_id in accepted if accepted_id not in known), None)
        if strange is not None:
            raise UnknownName("finding", strange, known, hint="It may have been fixed: leave it out.")
        return replace(self, findings=tuple(finding for finding in self.findings if finding.id not in set(accepted)))

    def as_data(self) -> dict[str, Any]:
        return {
            **self.decision.as_data(),
            "facts": dict(self.facts),
            "notes": list(self.notes),
            "architectures": [asdict(row) for row in self.architectures],
            "causes": [cause.as_data() for cause in self.causes],
            "findings": [finding.as_data() for finding in self.findings],
            "ranks": [asdict(rank) for rank in self.ranks],
            "conformance": [asdict(network) for network in self.conformance],
            "judged": [asdict(claim) for claim in self.judged],
        }


def _gap(network: AuditedNetwork) -> Gap:
    if network.not_understood:
        named = ", ".join(network.not_understood[:3])
        return Gap(f"operators of {network.models[0]} ({named})", 1, "Compare files exported without these operators.")
    return Gap(f"structure of {network.models[0]}", 1, "`zoolens pull` fetches files that are not here.")


def counted_claims(row: ArchitectureRow, *, first: bool) -> list[tuple[AuditedNetwork, float]]:
    """Each network with the top-1 claimed for its first weights, or for its best ones; outliers do not count."""
    if first:
        claims = [(network, network.claimed_top1) for network in row.networks if not network.outlier_first]
    else:
        claims = [(network, network.best_top1) for network in row.networks if not network.outlier_best]
    return [(network, claim) for network, claim in claims if claim is not None]


def known_zoos(row: ArchitectureRow) -> set[str]:
    return {network.zoo for network in row.networks if network.macs is not None}
