"""What the writers of all frameworks share: the steps so far, the names of layers, and what could not be written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.passes.pads import never_negative
from zoolens.training.pairs.mapping.origins import Origin
from zoolens.training.pairs.reading.side_facts import NormFact
from zoolens.training.port.scaffolds.names import comment, identifier, parts_of, unique
from zoolens.training.port.scaffolds.steps import CodeStep, Setting

Handler = Callable[[Any, Node], None]  # of a writer of the framework and the node

_ELEMENTWISE: Final = frozenset({"dropout", "relu", "relu6", "silu", "gelu", "sigmoid", "tanh", "hard_swish"})


class CannotWrite(Exception):
    """The framework has no plain way to write this node; the message says why."""


@dataclass(frozen=True)
class Todo:
    """A node that the draft leaves to its reader: `function` is what they have to write."""

    function: str
    source: str
    op: str
    why: str
    inputs: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    tensors: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class SourceFacts:
    """What a draft needs beside the graph: the source's framework, the settings of its norms, where tensors come from.

    `classes`: the class of each module of a torch network, by its path.
    """

    framework: str
    norms: Mapping[str, NormFact]
    origins: Mapping[str, Origin]
    classes: Mapping[str, str] = field(default_factory=dict)


class Writer(ABC):
    """Turns the nodes of a plain graph into steps, in order. One writer writes one draft."""

    framework: ClassVar[str]

    def __init__(self, graph: Graph, source: SourceFacts, handlers: Mapping[str, Handler]) -> None:
        """`handlers`: by op, what writes it."""
        self.graph, self.source, self._handlers = graph, source, handlers
        self.steps: list[CodeStep] = []
        self.todos: list[Todo] = []
        self.helpers: dict[str, None] = {}  # names of helper functions and classes that the file needs, in order
        self.never_negative = never_negative(graph)
        self.integers: frozenset[str] = frozenset()  # inputs of whole numbers
        self.explicit = False  # padding as a layer also where the layer behind it could pad
        self._names: set[str] = set()
        self._layer_groups = _layer_groups(graph)
        self._shared: dict[tuple[str, str], tuple[Setting, ...]] = {}  # settings of layers that are called again
        self.shared_tensors: set[str] = set()  # keys of tensors whose layer is one layer in the draft, too

    @abstractmethod
    def give_up(self, node: Node, function: str) -> None:
        """Add the call of a function that the reader has to write."""

    @abstractmethod
    def finished(self, outputs: Sequence[str]) -> list[str]:
        """The variables of the outputs, once every node is written."""

    def written(self) -> list[CodeStep]:
        for node in self.graph.nodes:
            before = len(self.steps)
            handler = self._handlers.get(node.op)
            if handler is None:
                self._leave(node, f"no layer of {self.framework} is known for it")
                continue
            try:
                handler(self, node)
            except CannotWrite as error:
                del self.steps[before:]
                self._leave(node, str(error))
        return self.steps

    def _leave(self, node: Node, why: str) -> None:
        name = unique(identifier(["todo", *self.path(node)], node.op), {todo.function for todo in self.todos})
        op = str(node.get("source_op") or node.op)
        shapes = tuple(self.graph.by_name[given].shape for given in node.inputs)
        tensors = tuple(tensor.shape for tensor in node.parameters)
        self.todos.append(Todo(name, comment(node.source or node.name), comment(op), why, shapes, node.shape, tensors))
        self.give_up(node, name)

    # --- for handlers

    @abstractmethod
    def operand(self, node: Node, place: int) -> str:
        """The variable of an input of a node."""

    def known_operands(self, node: Node) -> list[str]:
        """The variables of all inputs but those that cannot be written, such as fixed numbers."""
        known = []
        for place in range(len(node.inputs)):
            with suppress(CannotWrite):
                known.append(self.operand(node, place))
        return known

    def path(self, node: Node, suffix: str = "") -> tuple[str, ...]:
        """What the source calls a node, in parts; `suffix` tells a layer that the draft puts before it."""
        parts = parts_of(node.source or "", self.source.framework)
        if not self.is_leaf(node):  # such a step is called after what it does
            return parts
        return (*parts[:-1], f"{parts[-1]}_{suffix}") if suffix and parts else (*parts, suffix) if suffix else parts

    def is_leaf(self, node: Node) -> bool:
        """Whether the node is a layer of the source, and not an expression in the code of a module."""
        return bool(node.source) and (self.source.framework != "torch" or self._is_layer(node))

    def _is_layer(self, node: Node) -> bool:
        children = any(path.startswith(f"{node.source}.") for path in self.source.classes)
        return node.source in self.source.classes and not children

    def add(
        self, node: Node, pattern: str, inputs: Sequence[str], settings: Sequence[Setting] = (), **more: Any
    ) -> str:
        """One step; `value` in `more` is the name of what it makes, which is otherwise the node's value."""
        value: str = more.pop("value", node.name)
        path = more.pop("path", None) or self.path(node)
        leaf, maker = more.pop("is_leaf", self.is_leaf(node)), more.pop("maker", "")
        self.steps.append(
            CodeStep((value,), tuple(inputs), pattern, more.pop("label", node.op), maker, tuple(settings), path, leaf,
                 shape=node.shape, shared=self._shared_layer(node, maker, tuple(settings)), **more)
        )  # fmt: skip
        return value

    def feeds_dense(self, node: Node) -> bool:
        """Whether all that becomes of a value is the input of dense layers, perhaps through activations: then the order
        of its numbers can be that of the layers' weights."""
        users = self.graph.consumers[node.name]
        if not users or node.name in self.graph.outputs:
            return False
        return all(user.op == "dense" or (user.op in _ELEMENTWISE and self.feeds_dense(user)) for user in users)

    def _shared_layer(self, node: Node, maker: str, settings: tuple[Setting, ...]) -> str:
        """What the steps have in common that call one layer of the source; "" where the layer is called once, or would
        need other settings."""
        group = self._layer_groups.get(node.name)
        if not maker or group is None or self._shared.setdefault((group, maker), settings) != settings:
            return ""
        self.shared_tensors.update(tensor.key for tensor in node.parameters)
        return f"{group}@{maker}"

    def between(self, wanted: str) -> str:
        """A name for a value that the canonical graph does not have."""
        name = unique(f"{wanted}@", {*self._names, *self.graph.by_name})
        self._names.add(name)
        return name

    def norm(self, node: Node) -> NormFact | None:
        """What is known of a batch norm; one whose statistics are fixed is none that a framework's layer could be."""
        mean = node.parameter("mean")
        if not node.get("epsilon") or mean is None or mean.key not in self.source.origins:
            raise CannotWrite("it normalises with fixed numbers, as preprocessing does")
        return self.source.norms.get(node.source) or self.source.norms.get(node.source.rpartition("/")[2])

    def movable(self, value: str) -> None:
        """Mark the last step: it may as well be written before the block that it belongs to."""
        self.steps[-1] = replace(self.steps[-1], movable=True)


def _layer_groups(graph: Graph) -> dict[str, str]:
    """For each node that has exactly the tensors of another one, as a layer that is called again, the first of them."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for node in graph.nodes:
        keys = tuple(sorted((tensor.role, tensor.key) for tensor in node.parameters))
        if keys and all(key for _, key in keys) and node.op not in ("parameter", "constant"):
            groups.setdefault((node.op, keys), []).append(node.name)
    return {name: names[0] for names in groups.values() if len(names) > 1 for name in names}


def by_axis(values: Sequence[int]) -> Any:
    """One number where all axes have the same, else the tuple."""
    return int(values[0]) if len(set(values)) == 1 else tuple(int(value) for value in values)


def size(value: int | Sequence[int], keyword: str, **more: Any) -> Setting:
    return Setting(keyword, value if isinstance(value, int) else by_axis(value), **more)


def width(value: int, keyword: str, **more: Any) -> Setting:
    """A number of channels or features."""
    return Setting(keyword, int(value), family="width", **more)


def figure(value: float) -> float:
    """A setting that was measured or kept in float32, as its author wrote it."""
    return float(f"{value:.6g}")
