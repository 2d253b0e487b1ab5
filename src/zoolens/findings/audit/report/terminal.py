"""The audit on a terminal: what matters, in a screen or two. The rest is in the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import plain, print_table
from zoolens.findings.audit.audit_findings import Severity
from zoolens.findings.audit.document import ArchitectureRow, Audit, counted_claims
from zoolens.findings.audit.rules.counting import NOISE

if TYPE_CHECKING:
    from rich.console import Console

_COLOURS = {Severity.HIGH: "bold red", Severity.MEDIUM: "yellow", Severity.LOW: "cyan", Severity.INFO: "dim"}
TOP = 10
CAUSES = 20


def show(audit: Audit, console: Console, *, all_findings: bool = False) -> None:
    console.print(f"[bold]{plain(str(audit.facts.get('summary', '')))}[/]\n")
    _spreads(audit, console)
    _ranks(audit, console)
    _ratios(audit, console)
    _conformance(audit, console)
    _judged(audit, console)
    _findings(audit, console, everything=all_findings)
    if not audit.coverage.whole:
        console.print(f"[dim]{plain(audit.coverage.text)}[/]")
    for note in audit.notes:
        console.print(f"[dim]{plain(note)}[/]")


def _table(console: Console, title: str, columns: list[tuple[str, bool]], rows: list[list[str]]) -> None:
    if not rows:
        return
    # A title of the table itself would be folded to the table's width.
    console.print(f"[bold]{title}[/]")
    kinds = [Column(name, "number") if right else Column(name, folds=True) for name, right in columns]
    print_table(kinds, rows, console)
    console.print()


def _top(audit: Audit, key: Callable[[ArchitectureRow], float | None]) -> list[ArchitectureRow]:
    known = [row for row in audit.architectures if key(row) is not None]
    return sorted(known, key=lambda row: -(key(row) or 0.0))[:TOP]


def _spreads(audit: Audit, console: Console) -> None:
    """Two tables: only the first is the study's, so only architectures of its list are in it."""
    columns = [("architecture", False), ("spread", True), ("highest", False), ("lowest", False)]
    studied = _top(audit, lambda row: row.spread_first if row.study else None)
    rows = [[row.name, _number(row.spread_first), *_ends(row, first=True)] for row in studied]
    title = "Claimed top-1 as in the 2022 study (its architectures, first weights): widest spreads, in points"
    _table(console, title, columns, rows)
    today = _top(audit, lambda row: row.spread_best)
    rows = [[row.name, _number(row.spread_best), *_ends(row, first=False)] for row in today]
    _table(console, "Claimed top-1 today (all architectures, best weights): widest spreads, in points", columns, rows)


def _ends(row: ArchitectureRow, *, first: bool) -> list[str]:
    """The highest and the lowest claim, with the zoos that make them."""
    claims = sorted((claim, network.zoo) for network, claim in counted_claims(row, first=first))
    return [f"{zoo} {claim:.2f}" for claim, zoo in (claims[-1], claims[0])]


def _ranks(audit: Audit, console: Console) -> None:
    rows = [[rank.zoo, str(rank.offered), str(rank.highest), str(rank.lowest)] for rank in audit.ranks]
    columns = [("zoo", False), ("offered", True), ("highest", True), ("lowest", True)]
    _table(console, "How often a zoo claims the highest and the lowest top-1", columns, rows)


def _ratios(audit: Audit, console: Console) -> None:
    rows = [
        [row.name, _times(row.macs_ratio), _times(row.real_ratio), _times(row.studied_ratio), row.summary]
        for row in _top(audit, lambda row: row.macs_ratio)
        if row.macs_ratio is not None and row.macs_ratio > 1
    ]
    columns = [("architecture", False), ("all zoos", True), ("study's zoos", True), ("its counters", True), ("", False)]
    title = (
        "Cost: costliest over cheapest of the same name. One counter for all zoos; for the zoos of the 2022 study; "
        "and for the same zoos with the study's counters"
    )
    _table(console, title, columns, rows)
    _equal(audit, console)


def _equal(audit: Audit, console: Console) -> None:
    """How much of what was studied is noise of counters."""
    compared = [row for row in audit.shared if row.study and row.real_ratio is not None]
    equal = [row for row in compared if (row.real_ratio or 0) < NOISE]
    noisy = [row for row in equal if (row.studied_ratio or 0) >= NOISE]
    if compared:
        console.print(
            f"With one counter {len(equal)} of {len(compared)} architectures of the 2022 study cost the same in every "
            f"zoo of it; its counters, one for each zoo, give different costs for "
            f"{len(noisy)} of these.\n"
        )


def _conformance(audit: Audit, console: Console) -> None:
    if not audit.conformance:
        return
    good = sum(network.conforms for network in audit.conformance)
    unknown = sum(not network.known for network in audit.conformance)
    rows = [
        [network.architecture, f"{network.zoo}:{network.name}", "; ".join(network.departures)]
        for network in audit.conformance
        if network.departures
    ]
    open_ = f"; of {unknown} it is not known" if unknown else ""
    title = f"Against the papers: {good} of {len(audit.conformance)} networks conform{open_}; the others:"
    _table(console, title, [("architecture", False), ("model", False), ("departs", False)], rows[:TOP])
    if len(rows) > TOP:
        console.print(f"[dim]… and {len(rows) - TOP} more.[/]\n")


def _judged(audit: Audit, console: Console) -> None:
    rows = [[claim.model, claim.sentence] for claim in audit.judged if claim.verdict != "not comparable"]
    _table(console, "Claims against measurements", [("model", False), ("", False)], rows[:TOP])


def _findings(audit: Audit, console: Console, *, everything: bool) -> None:
    counts = ", ".join(f"{audit.count(severity)} {severity.label}" for severity in reversed(Severity))
    if everything:
        console.print(f"[bold]Findings[/]: {counts}")
        for finding in audit.findings:
            console.print(f"{_badge(finding.severity)}  {plain(finding.title)}")
            console.print(f"        [dim]{plain(finding.id)}[/]")
        return
    causes = audit.causes
    console.print(f"[bold]Findings[/]: {counts}, from {len(causes)} cause{'' if len(causes) == 1 else 's'}")
    for cause in causes[:CAUSES]:
        several = len(cause.findings) > 1
        again = f"{cause.family}, {cause.rule}: {len(cause.findings)} findings, in {', '.join(cause.zoos)}; such as "
        console.print(f"{_badge(cause.severity)}  {plain(again) if several else ''}{plain(cause.title)}")
        console.print(f"        [dim]{plain(cause.findings[0])}[/]")
    hidden = len(causes) - len(causes[:CAUSES])
    more = f"… and {hidden} more causes: " if hidden else ""
    if more or len(causes) < len(audit.findings):
        console.print(f"        [dim]{more}--all lists every finding, --html writes a page.[/]")


def _badge(severity: Severity) -> str:
    return f"[{_COLOURS[severity]}]{severity.label:>6}[/]"


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}×"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
