"""What the zoos offer under one architecture's name: one network for each structure, with all weights that share it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from zoolens.audit.architectures import ArchitectureEntry, Member
from zoolens.graph.model import Graph
from zoolens.graph.structure import Structure


@dataclass(frozen=True)
class ZooNetwork:
    """`members` are in the zoo's order, the first published weights first; `structure` is that of all of them."""

    architecture: ArchitectureEntry
    members: tuple[Member, ...]
    structure: Structure

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
        """What the zoo calls the network, weights aside."""
        source = self.structure.source
        built = self.members[0].entry.manifest.attributes.get("library")
        return source.request.subject if source and built else self.members[0].entry.manifest.name

    @property
    def known(self) -> bool:
        return self.structure.packed is not None

    @property
    def graph(self) -> Graph:
        return self.structure.graph

    @property
    def size(self) -> tuple[int, int] | None:
        return self.structure.source.request.size if self.structure.source else None

    def figure(self, metric: str) -> int | None:
        value = self.structure.figures.get(metric)
        return None if value is None else int(value)


def zoo_networks(
    members: Mapping[str, Sequence[Member]], structures: Iterable[Structure]
) -> dict[str, tuple[ZooNetwork, ...]]:
    """For each architecture its networks, in the order of the table."""
    by_ref = {structure.entry.ref: structure for structure in structures}
    return {name: tuple(_networks(found, by_ref)) for name, found in members.items()}


def _networks(members: Sequence[Member], by_ref: Mapping[str, Structure]) -> list[ZooNetwork]:
    sharing: dict[tuple[str, object], list[Member]] = {}
    for member in members:
        source = by_ref[member.ref].source
        sharing.setdefault((member.zoo, source.key if source else member.ref), []).append(member)
    return [ZooNetwork(same[0].architecture, tuple(same), by_ref[same[0].ref]) for same in sharing.values()]
