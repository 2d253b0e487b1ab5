"""Networks that are not what the paper describes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zoolens.findings.audit.audit_findings import Finding, Severity
from zoolens.findings.audit.document import Conformance
from zoolens.findings.audit.networks import ZooNetwork


def departures(conformance: Iterable[Conformance], networks: Iterable[ZooNetwork]) -> Iterator[Finding]:
    refs = {(network.architecture.id, network.zoo, network.name): network.refs for network in networks}
    for network in conformance:
        if network.departures:
            yield Finding(
                "papers/departure",
                Severity.MEDIUM,
                network.architecture,
                refs.get((network.architecture, network.zoo, network.name), ()),
                f"{network.zoo} {network.name} departs from its paper: {_counted(network.departures)}",
                (*network.departures, f"The paper: {network.paper}; {network.table}."),
                "Cite the implementation, not only the paper, when you report results with it.",
            )


def _counted(departures: tuple[str, ...]) -> str:
    more = f"; and {len(departures) - 1} more" if len(departures) > 1 else ""
    return f"{departures[0]}{more}"
