"""Networks that are not what they are called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from zoolens.audit.findings import Finding, Severity
from zoolens.audit.grouping import Grouped
from zoolens.audit.networks import ZooNetwork


def misnamed(grouped: Mapping[str, Grouped], names: Mapping[str, str]) -> Iterator[Finding]:
    """A network that differs from its namesakes and is, layer by layer, what other zoos call something else."""
    owners: dict[str, str] = {}
    for architecture, found in grouped.items():
        for network in found.groups[0] if found.groups else ():
            owners.setdefault(_digest(network), architecture)
    for architecture, found in grouped.items():
        for group in found.groups[1:]:
            for network in group:
                really = owners.get(_digest(network), architecture)
                if really != architecture:
                    yield _misnamed(network, names[really], found, grouped[really])


def _misnamed(network: ZooNetwork, really: str, named: Grouped, true: Grouped) -> Finding:
    equals = ", ".join(one.ref for one in true.groups[0][:3])
    return Finding(
        "naming/other architecture",
        Severity.HIGH,
        network.architecture.id,
        (network.ref,),
        f"{network.ref} is called {network.architecture.name} but is {really}: its structure equals {equals}",
        (
            f"{network.figure('macs'):,} multiply-accumulates, {network.figure('parameters'):,} parameters",
            *(
                f"{one.ref}, called the same: {one.figure('macs'):,} and {one.figure('parameters'):,}"
                for one in named.groups[0]
            ),
        ),
        f"Call it {really}.",
    )


def _digest(network: ZooNetwork) -> str:
    return network.profile.digest if network.profile else ""
