"""The graph: nodes in order of computation, each with one output, so that a node's name is its value's name.

A source's operator with several outputs becomes several nodes (`slice` for a split), or one `output_of` node per
further output. Learned tensors are `parameters` of the node that uses them; a learned tensor that is used as a value
by itself (a class token) is a node of op `parameter`. `vocabulary` says what every op and attribute means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.base.present.results import Result

Array = NDArray[Any]
Shape = tuple[int, ...]
Value = str | int | float | bool | None | tuple[Any, ...]  # what an attribute may be; tuples may nest

STATISTICS: Final = frozenset({"mean", "variance", "norm_mean", "norm_variance"})  # kept, but not learned
# Files of strangers are bounded before anything is allocated for them: a few bytes may name millions of empty nodes.
MAX_ELEMENTS: Final = 1 << 36  # 256 GiB in float32: no layer of a real network is larger
MAX_NODES: Final = 200_000


@dataclass(frozen=True, slots=True)
class Parameter:
    """A learned tensor, or a statistic of one. `key` finds its values in `Graph.weights`.

    Shapes are the same whatever the source: conv kernels (out, in/groups, *kernel), dense kernels (out, in).
    """

    role: str  # kernel, bias, scale, shift, mean, variance, alpha, table, value; with norm_ before it once merged
    shape: Shape
    key: str = ""

    @property
    def size(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    op: str
    inputs: tuple[str, ...]
    shape: Shape  # of the output, batch first; raw: in the source's own axis order, canonical: (N, C, *spatial)
    attributes: Mapping[str, Value] = field(default_factory=dict)
    parameters: tuple[Parameter, ...] = ()
    source: str = ""  # what the source calls it: "layer1.0.conv2", "conv2_block1_2_conv"
    axes: str = ""  # raw only: the meaning of each axis, such as "NHWC", where the operator fixes it; "" is unknown

    def get(self, attribute: str, default: Any = None) -> Any:
        return self.attributes.get(attribute, default)

    def parameter(self, role: str) -> Parameter | None:
        return next((tensor for tensor in self.parameters if tensor.role == role), None)

    def with_attributes(self, **changes: Value) -> Node:
        """Changed attributes; a value of None removes one."""
        merged = {**self.attributes, **changes}
        return replace(self, attributes={key: value for key, value in merged.items() if value is not None})

    def with_parameters(self, **by_role: Parameter) -> Node:
        """The node with other parameters in the roles that are given and that it has."""
        return replace(self, parameters=tuple(by_role.get(tensor.role, tensor) for tensor in self.parameters))

    @property
    def learned(self) -> int:
        if self.op == "constant":
            return 0
        return sum(tensor.size for tensor in self.parameters if tensor.role not in STATISTICS)


@dataclass(frozen=True, repr=False)
class Graph(Result):
    """A network. `nodes` are in order of computation; those of op "input" are the inputs. `outputs` are names of nodes.

    `weights` has the values of parameters, by key, where a source was asked for them; otherwise it is empty and
    everything but `reference.run` works all the same. `facts` says where it is from: library, name, version, format.
    A parameter key that several nodes name is one tensor.
    """

    name: str
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    weights: Mapping[str, Array] = field(default_factory=dict, compare=False, repr=False)
    facts: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def by_name(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Node, ...]]:
        """The nodes that use each value, in order; a node that uses it twice is there twice."""
        by_value: dict[str, list[Node]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for name in node.inputs:
                by_value[name].append(node)
        return {name: tuple(users) for name, users in by_value.items()}

    @cached_property
    def ops(self) -> frozenset[str]:
        return frozenset(node.op for node in self.nodes)

    @cached_property
    def uses(self) -> Mapping[str, int]:
        """How often each value is used, by nodes or as an output of the graph."""
        counted = Counter(name for node in self.nodes for name in node.inputs)
        counted.update(self.outputs)
        return counted

    @property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.op == "input")

    @property
    def parameters(self) -> int:
        """How many numbers were learned; statistics of norms are not among them."""
        return sum(learned.size for _, learned in self.learned_tensors())

    def learned_tensors(self) -> Iterator[tuple[Node, Parameter]]:
        """Every learned tensor once, with the first node that uses it."""
        seen: set[str] = set()
        for node in self.nodes:
            for tensor in node.parameters:
                if node.op != "constant" and tensor.role not in STATISTICS and not (tensor.key and tensor.key in seen):
                    seen.add(tensor.key)
                    yield node, tensor

    @property
    def unknown(self) -> tuple[Node, ...]:
        """Nodes whose operator the importer does not know: their cost is not counted, and must be said."""
        return tuple(node for node in self.nodes if node.op == "unknown")

    def values(self, node: Node, tensor: Parameter) -> Array:
        """The values of a node's parameter in the shape it has there; ModelError where the graph has none.

        Two nodes may share one tensor in two shapes of the same order.
        """
        values = self.weights.get(tensor.key)
        if values is None:
            raise ModelError(
                f"The graph of {self.name} has no values for the {tensor.role} of {node.name[:60]!r}.",
                hint="Import it with weights.",
            )
        return np.asarray(values).reshape(tensor.shape)

    def sole_consumer(self, name: str) -> Node | None:
        """The one node that uses a value, unless several do, one does twice, or it is an output of the graph."""
        users = self.consumers[name]
        if len(users) == 1 and name not in self.outputs:
            return users[0]
        return None


def checked(graph: Graph) -> Graph:
    """The graph, or a ModelError: every value is made before it is used, names are unique, sizes are sane."""
    if len(graph.nodes) > MAX_NODES:
        raise ModelError(f"{graph.name} has {len(graph.nodes):,} nodes; more than {MAX_NODES:,} are not read.")
    made: set[str] = set()
    sane: set[Shape] = set()  # values of a network have few different shapes
    for node in graph.nodes:
        if not made.issuperset(node.inputs):
            missing = next(name for name in node.inputs if name not in made)
            raise ModelError(
                f"The graph of {graph.name} is damaged: {node.name[:60]!r} uses {missing[:60]!r} before it is made."
            )
        if node.name in made:
            raise ModelError(f"The graph of {graph.name} is damaged: two nodes are called {node.name[:60]!r}.")
        made.add(node.name)
        if node.shape not in sane:
            check_shape(node.shape, node.name, graph.name)
            sane.add(node.shape)
        for tensor in node.parameters:
            if tensor.shape not in sane:
                check_shape(tensor.shape, node.name, graph.name)
                sane.add(tensor.shape)
    if not graph.outputs:
        raise ModelError(f"The graph of {graph.name} is damaged: it has no outputs.")
    lost = next((name for name in graph.outputs if name not in made), None)
    if lost is not None:
        raise ModelError(f"The graph of {graph.name} is damaged: no node produces the output {lost[:60]!r}.")
    return graph


def check_shape(shape: Shape, node: str, graph: str) -> None:
    """Refuse what no real layer has before anyone allocates or multiplies it."""
    if (shape and min(shape) < 0) or prod(shape) > MAX_ELEMENTS:
        text = "×".join(f"{extent:,}" for extent in shape[:8])
        raise ModelError(f"{graph}: the tensor {node[:60]!r} would have the shape {text}; no real layer has.")


def unused_name(wanted: str, taken: Container[str]) -> str:
    """The name, with the first free number behind it where it is taken."""
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}#{count}"
    return name


def nested_tuples(value: Any) -> Any:
    """Nested lists as the tuples that attributes are made of."""
    return tuple(map(nested_tuples, value)) if isinstance(value, list) else value


def pruned(graph: Graph) -> Graph:
    """The graph without nodes that no output depends on; inputs stay."""
    needed = set(graph.outputs)
    for node in reversed(graph.nodes):
        if node.name in needed:
            needed.update(node.inputs)
    kept = tuple(node for node in graph.nodes if node.name in needed or node.op == "input")
    if len(kept) == len(graph.nodes):
        return graph
    return replace(graph, nodes=kept)
