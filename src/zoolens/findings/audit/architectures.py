"""Which models of which zoo go by the same architecture's name: `data/architectures.yaml`, and its use on a catalogue.

Membership is about names alone. A zoo may be wrong about what its file holds; other parts of the audit find that out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from zoolens.inventory.manifests.yaml_tree import load_own_yaml
from zoolens.inventory.zoos.zoo import Entry


@dataclass(frozen=True)
class ArchitectureEntry:
    """One architecture. `members` are exact model names by zoo; the first of a zoo has its first published weights."""

    id: str
    name: str
    family: str
    year: int
    paper: str
    study: bool  # of Montes et al. 2022
    members: Mapping[str, tuple[str, ...]] = field(hash=False)

    @property
    def zoos(self) -> tuple[str, ...]:
        return tuple(self.members)


@dataclass(frozen=True)
class Member:
    """A catalogue entry as a member of an architecture; rank 0 is the first of its zoo."""

    architecture: ArchitectureEntry
    entry: Entry
    rank: int

    @property
    def zoo(self) -> str:
        return self.entry.zoo

    @property
    def ref(self) -> str:
        return self.entry.ref


@cache
def architectures() -> tuple[ArchitectureEntry, ...]:
    """All known architectures, by family."""
    file = resources.files("zoolens.findings.audit").joinpath("data/architectures.yaml")
    rows = load_own_yaml(file.read_text(encoding="utf-8"))["architectures"]
    return tuple(_architecture(row) for row in rows)


def _architecture(row: dict[str, Any]) -> ArchitectureEntry:
    members = {zoo: tuple(names) for zoo, names in row["members"].items()}
    facts = {key: row[key] for key in ("id", "name", "family", "year", "paper")}
    return ArchitectureEntry(**facts, study=row.get("study", False), members=members)


def architecture(name: str) -> ArchitectureEntry | None:
    """The architecture of this id, or the one whose member "zoo:name" this is."""
    return _by_id().get(name) or (_by_ref()[name][0] if name in _by_ref() else None)


def members(entries: Iterable[Entry]) -> dict[str, list[Member]]:
    """The entries that belong to an architecture, by its id and in the order of the table."""
    members_of: dict[str, list[Member]] = {}
    for entry in entries:
        if entry.ref in _by_ref():
            known, rank = _by_ref()[entry.ref]
            members_of.setdefault(known.id, []).append(Member(known, entry, rank))
    return {entry.id: sorted(members_of[entry.id], key=_place) for entry in architectures() if entry.id in members_of}


def _place(member: Member) -> tuple[int, int]:
    return member.architecture.zoos.index(member.zoo), member.rank


@cache
def _by_id() -> dict[str, ArchitectureEntry]:
    return {entry.id: entry for entry in architectures()}


@cache
def _by_ref() -> dict[str, tuple[ArchitectureEntry, int]]:
    return {
        f"{zoo}:{name}": (entry, rank)
        for entry in architectures()
        for zoo, names in entry.members.items()
        for rank, name in enumerate(names)
    }
