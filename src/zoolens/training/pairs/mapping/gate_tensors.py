"""The tensors of recurrent layers in a parameter map: gates that one side packs, and biases that add up.

Gates are compared one by one. What moves is told by tensor: the parts of one tensor that go to one other are one move.
torch adds two biases in every gate, Keras and Flax mostly one: their sum is the other side's bias.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from zoolens.findings.graph.diff.alignment import LayerPair
from zoolens.findings.graph.diff.cost_shares import INTERPLAY
from zoolens.findings.graph.diff.diff_findings import Difference
from zoolens.findings.graph.diff.report import Diff
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.recurrent_gates import TENSORS, added_to
from zoolens.training.pairs.mapping.origins import Origin
from zoolens.training.pairs.networks.framework import Array

Origins = Mapping[str, Origin]  # of the tensors of a side, by key


@dataclass(frozen=True)
class BiasSum:
    """A second bias of A's gates, which is added to B's only one."""

    bias: Origin
    into: Origin
    layers: tuple[str, str]

    def apply(self, values: Array, bias: Array) -> None:
        """Add A's numbers to B's, in place."""
        self.into.put(bias, (self.into.taken(bias) + self.bias.taken(values)).astype(bias.dtype))


def bias_sums(pairs: Sequence[LayerPair], origins: tuple[Origins, Origins]) -> tuple[BiasSum, ...]:
    """The second biases of A that B has no place for but has a first one."""
    return _joined_sums(each for a, b in _recurrent(pairs) for each in _of_layers(a, b, origins))


def second_biases(pairs: Sequence[LayerPair], origins: tuple[Origins, Origins]) -> tuple[BiasSum, ...]:
    """The second biases of B that A has no place for, each with the first bias of B that it is added to."""
    own = origins[1], origins[1]
    return _joined_sums(each for a, b in _recurrent(pairs) for each in _of_layers(b, b, own, lacking=a))


def _recurrent(pairs: Sequence[LayerPair]) -> Iterator[tuple[Node, Node]]:
    """Recurrent layers that both sides have."""
    for pair in pairs:
        if pair.a and pair.b and pair.a.node.op == pair.b.node.op == "recurrent_layer":
            yield pair.a.node, pair.b.node


def _joined_sums(sums: Iterable[BiasSum]) -> tuple[BiasSum, ...]:
    """Sums of the same two tensors, such as one for each gate that they pack, as one."""
    found: dict[tuple[str, str], list[BiasSum]] = {}
    for each in sums:
        found.setdefault((each.bias.tensor, each.into.tensor), []).append(each)
    return tuple(_joined(members) for members in found.values())


def _of_layers(a: Node, b: Node, origins: tuple[Origins, Origins], *, lacking: Node | None = None) -> Iterator[BiasSum]:
    """Biases of `a` that are added to one of `b`; `lacking` is the layer that has the first and not the second."""
    other = lacking or b
    for tensor in a.parameters:
        first = added_to(tensor.role, str(a.get("kind")), reset_first=bool(a.get("reset_first")))
        target = b.parameter(first) if first is not None else None
        if target is None or other.parameter(tensor.role) is not None or other.parameter(target.role) is None:
            continue
        bias, into = origins[0].get(tensor.key), origins[1].get(target.key)
        if bias is not None and into is not None and tensor.size == target.size:
            yield BiasSum(bias, into, (a.source or a.name, b.source or b.name))


def _joined(members: Sequence[BiasSum]) -> BiasSum:
    bias, into = joined_origins([each.bias for each in members], [each.into for each in members])
    return replace(members[0], bias=bias, into=into)


def without_added_biases(diff: Diff) -> Diff:
    """The comparison without what only comes from gates that have two biases on one side and their sum on the
    other: they compute the same."""
    more = _second_biases(diff.b) - _second_biases(diff.a)
    kept = [each for each in diff.differences if not (each.cause == INTERPLAY and not each.macs and _is(each, more))]
    return replace(diff, differences=tuple(kept)) if len(kept) < len(diff.differences) else diff


def _is(difference: Difference, more: int) -> bool:
    return more != 0 and difference.parameters == more


def _second_biases(graph: Graph) -> int:
    """Numbers of biases that are added to another one of their gate."""
    sizes: dict[str, int] = {}
    for node in graph.nodes:
        if node.op != "recurrent_layer":
            continue
        for tensor in node.parameters:
            first = added_to(tensor.role, str(node.get("kind")), reset_first=bool(node.get("reset_first")))
            if first is not None and node.parameter(first) is not None:
                sizes[tensor.key] = tensor.size
    return sum(sizes.values())


def joined_origins(a: Sequence[Origin], b: Sequence[Origin]) -> tuple[Origin, Origin]:
    """Parts of one tensor that face parts of another, as one part each. A place that is named twice counts once."""
    if len(a) == 1:
        return a[0], b[0]
    places = [np.concatenate([origin.places() for origin in side]) for side in (a, b)]
    _, once = np.unique(places[1], return_index=True)
    kept = np.sort(once)
    return (
        Origin(a[0].tensor, a[0].shape, None, places[0][kept]),
        Origin(b[0].tensor, b[0].shape, None, places[1][kept]),
    )


def gate_of(role: str) -> str:
    """The gate that a tensor belongs to; empty where its role is that of no gate's."""
    ends = (f"_{tensor}" for tensor in reversed(TENSORS))
    return next((role.removesuffix(end) for end in ends if role.endswith(end) and role != end[1:]), "")


def gate_order(gates: Sequence[str], origins: Sequence[Origin]) -> tuple[str, ...]:
    """Gates in the order in which a tensor packs them."""
    first = {gate: int(origin.places().min()) for gate, origin in zip(gates, origins, strict=True)}
    return tuple(sorted(first, key=lambda gate: first[gate]))
