"""How a pass rewrites a graph: node after node in order of computation, in one sweep.

A rule gets a node whose inputs are rewritten already. It answers with the node (changed or not), or with the name of
a value that takes its place. Nodes that nothing needs any more disappear at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import islice
from operator import is_

from zoolens.findings.graph.ir.builder import free_key
from zoolens.findings.graph.ir.model import Array, Graph, Node, Parameter, Shape, Value, pruned, unused_name

Rule = Callable[[Node, "Editor"], "Node | str"]


class Editor:
    """The graph under rewriting: what stands so far, who uses it, and what replaces what."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: dict[str, Node] = {}
        self.weights: dict[str, Array] = {}
        self._replaced: dict[str, str] = {}
        self._uses = Counter(graph.uses)
        self._order: dict[str, int] = {}

    @cached_property
    def taken(self) -> set[str]:
        """Names that no further node may have."""
        return {node.name for node in self.graph.nodes}

    @property
    def position(self) -> Mapping[str, int]:
        """The place of each value that stands so far; later values have larger ones."""
        if len(self._order) < len(self.nodes):  # nodes are only ever added at the end
            for name in islice(self.nodes, len(self._order), None):
                self._order[name] = len(self._order)
        return self._order

    def current(self, name: str) -> str:
        return self._replaced.get(name, name)

    def renewed(self, node: Node) -> Node:
        """The node with its inputs as they are called now."""
        replaced = self._replaced
        if not replaced or replaced.keys().isdisjoint(node.inputs):
            return node
        return replace(node, inputs=tuple([replaced.get(name, name) for name in node.inputs]))

    def maker(self, name: str) -> Node:
        """The node that makes a value."""
        return self.nodes[name]

    def made_by(self, name: str, *ops: str) -> Node | None:
        """The node that makes a value, if it is one of these ops."""
        node = self.nodes[name]
        return node if node.op in ops else None

    def only_use(self, name: str) -> bool:
        return self._uses[name] == 1

    def emit(
        self,
        op: str,
        inputs: Iterable[str],
        shape: Shape,
        *,
        base: str,
        source: str = "",
        parameters: tuple[Parameter, ...] = (),
        **attributes: Value,
    ) -> str:
        """Add a further node before the one a rule works on; returns its name, made from `base`."""
        known = {key: value for key, value in attributes.items() if value is not None}
        node = Node(self._unique(f"{base}:{op}"), op, tuple(inputs), shape, known, parameters, source)
        self._put(node)
        self._uses.update(node.inputs)
        return node.name

    def absorb(self, changed: Node) -> str:
        """Put a changed node in the place of the one of the same name and inputs that stands already."""
        self.nodes[changed.name] = changed
        return changed.name

    def values(self, key: str) -> Array | None:
        derived = self.weights.get(key)
        return derived if derived is not None else self.graph.weights.get(key)

    def derived(self, key: str, compute: Callable[..., Array], *sources: str) -> str:
        """A key for values computed from those of other keys; where there are no values it is only a name."""
        known = [self.values(source) for source in sources]
        if all(values is not None for values in known):
            values = compute(*known)
            key = free_key(key, values, self.values)
            self.weights[key] = values
        return key

    def _unique(self, wanted: str) -> str:
        name = unused_name(wanted, self.taken)
        self.taken.add(name)
        return name

    def accept(self, before: Node, after: Node | str) -> None:
        if isinstance(after, str):
            self._replaced[before.name] = after
            self._uses[after] += self._uses[before.name]
            self._release(before.inputs)
            return
        self._put(after)
        if after.inputs != before.inputs:
            self._uses.update(after.inputs)
            self._release(before.inputs)

    def _put(self, node: Node) -> None:
        self.nodes[node.name] = node

    def _release(self, names: Iterable[str]) -> None:
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            self._uses[name] -= 1
            if not self._uses[name] and name in self.nodes:
                waiting.extend(self.nodes[name].inputs)

    def finished(self) -> Graph:
        outputs = tuple(self.current(name) for name in self.graph.outputs)
        unchanged = len(self.nodes) == len(self.graph.nodes) and all(map(is_, self.nodes.values(), self.graph.nodes))
        if unchanged and outputs == self.graph.outputs:
            return self.graph
        weights = {**self.graph.weights, **self.weights} if self.weights else self.graph.weights
        return pruned(replace(self.graph, nodes=tuple(self.nodes.values()), outputs=outputs, weights=weights))


def rewrite(graph: Graph, rules: Mapping[str, Rule]) -> Graph:
    """One sweep: each node whose op has a rule is given to it."""
    if graph.ops.isdisjoint(rules):
        return graph
    editor = Editor(graph)
    nodes = editor.nodes
    for node in graph.nodes:
        here = editor.renewed(node)
        rule = rules.get(node.op)
        after = here if rule is None else rule(here, editor)
        if after is here:
            nodes[here.name] = here
        else:
            editor.accept(here, after)
    return editor.finished()
