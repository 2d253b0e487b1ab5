"""Parameters that a model holds beside those that its answers need: auxiliary heads, and tensors merged or cut off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from zoolens.base.phrases import first_few
from zoolens.findings.graph.ir.model import Graph

_NAMED: Final = 3  # parts of a network in one sentence


@dataclass(frozen=True)
class HeldParameters:
    """Learned numbers, statistics of norms aside. `used` lead to an output once what can be merged is merged."""

    total: int
    used: int
    unused: Mapping[str, int] = field(default_factory=dict)  # by part of the network: in no operation of an output

    @property
    def merged(self) -> int:
        """Those that only mean something together with others, such as a second scale after a norm's own, and rows of
        a table of positions beyond the length of the input."""
        return self.total - self.used - sum(self.unused.values())

    @property
    def text(self) -> str:
        """How many are held, and why, as it stands behind a count of those in use."""
        return f"{self.total:,} held: {self.reason}"

    @property
    def reason(self) -> str:
        """Why more are held than used, in words."""
        unused = sum(self.unused.values())
        parts = sorted(self.unused, key=lambda name: -self.unused[name])
        named = first_few([f"{part} {self.unused[part]:,}" for part in parts], _NAMED, rest="more parts")
        reasons = [f"{unused:,} lead to no output ({named})"] if unused else []
        reasons += [f"{self.merged:,} are merged with others or cut off"] if self.merged else []
        return " and ".join(reasons)


def held_parameters(graph: Graph) -> HeldParameters | None:
    """What the source of a graph holds, if that is more than the graph needs; None where it is not, or not known."""
    total = graph.facts.get("parameters_total")
    if not isinstance(total, int):
        return None
    total -= int(graph.facts.get("statistics") or 0)
    unused = {str(name): int(count) for name, count in dict(graph.facts.get("unused") or {}).items()}
    if total <= graph.parameters:
        return None
    if sum(unused.values()) > total - graph.parameters:
        unused = {}
    return HeldParameters(total, graph.parameters, unused)


def held_data(graph: Graph) -> dict[str, Any]:
    """JSON form of the held parameters; empty if all of them are used."""
    held = held_parameters(graph)
    if held is None:
        return {}
    return {"parameters_held": held.total, "parameters_unused": dict(held.unused), "parameters_merged": held.merged}
