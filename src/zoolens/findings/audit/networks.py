"""What the zoos offer under one architecture's name: one network for each structure, with all weights that share it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from zoolens.findings.audit.architectures import ArchitectureEntry, Member
from zoolens.findings.audit.comparing_processes import Job, received, sent
from zoolens.findings.audit.memo import Memo
from zoolens.findings.audit.profiles import StructureProfile, from_json, profile
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.structures.structure import Structure


@dataclass(frozen=True)
class ZooNetwork:
    """`members` are in the zoo's order, the first published weights first; `structure` is that of all of them."""

    architecture: ArchitectureEntry
    members: tuple[Member, ...]
    structure: Structure
    profile: StructureProfile | None = None  # None where the structure is not known
    namesake: bool = False  # its zoo has another structure under the same name before it, such as for a larger image

    @property
    def zoo(self) -> str:
        return self.members[0].zoo

    @property
    def ref(self) -> str:
        return self.members[0].ref

    @property
    def refs(self) -> tuple[str, ...]:
        return tuple(member.ref for member in self.members)

    @property
    def name(self) -> str:
        """What the zoo calls the network, weights aside unless only they tell it from another."""
        source = self.structure.source
        built = self.members[0].entry.manifest.attributes.get("library")
        own = self.members[0].entry.manifest.name
        return source.request.subject if source and built and not self.namesake else own

    @property
    def label(self) -> str:
        return f"{self.zoo} {self.name}"

    @property
    def known(self) -> bool:
        return self.structure.packed is not None

    @property
    def understood(self) -> bool:
        """Whether its structure is known and every operator in it; otherwise its cost is a lower bound."""
        return self.profile is not None and not self.profile.unknown

    @property
    def graph(self) -> Graph:
        return self.structure.graph

    @cached_property
    def content(self) -> str:
        """A digest of the graph."""
        return hashlib.sha256(self.structure.packed or b"").hexdigest()

    @cached_property
    def sent(self) -> str:
        """The graph as a part of a job for another process."""
        return sent(self.structure.packed or b"")

    @property
    def size(self) -> tuple[int, int] | None:
        return self.structure.source.request.size if self.structure.source else None

    def figure(self, metric: str) -> int | None:
        value = self.structure.figures.get(metric)
        return None if value is None else int(value)

    @property
    def parameters(self) -> str:
        """How many parameters the network uses, and how many its source holds where those are more."""
        count = self.figure("parameters")
        known = self.profile
        used = "–" if count is None else f"{count:,}"
        return f"{used} ({known.held:,} held: {known.held_reason})" if known and known.held else used


def zoo_networks(
    members: Mapping[str, Sequence[Member]], structures: Iterable[Structure], memo: Memo
) -> dict[str, tuple[ZooNetwork, ...]]:
    """The networks of each architecture, in the order of the table."""
    by_ref = {structure.entry.ref: structure for structure in structures}
    return {name: tuple(_networks(same_name, by_ref, memo)) for name, same_name in members.items()}


def _networks(members: Sequence[Member], by_ref: Mapping[str, Structure], memo: Memo) -> list[ZooNetwork]:
    sharing: dict[tuple[str, object], list[Member]] = {}
    for member in members:
        source = by_ref[member.ref].source
        sharing.setdefault((member.zoo, source.key if source else member.ref), []).append(member)
    networks = [_network(same, by_ref[same[0].ref], memo) for same in sharing.values()]
    labels = [network.label for network in networks]
    return [replace(network, namesake=network.label in labels[:place]) for place, network in enumerate(networks)]


def _network(members: Sequence[Member], structure: Structure, memo: Memo) -> ZooNetwork:
    network = ZooNetwork(members[0].architecture, tuple(members), structure)
    if not network.known:
        return network
    known = memo.recall("profile", (network.content,), profiled, {"graph": network.sent})
    return replace(network, profile=from_json(known))


def profiled(job: Job) -> dict[str, Any]:
    """The profile of one graph."""
    return asdict(profile(received(job["graph"])))
