"""Which kernel of a runtime computes a layer, and in which precision, where its profiler tells."""

from __future__ import annotations

from dataclasses import dataclass

from zoolens.base.errors import ZoolensError
from zoolens.findings.divergence.sides import Feeds, Side
from zoolens.inventory.runtimes.observing import OperatorTime, Profile


@dataclass(frozen=True)
class Kernel:
    operator: str
    name: str | None = None
    precision: str | None = None

    @property
    def words(self) -> str:
        parts = [part for part in (self.name, self.precision) if part]
        return f"{self.operator} ({', '.join(parts)})" if parts else self.operator


def profile_of(side: Side, feeds: Feeds) -> Profile | None:
    """One observed prediction; None where the runtime cannot be observed so."""
    try:
        return side.subject.session.profile(side.batched(feeds), 1)[0]
    except (ZoolensError, NotImplementedError, IndexError):
        return None


def kernel_of(side: Side, node: str, profile: Profile | None) -> Kernel | None:
    """What computed a node of the graph, by the names that the node and its tensor have in the file."""
    if profile is None or side.graph is None:
        return None
    names = {node, side.graph.by_name[node].source}
    if node in side.points:
        point = side.points[node].point
        names |= {point.node, point.tensor, point.name}
    names.discard("")
    return next((_kernel(timed) for timed in profile.operators if _computes(timed, names)), None)


def _computes(timed: OperatorTime, names: set[str]) -> bool:
    return timed.level == "layer" and (timed.name in names or not names.isdisjoint(timed.nodes))


def _kernel(timed: OperatorTime) -> Kernel:
    return Kernel(timed.kind or timed.name, timed.kernel, timed.precision)
