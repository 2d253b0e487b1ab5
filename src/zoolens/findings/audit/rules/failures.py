"""What could not be looked at: said, never passed over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zoolens.findings.audit.audit_findings import Finding, Severity
from zoolens.findings.audit.networks import ZooNetwork


def unreadable(networks: Iterable[ZooNetwork]) -> Iterator[Finding]:
    """Networks that should be readable here, but are not. One whose file is elsewhere is no failure."""
    for network in networks:
        if network.structure.error and network.structure.source is not None:
            yield Finding(
                "failures/unreadable",
                Severity.MEDIUM,
                network.architecture.id,
                network.refs,
                f"The structure of {network.ref} could not be read",
                (network.structure.error,),
                "`zoolens audit --fresh` tries again; the other zoos' networks are compared without it.",
            )


def uncounted(networks: Iterable[ZooNetwork]) -> Iterator[Finding]:
    """Operators nobody taught us, in networks whose other layers are counted."""
    for network in networks:
        if network.profile and network.profile.unknown:
            yield Finding(
                "failures/unknown operators",
                Severity.LOW,
                network.architecture.id,
                network.refs,
                f"{network.ref}: {network.figure('unknown_operators')} operators are unknown and not counted",
                (", ".join(network.profile.unknown),),
                "Its cost is a lower bound.",
            )
