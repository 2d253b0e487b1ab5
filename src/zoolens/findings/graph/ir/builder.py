"""How importers make a graph: add nodes in order of computation, then finish."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from zoolens.findings.graph.ir.model import Array, Graph, Node, Parameter, Shape, Value, checked, nested_tuples, pruned

Arrange = Callable[[Array], Array]  # the same values with their axes in another order
SMALL: Final = 64  # elements of a constant that is shown in the graph itself; one with more is kept by key


def free_key(wanted: str, values: Array, known: Callable[[str], Array | None]) -> str:
    """The key, unless it is that of other numbers: one tensor of a file may stand for several, each with its scale."""
    key, count = wanted, 1
    while (there := known(key)) is not None and not np.array_equal(np.ravel(there), np.ravel(values)):
        count += 1
        key = f"{wanted}#{count}"
    return key


class GraphBuilder:
    """Collects nodes. Names are made unique here, so that a source may use the same one twice."""

    def __init__(self, name: str, *, keep_weights: bool = False) -> None:
        self.name = name
        self.keep_weights = keep_weights
        self.nodes: list[Node] = []
        self.shapes: dict[str, Shape] = {}
        self.weights: dict[str, Array] = {}
        self._positions: dict[str, int] = {}  # of nodes, by their names
        self._repeats: dict[str, int] = {}  # the last number given to a name that was already used

    def add(
        self,
        op: str,
        inputs: Iterable[str],
        shape: Iterable[int],
        *,
        source: str = "",
        axes: str | tuple[int, ...] = "",
        parameters: Iterable[Parameter] = (),
        name: str | None = None,
        **attributes: Value,
    ) -> str:
        """Add one node and return the name of its value. Attributes that are None are left out.

        `axes` as text is the meaning of the output's axes; as numbers it is the op's attribute of that name.
        """
        unique = self._unique(name or source or op)
        known = {key: value for key, value in attributes.items() if value is not None}
        if not isinstance(axes, str):
            known["axes"] = axes
        extents = tuple(map(int, shape))
        meaning = axes if isinstance(axes, str) else ""
        self._positions[unique] = len(self.nodes)
        self.nodes.append(Node(unique, op, tuple(inputs), extents, known, tuple(parameters), source, meaning))
        self.shapes[unique] = extents
        return unique

    def node(self, name: str) -> Node:
        """The node that makes a value."""
        return self.nodes[self._positions[name]]

    def amend(self, name: str, **changes: Any) -> None:
        """Change a node that was already made, such as by the bias that the source adds after it."""
        self.nodes[self._positions[name]] = replace(self.node(name), **changes)

    def leaf(self, op: str, tensor: Parameter, *, source: str = "", name: str | None = None) -> str:
        """Add a tensor as a value of its own: "parameter" if it was learned, else "constant"."""
        return self.add(op, (), tensor.shape, source=source, name=name, parameters=(tensor,))

    def small_constant(self, values: Array, *, source: str = "", name: str | None = None) -> str:
        """Add a constant whose numbers are shown in the graph itself; it has at most `SMALL` of them."""
        shown = nested_tuples(values.tolist())
        return self.add("constant", (), values.shape, source=source, name=name, value=shown)

    def parameter(self, role: str, shape: Iterable[int], key: str, values: Array | None = None) -> Parameter:
        """Describe a learned tensor; its values are kept if this builder keeps weights and they are given."""
        if self.keep_weights and values is not None:
            key = free_key(key, values, self.weights.get)
            self.weights[key] = values
        return Parameter(role, tuple(map(int, shape)), key)

    def fixed_parameter(self, role: str, values: Array, key: str) -> Parameter:
        """Describe a tensor whose numbers the source tells: statistics of a norm, a scale that is a constant."""
        return self.parameter(role, values.shape, key, values.astype(np.float32))

    def arranged_parameter(
        self, role: str, shape: Shape, key: str, load: Callable[[], Array], arrange: Arrange | None
    ) -> Parameter:
        """Describe a learned tensor that its source keeps in another layout; `arrange` turns its values into ours.

        Without weights nothing is loaded: `arrange` is tried on one broadcast zero, which takes no memory.
        """
        if not self.keep_weights:
            zeros = np.broadcast_to(np.float32(0), shape)
            return self.parameter(role, (zeros if arrange is None else arrange(zeros)).shape, key)
        values = load() if arrange is None else np.ascontiguousarray(arrange(load()))
        return self.parameter(role, values.shape, key, values)

    def unknown(self, source_op: str, inputs: Iterable[str], shape: Iterable[int], *, source: str = "") -> str:
        """An operator nobody taught us: named, and counted as unknown."""
        return self.add("unknown", inputs, shape, source=source, source_op=source_op)

    def finish(self, outputs: Iterable[str], facts: Mapping[str, Any] | None = None) -> Graph:
        """The graph without nodes that no output needs; a ModelError where it is not a graph."""
        made = Graph(self.name, tuple(self.nodes), tuple(outputs), self.weights, dict(facts or {}))
        return pruned(checked(made))

    def _unique(self, wanted: str) -> str:
        if wanted not in self.shapes:
            return wanted
        count = self._repeats.get(wanted, 1) + 1
        while f"{wanted}#{count}" in self.shapes:
            count += 1
        self._repeats[wanted] = count
        return f"{wanted}#{count}"
