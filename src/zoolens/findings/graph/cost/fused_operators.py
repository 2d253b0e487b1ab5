"""A network as the operators that a runtime executes: each layer with the activations that follow it at once, which
every runtime computes together with it. Equal operators have equal keys, in whatever network they stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Final

import numpy as np

from zoolens.findings.graph.ir.equality import signature
from zoolens.findings.graph.ir.model import Array, Graph, Node
from zoolens.findings.graph.ir.seeded_values import seeded_values
from zoolens.findings.graph.ir.vocabulary import LEAVES

FREE: Final = LEAVES | {"identity", "dropout", "flatten", "reshape"}
FUSED: Final = frozenset({"relu", "relu6", "clip", "leaky_relu", "hard_swish", "silu", "sigmoid", "tanh", "gelu"})
_LAYERS: Final = frozenset({"conv", "dense", "conv_transpose", "batch_norm", "add"})


@dataclass(frozen=True)
class FusedOperator:
    """Nodes that a runtime executes together. The first of `nodes` does the work; `leaves` are the values that go
    in."""

    nodes: tuple[Node, ...]
    leaves: tuple[Node, ...]

    @property
    def op(self) -> str:
        return self.nodes[0].op

    @cached_property
    def key(self) -> str:
        """A digest of all that decides how long the operator takes: ops, attributes and shapes, but no values and not
        what makes its inputs."""
        text = repr(([signature(node) for node in self.nodes], [signature(_leaf(leaf, "")) for leaf in self.leaves]))
        return blake2b(text.encode(), digest_size=16).hexdigest()

    def describe(self) -> str:
        shapes = ", ".join("×".join(map(str, leaf.shape)) for leaf in self.leaves)
        return f"{'+'.join(node.op for node in self.nodes)} of {shapes or 'nothing'}"

    def as_graph(self) -> Graph:
        """A network of this operator alone, with seeded weights."""
        names = {leaf.name: f"in{place}" for place, leaf in enumerate(self.leaves)}
        nodes = [_leaf(leaf, names[leaf.name]) for leaf in self.leaves]
        for place, node in enumerate(self.nodes):
            names[node.name] = f"out{place}"
            parameters = tuple(replace(tensor, key=f"{place}.{tensor.role}") for tensor in node.parameters)
            inputs = tuple(names[name] for name in node.inputs)
            nodes.append(replace(node, name=names[node.name], inputs=inputs, parameters=parameters))
        tensors = [tensor for node in nodes for tensor in node.parameters]
        weights = {tensor.key: _values(tensor.role, tensor.key, tensor.shape) for tensor in tensors}
        return Graph(f"operator-{self.key[:12]}", tuple(nodes), (nodes[-1].name,), weights)


def operators(graph: Graph) -> tuple[FusedOperator, ...]:
    """Every operator that takes time, in order of computation."""
    absorbed: set[str] = set()
    fused = []
    for node in graph.nodes:
        if node.op in FREE or node.name in absorbed:
            continue
        chain = [node, *_fused(graph, node)]
        absorbed.update(member.name for member in chain)
        fused.append(FusedOperator(tuple(chain), tuple(_leaves(graph, chain))))
    return tuple(fused)


def longest_path(graph: Graph, seconds: Mapping[str, float]) -> float:
    """Time of the slowest chain of dependent nodes, from seconds by name of an operator's first node."""
    done: dict[str, float] = {}
    for node in graph.nodes:
        done[node.name] = max((done[name] for name in node.inputs), default=0.0) + seconds.get(node.name, 0.0)
    return max((done[name] for name in graph.outputs), default=0.0)


def _fused(graph: Graph, node: Node) -> Iterator[Node]:
    if node.op not in _LAYERS:
        return
    following = graph.sole_consumer(node.name)
    if following is not None and following.op in FUSED and len(following.inputs) == 1:
        yield following


def _leaves(graph: Graph, chain: Sequence[Node]) -> Iterator[Node]:
    inside = {node.name for node in chain}
    for name in dict.fromkeys(name for node in chain for name in node.inputs if name not in inside):
        yield graph.by_name[name]


def _leaf(leaf: Node, name: str) -> Node:
    """A small constant stays what it is, for it may be a shape or an axis; everything else is fed."""
    if leaf.op == "constant" and leaf.get("value") is not None:
        return replace(leaf, name=name, inputs=())
    return Node(name, "input", (), leaf.shape)


def _values(role: str, key: str, shape: tuple[int, ...]) -> Array:
    values = seeded_values(key, shape)
    return np.abs(values) + 0.5 if role in ("variance", "norm_variance") else values
