"""Which of the networks with one name are the same network, and how the others differ from it.

Two networks are the same if nothing differs but constants that leave every layer in its place: epsilon, the side
on which padding lies, biases, the number of classes. The largest group is the reference: where zoos disagree, most
users have met the network that most zoos offer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zoolens.audit.networks import ZooNetwork
from zoolens.graph.diff.causes import CLASSES, CONSTANTS
from zoolens.graph.diff.report import Diff, diff

HARMLESS = CONSTANTS | {CLASSES}


@dataclass(frozen=True)
class Comparison:
    """`other` against `base`: `diff` reads from base to other."""

    base: ZooNetwork
    other: ZooNetwork
    diff: Diff

    @property
    def causes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.cause for one in self.diff.differences))

    @property
    def same_network(self) -> bool:
        return set(self.causes) <= HARMLESS


@dataclass(frozen=True)
class Grouped:
    """`groups[0]` is the reference. `between` compares the others with it, `within` each with its group's first."""

    groups: tuple[tuple[ZooNetwork, ...], ...]
    between: tuple[Comparison, ...]
    within: tuple[Comparison, ...]

    def number(self, network: ZooNetwork) -> int | None:
        """The place of its group; None if its structure is not known."""
        return next((place for place, members in enumerate(self.groups) if network.ref in _refs(members)), None)


def group(networks: Sequence[ZooNetwork]) -> Grouped:
    found: list[list[ZooNetwork]] = []
    within: list[Comparison] = []
    for network in networks:
        if not network.known:
            continue
        for members in found:
            comparison = compare(members[0], network)
            if comparison.same_network:
                members.append(network)
                within.append(comparison)
                break
        else:
            found.append([network])
    found.sort(key=lambda members: -len({one.zoo for one in members}))  # stable: the table's order decides ties
    between = [compare(found[0][0], members[0]) for members in found[1:]]
    return Grouped(tuple(tuple(members) for members in found), tuple(between), tuple(within))


def compare(base: ZooNetwork, other: ZooNetwork) -> Comparison:
    return Comparison(base, other, diff(base.graph, other.graph, names=(label(base), label(other))))


def label(network: ZooNetwork) -> str:
    return f"{network.zoo} {network.name}"


def _refs(networks: Sequence[ZooNetwork]) -> set[str]:
    return {network.ref for network in networks}
