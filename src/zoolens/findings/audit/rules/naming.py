"""Networks that are not what they are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from zoolens.findings.audit.architectures import architectures
from zoolens.findings.audit.audit_findings import Finding, Severity
from zoolens.findings.audit.networks import ZooNetwork
from zoolens.findings.graph.signatures.known_networks import shipped


@dataclass(frozen=True)
class _Namesake:
    """A network somewhere else with the same structure, and what it is called there."""

    zoo: str
    ref: str
    architecture: str


def misnamed(networks: Iterable[ZooNetwork]) -> Iterator[Finding]:
    """A network that is, layer by layer, what two or more others call something else and nobody else calls so.

    The voices are those of the audited zoos, of the zoos whose structures are shipped with zoolens, and of the papers:
    a zoo that is audited alone is found out too.
    """
    profiled = [network for network in networks if network.understood]
    by_structure = _by_structure(profiled)
    known = (*architectures(), *(network.architecture for network in profiled))
    names = {architecture.id: architecture.name for architecture in known}
    for network in profiled:
        alike = by_structure[network.profile.digest] if network.profile else []
        elsewhere = [namesake for namesake in alike if namesake.zoo != network.zoo]
        voices = Counter(
            architecture for _, architecture in {(namesake.zoo, namesake.architecture) for namesake in elsewhere}
        )
        really, most = max(voices.items(), key=lambda pair: pair[1], default=("", 0))
        if most > 1 and network.architecture.id not in voices:
            equals = [namesake for namesake in elsewhere if namesake.architecture == really]
            yield _misnamed(network, names[really], equals, profiled)


def _by_structure(networks: Iterable[ZooNetwork]) -> Mapping[str, list[_Namesake]]:
    namesakes: dict[str, list[_Namesake]] = {}
    for network in networks:
        if network.profile:
            namesake = _Namesake(network.zoo, network.ref, network.architecture.id)
            namesakes.setdefault(network.profile.digest, []).append(namesake)
    ids = {architecture.id for architecture in architectures()}
    for known in shipped():
        if known.architecture in ids:
            namesakes.setdefault(known.signature.digest, []).append(_Namesake(known.zoo, known.ref, known.architecture))
    return namesakes


def _misnamed(network: ZooNetwork, really: str, equals: list[_Namesake], networks: Iterable[ZooNetwork]) -> Finding:
    first_of_each = list({namesake.zoo: namesake.ref for namesake in reversed(equals)}.values())[::-1]
    rightly = [
        other for other in networks if other.architecture.id == network.architecture.id and other.zoo != network.zoo
    ]
    return Finding(
        "naming/other architecture",
        Severity.HIGH,
        network.architecture.id,
        (network.ref,),
        f"{network.ref} is called {network.architecture.name} but is {really}: it has the layers of "
        f"{', '.join(first_of_each[:3])}",
        (
            f"{network.figure('macs'):,} multiply-accumulates, parameters: {network.parameters}",
            *(f"{other.ref}, called the same: {other.figure('macs'):,} and {other.parameters}" for other in rightly),
        ),
        f"Call it {really}.",
    )
