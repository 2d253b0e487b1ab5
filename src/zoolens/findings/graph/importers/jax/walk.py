"""The graph of a JAX function under construction: which variable of its program is which value.

A variable that depends on an input is a node of the graph. One that is a parameter or a constant, or a rearrangement of
one, is a `Leaf`: its numbers are known, and a layer takes it as its parameter. Arithmetic on leaves becomes nodes too,
so that passes can put a norm together again that was written out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from zoolens.findings.graph.ir.builder import SMALL, GraphBuilder
from zoolens.findings.graph.ir.model import Array, Node, Parameter, Shape


@dataclass(frozen=True)
class Leaf:
    """Numbers that depend on no input; `learned` where they come from a parameter of the function."""

    values: Array
    key: str
    learned: bool

    def full(self, shape: Shape) -> Array:
        """Returns the leaf's numbers in a shape that the program has it in; a leaf is kept as short as it was before it
        was spread."""
        if self.values.size == np.prod(shape):
            return self.values.reshape(shape)
        return np.broadcast_to(self.values, shape)

    @property
    def number(self) -> float | None:
        """The number it is, where it is a constant of one, or of equal ones that were spread."""
        if self.learned or not self.values.size or self.values.dtype.kind not in "fiu":
            return None
        first = self.values.reshape(-1)[0]
        return float(first) if (self.values == first).all() else None


Operand = str | Leaf  # the name of a node, or a leaf


@dataclass
class JaxCall:
    """One operation of the program: what a handler reads."""

    walk: JaxWalk
    primitive: str
    operands: tuple[Operand, ...]
    settings: dict[str, Any]
    given: tuple[Shape, ...]  # of the operands, as JAX has them
    kinds: str  # the kind of number of each operand, as numpy writes it: f, i, u, b … ("V" for what numpy has not)
    shapes: tuple[Shape, ...]  # of the results

    @property
    def shape(self) -> Shape:
        return self.shapes[0]

    def value(self, position: int = 0) -> str:
        """The node of an operand, in the shape that JAX has it in; a leaf becomes a node now."""
        name = self.walk.node(self.operands[position])
        if self.walk.builder.shapes[name] == self.given[position]:
            return name
        same_size = prod(self.walk.builder.shapes[name]) == prod(self.given[position])
        return self.add("reshape" if same_size else "expand", name, shape=self.given[position])

    def add(self, op: str, *inputs: str, shape: Shape | None = None, **rest: Any) -> str:
        """A new node, or the one that computes the same from the same values already: a program has no side effects."""
        extents = self.shape if shape is None else shape
        key = (op, inputs, tuple(extents), repr(sorted(rest.items())))
        shared = "parameters" not in rest and op != "unknown"
        if shared and key in self.walk.computed:
            return self.walk.computed[key]
        name = self.walk.builder.add(op, inputs, extents, name=op, **rest)
        if shared:
            self.walk.computed[key] = name
        if inputs and all(given in self.walk.static for given in inputs):
            self.walk.static.add(name)
        return name

    def unknown(self) -> str:
        return self.add(
            "unknown", *(self.value(i) for i in range(len(self.operands))), source_op=f"jax.{self.primitive}"
        )


Handler = Callable[[JaxCall], Operand]


class JaxWalk:
    def __init__(self, name: str, *, weights: bool) -> None:
        self.builder = GraphBuilder(name, keep_weights=weights)
        self._nodes: dict[int, str] = {}
        self.leaves: dict[str, Leaf] = {}  # by the names of their nodes
        self._constants = 0
        self.static: set[str] = set()  # nodes that depend on no input
        self.visits: list[tuple[str | None, ...]] = []  # the nodes that each operation made, in order of computation
        self.computed: dict[tuple[Any, ...], str] = {}

    def maker(self, name: str) -> Node:
        """The node that makes a value."""
        return self.builder.node(name)

    def constant(self, values: Any) -> Leaf:
        self._constants += 1
        return Leaf(_array(values), f"constant{self._constants}", learned=False)

    def node(self, operand: Operand) -> str:
        """The node of a value; that of a leaf is made when it is first needed."""
        if isinstance(operand, str):
            return operand
        known = self._nodes.get(id(operand))
        if known is None:
            known = self._nodes[id(operand)] = self._leaf(operand)
            self.leaves[known] = operand
            self.static.add(known)
        return known

    def parameter(self, role: str, leaf: Leaf, axes: Sequence[int] | None = None) -> Parameter:
        values = leaf.values if axes is None else np.ascontiguousarray(leaf.values.transpose(axes))
        return self.builder.fixed_parameter(role, values, leaf.key)

    def _leaf(self, leaf: Leaf) -> str:
        if not leaf.learned and leaf.values.size <= SMALL:
            return self.builder.small_constant(leaf.values, name=leaf.key)
        values = leaf.values if leaf.values.dtype.kind in "iub" else leaf.values.astype(np.float32)
        tensor = self.builder.parameter("value", values.shape, leaf.key, values)
        op = "parameter" if leaf.learned else "constant"
        return self.builder.leaf(op, tensor, name=leaf.key, source=leaf.key)


def without_ones(shape: Sequence[int]) -> Shape:
    """The extents of a shape other than 1."""
    return tuple(extent for extent in shape if extent != 1)


def _array(values: Any) -> Array:
    """The numbers of a constant. A key of random numbers has none; what is drawn with it is unknown."""
    try:
        return np.asarray(values)
    except TypeError:
        return np.zeros(values.shape, np.uint8)
