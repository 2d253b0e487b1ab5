"""A counter's convention as data: which operators it charges, how much, under which heading.

A charge is a term (what is charged for, in words) and an amount per node. The terms of a counter add up to what it
says, so a difference to our multiply-accumulates is explained term by term. It works on raw graphs, where a source's
own operators are all there and the sum is exact, and on canonical ones, where what counts for nothing to us (dropout,
an adaptive pool to the size that is there already) is gone, and its small charges with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final

from zoolens.findings.graph.cost.cost import macs
from zoolens.findings.graph.ir.model import Graph, Node, Shape

Amount = Callable[[Node, Sequence[Shape]], int]

MACS: Final = "multiply-accumulates"
TWICE: Final = "two per multiply-accumulate"
BIAS: Final = "bias"
NORM: Final = "norms"
POOL: Final = "pooling"
MEAN: Final = "global pooling"
ACTIVATION: Final = "activations"
ARITHMETIC: Final = "elementwise arithmetic"
SOFTMAX: Final = "softmax"
ARRANGEMENT: Final = "moving data"
RESIZE: Final = "resizing"
FUSED_ATTENTION: Final = "fused attention, which it does not see"
NO_MODULE: Final = "products outside of modules, which it does not see"


@dataclass(frozen=True)
class Charge:
    term: str
    amount: Amount


def sees_all(node: Node) -> str:
    return ""


@dataclass(frozen=True)
class Convention:
    """The rules by which one counter counts. `charges` are by op; a norm merged into a layer is charged as
    `batch_norm`.

    `unseen` says why the products of a node are not counted, or "" where they are. `modules_only`: it looks at torch
    modules, so that what is called as a function costs nothing.
    """

    summary: str
    per_mac: int = 1
    bias: Mapping[str, int] = field(default_factory=dict)  # op -> per output number of a layer that has one
    charges: Mapping[str, Charge] = field(default_factory=dict)
    unseen: Callable[[Node], str] = sees_all
    modules_only: bool = False

    def predicted(self, graph: Graph) -> dict[str, int]:
        """What the counter says of a graph, by term; terms that are nothing are left out, our MACs are always there."""
        shapes = {node.name: node.shape for node in graph.nodes}
        calling = _calling(graph) if self.modules_only else frozenset()
        terms = {MACS: 0}
        for node in graph.nodes:
            inputs = [shapes[name] for name in node.inputs]
            for term, amount in (*self._products(node, inputs), *self._charges(node, inputs, calling)):
                terms[term] = terms.get(term, 0) + amount
        return {term: amount for term, amount in terms.items() if amount or term == MACS}

    def _products(self, node: Node, inputs: list[Shape]) -> Iterator[tuple[str, int]]:
        products = macs(node, inputs)
        if not products:
            return
        yield MACS, products
        reason = self.unseen(node)
        if reason:
            yield reason, -products
            return
        yield TWICE, products * (self.per_mac - 1)
        if node.parameter("bias"):
            yield BIAS, self.bias.get(node.op, 0) * prod(node.shape)

    def _charges(self, node: Node, inputs: list[Shape], calling: frozenset[str]) -> Iterator[tuple[str, int]]:
        if node.source in calling:
            return
        for op in (node.op, *(("batch_norm",) if node.get("norm") else ())):
            if op in self.charges:
                yield self.charges[op].term, self.charges[op].amount(node, inputs)


def _calling(graph: Graph) -> frozenset[str]:
    """Modules that have modules inside: what such a module computes by itself, it computes with functions."""
    calling = {""}
    for node in graph.nodes:
        path = node.source.split(".")
        calling.update(".".join(path[:depth]) for depth in range(1, len(path)))
    return frozenset(calling)


def per_output(term: str, each: int = 1) -> Charge:
    return Charge(term, lambda node, inputs: each * prod(node.shape))


def per_input(term: str, each: int = 1) -> Charge:
    """Charges so much for each number of the first input."""
    return Charge(term, lambda node, inputs: each * prod(inputs[0]))


def per_window(term: str) -> Charge:
    """Charges one for each number that a pool's window looks at."""
    return Charge(term, lambda node, inputs: prod(node.shape) * prod(node.get("kernel", ())))


def per_operand(term: str, each: int = 1) -> Charge:
    """Charges so much for each output number, once for every operand after the first; a constant is an operand too."""
    return Charge(term, lambda node, inputs: each * prod(node.shape) * max(len(inputs) - 1, 1))


def per_factor(term: str) -> Charge:
    """Charges one for each output number, once for a scale and once for a shift."""
    return Charge(term, lambda node, inputs: prod(node.shape) * max(len(node.parameters), 1))


def by_scale(term: str, with_scale: int, without: int) -> Charge:
    """Norms that cost more where they have a learned scale."""

    def amount(node: Node, inputs: Sequence[Shape]) -> int:
        learned = node.parameter("scale") or node.parameter("norm_scale")
        return (with_scale if learned else without) * prod(node.shape)

    return Charge(term, amount)


def all_of(ops: Iterable[str], charge: Charge) -> dict[str, Charge]:
    return dict.fromkeys(ops, charge)


def fused_attention(node: Node) -> str:
    return FUSED_ATTENTION if node.op == "attention" else ""


def outside_modules(node: Node) -> str:
    """Why a counter that listens to torch modules does not hear of a product: only calls of a module are heard."""
    kernel = node.parameter("kernel")
    if kernel is None:
        return NO_MODULE
    called = not kernel.key.endswith("weight") or kernel.key == f"{node.source}.weight"
    return "" if called else NO_MODULE
