"""The audit: structures and claims from the store, compared by name, turned into findings.

Only reading structures and recording claims take time, and both are kept: a second audit reads what changed.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.progress import Progress, Silent
from zoolens.base.store.store import Store, borrowed_store
from zoolens.base.version import __version__
from zoolens.findings.audit import claim_spreads
from zoolens.findings.audit.architectures import Member, architecture, architectures, members
from zoolens.findings.audit.audit_findings import Finding, ranked
from zoolens.findings.audit.claim_verdicts import ClaimVerdict, verdicts, vouchable
from zoolens.findings.audit.claims import ClaimRow, claims_from, first_claims, record_claims
from zoolens.findings.audit.comparing_processes import ComparingProcesses, Job, received
from zoolens.findings.audit.conformance import departures
from zoolens.findings.audit.document import ArchitectureRow, Audit, Conformance, JudgedClaim, ZooRank
from zoolens.findings.audit.grouping import Grouped, group
from zoolens.findings.audit.memo import Memo, kept_memo
from zoolens.findings.audit.networks import ZooNetwork, zoo_networks
from zoolens.findings.audit.papers import papers
from zoolens.findings.audit.rows import architecture_row
from zoolens.findings.audit.rules import claims as claim_rules
from zoolens.findings.audit.rules import counting, failures, file_sizes, naming, structure_rules
from zoolens.findings.audit.rules import papers as paper_rules
from zoolens.findings.graph.structures.structure import Structure, structure_of
from zoolens.inventory.zoos.listing import listing


@dataclass(frozen=True)
class AuditEvidence:
    """Everything that findings are derived from, by architecture; rules read nothing else."""

    networks: Mapping[str, tuple[ZooNetwork, ...]]
    grouped: Mapping[str, Grouped]
    conformance: Sequence[Conformance]
    claims: Sequence[ClaimRow]
    verdicts: Sequence[ClaimVerdict]

    @property
    def all_networks(self) -> tuple[ZooNetwork, ...]:
        return tuple(network for same_name in self.networks.values() for network in same_name)


def audit_models(
    *,
    zoos: Collection[str] = (),
    archs: Collection[str] = (),
    store: Store | str | Path | None = None,
    trusted: Collection[str] = (),
    fresh: bool = False,
    progress: Progress | None = None,
) -> Audit:
    """Audit the models of all zoos on this machine whose architecture at least one zoo names.

    `zoos`: only these. `archs`: only these architectures (ids, or patterns of them). `trusted`: datasets that are
    random samples of what claims are about. `fresh`: read every structure again.
    """
    begun = time.monotonic()
    chosen, notes = choose(zoos, archs)
    entries = [member.entry for same_name in chosen.values() for member in same_name]
    with borrowed_store(store) as opened:
        structures = structure_of(entries, store=opened, fresh=fresh, progress=progress)
        record_claims(opened, entries)
        claims = claims_from(opened, entries)
        judged = verdicts(opened, claims, trusted=trusted)
        notes += _untrusted(set(trusted) - vouchable(opened))
    with kept_memo() as memo:
        evidence = gather(chosen, structures, claims, judged, memo, progress)
    notes += _elsewhere(evidence)
    return conclude(evidence, notes, _facts(structures, time.monotonic() - begun))


def choose(zoos: Collection[str], archs: Collection[str]) -> tuple[dict[str, list[Member]], list[str]]:
    """Members of the wanted architectures in the wanted zoos, and notes on zoos that cannot be listed."""
    wanted = _wanted_architectures(archs)
    named = list(dict.fromkeys(zoo for entry in architectures() for zoo in entry.members))
    unknown = next((zoo for zoo in zoos if zoo not in named), None)
    if unknown is not None:
        raise UnknownName("zoo with architectures that can be audited", unknown, named)
    listings = [listing(zoo=zoo) for zoo in named if not zoos or zoo in zoos]
    notes = [note for listed in listings for note in listed.notes]
    if zoos and (absent := next((listed for listed in listings if listed.notes and not listed.entries), None)):
        # What was asked for by name is not left out with a note: a gate over nothing would always pass.
        raise ZoolensError(absent.notes[0])
    by_architecture = members(entry for listed in listings for entry in listed.entries)
    return {name: by_architecture[name] for name in by_architecture if name in wanted}, notes


def _untrusted(names: Iterable[str]) -> list[str]:
    return [
        f"No evaluation in the store used a dataset named {name!r}: to trust it changes nothing."
        for name in sorted(names)
    ]


def _elsewhere(evidence: AuditEvidence) -> list[str]:
    """A note on networks that are listed, but whose file would have to be fetched first."""
    absent = [
        network.ref for network in evidence.all_networks if network.structure.error and network.structure.source is None
    ]
    if not absent:
        return []
    files = "file is" if len(absent) == 1 else "files are"
    summary = f"{_counted(len(absent), 'network')} whose {files} not here, such as {absent[0]}"
    return [f"Claims only, because the structure is missing: {summary}. `zoolens pull` fetches them."]


def _wanted_architectures(archs: Collection[str]) -> set[str]:
    known = [entry.id for entry in architectures()]
    wanted = set()
    for pattern in archs:
        matching = {name for name in known if fnmatch(name, pattern.lower())}
        by_ref = architecture(pattern)
        if not matching and by_ref is None:
            raise UnknownName("architecture", pattern, known)
        wanted |= matching or {by_ref.id} if by_ref else matching
    return wanted or set(known)


def gather(
    chosen: Mapping[str, Sequence[Member]],
    structures: Sequence[Structure],
    claims: Sequence[ClaimRow],
    judged: Sequence[ClaimVerdict],
    memo: Memo,
    progress: Progress | None = None,
) -> AuditEvidence:
    networks: dict[str, tuple[ZooNetwork, ...]] = {}
    grouped = {}
    conform: list[Conformance] = []
    watcher = progress or Silent()
    watcher.begin("networks", "comparing", len(chosen))
    processes = ComparingProcesses(len(structures))
    # A thread for each process: the work itself is done there. Processes end first, so that no thread waits for one.
    with ThreadPoolExecutor(processes.count) as threads, memo.deriving(processes):
        compared = threads.map(lambda members: _compared(members, structures, memo), chosen.items())
        for name, one in zip(chosen, compared, strict=True):
            networks[name], grouped[name], departing = one
            conform += departing
            watcher.advance(1)
    watcher.end()
    return AuditEvidence(networks, grouped, tuple(conform), claims, judged)


def _compared(
    named: tuple[str, Sequence[Member]], structures: Sequence[Structure], memo: Memo
) -> tuple[tuple[ZooNetwork, ...], Grouped, list[Conformance]]:
    """The networks of one architecture, which of them are the same, and where they depart from the paper."""
    name, members = named
    networks = zoo_networks({name: members}, structures, memo)[name]
    conform = [_conformance(network, memo) for network in networks if network.known and name in papers()]
    return networks, group(networks, memo), conform


def conclude(evidence: AuditEvidence, notes: Sequence[str], facts: Mapping[str, Any]) -> Audit:
    """Findings and rows from evidence alone."""
    known = [same_name[0].architecture for same_name in evidence.networks.values()]
    first = claim_spreads.spreads(evidence.claims, claim_spreads.FIRST_WEIGHTS, known=known)
    best = claim_spreads.spreads(evidence.claims, claim_spreads.BEST_TODAY, known=known)
    rows = _rows(evidence, first, best)
    findings = ranked(_findings(evidence, first, rows))
    ranks = [
        ZooRank(standing.zoo, standing.compared, standing.highest, standing.lowest)
        for standing in claim_spreads.standings(first)
    ]
    judged = [
        JudgedClaim(verdict.claim.ref, verdict.claim.metric, str(verdict.judgement), verdict.sentence)
        for verdict in evidence.verdicts
    ]
    audit = Audit(rows, findings, tuple(ranks), tuple(evidence.conformance), tuple(judged), tuple(notes), facts)
    return replace(audit, facts={"summary": _said(audit), **facts})


def _conformance(network: ZooNetwork, memo: Memo) -> Conformance:
    name = network.architecture.id
    paper = papers()[name]
    job = {"architecture": name, "graph": network.sent, "name": network.label}
    departing = memo.recall("paper", (name, network.content, network.label), departing_words, job)
    known = network.understood or bool(departing)
    cited = f"{paper.citation.authors.partition(',')[0]} et al., {paper.citation.title} ({paper.citation.venue})"
    return Conformance(name, network.zoo, network.name, cited, paper.taken_from, tuple(departing), known)


def departing_words(job: Job) -> list[str]:
    """Where one graph departs from the paper of its architecture."""
    found = departures(job["architecture"], received(job["graph"]), name=job["name"])
    return [departure.text for departure in found]


def _rows(
    evidence: AuditEvidence, first: Sequence[claim_spreads.Spread], best: Sequence[claim_spreads.Spread]
) -> tuple[ArchitectureRow, ...]:
    spreads = {
        "first": {spread.architecture.id: spread for spread in first},
        "best": {spread.architecture.id: spread for spread in best},
    }
    claims = first_claims(evidence.claims)
    return tuple(
        architecture_row(same_name[0].architecture, same_name, evidence.grouped[name], spreads, claims)
        for name, same_name in evidence.networks.items()
    )


def _findings(
    evidence: AuditEvidence, first: Sequence[claim_spreads.Spread], rows: Sequence[ArchitectureRow]
) -> Iterator[Finding]:
    everything = evidence.all_networks
    for grouped in evidence.grouped.values():
        if grouped.groups:
            yield from structure_rules.other_networks(grouped)
            yield from structure_rules.not_known(grouped)
            yield from structure_rules.other_sizes(grouped)
            yield from structure_rules.other_constants(grouped)
            yield from structure_rules.shortcuts(grouped)
    misnamed = list(naming.misnamed(everything))
    yield from misnamed
    yield from claim_rules.accuracy_spreads(first)
    yield from claim_rules.counted(everything, evidence.claims)
    others = {finding.models[0] for finding in misnamed}
    yield from file_sizes.file_sizes(evidence.networks, evidence.claims, others)
    owners = {ref: network.architecture.id for network in everything for ref in network.refs}
    yield from claim_rules.measured(evidence.verdicts, owners)
    yield from counting.counter_noise(rows)
    yield from paper_rules.departures(evidence.conformance, everything)
    yield from failures.unreadable(everything)
    yield from failures.uncounted(everything)


def _said(audit: Audit) -> str:
    several = sum(row.groups > 1 for row in audit.shared)
    shared = _counted(len(audit.shared), "architecture")
    stand = "name stands" if several == 1 else "names stand"
    return (
        f"{shared} whose structure is known in two zoos or more, {_counted(len(audit.zoos), 'zoo')}: "
        f"{several} {stand} for more than one network."
    )


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _facts(structures: Sequence[Structure], seconds: float) -> dict[str, Any]:
    sources = {read.source.key: read for read in structures if read.source is not None}
    versions: dict[str, str] = {}
    for read in sources.values():
        if read.source is not None and read.error is None:
            versions |= {name: str(version) for name, version in read.source.stack.identity["packages"].items()}
    return {
        "zoolens": __version__,
        "versions": dict(sorted(versions.items())),
        "structures": len(sources),
        "structures_read_now": sum(not read.kept for read in sources.values()),
        "seconds": round(seconds, 1),
    }
