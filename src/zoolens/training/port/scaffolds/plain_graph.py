"""The canonical graph as an engineer would write it: norms by themselves, dropout in its place, growing concats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zoolens.findings.graph.ir.model import Graph, Node, Parameter, Value, unused_name
from zoolens.findings.graph.ir.vocabulary import NOISE
from zoolens.training.pairs.mapping.origins import Origin
from zoolens.training.pairs.reading.side_facts import LayerFact

_NORM: Final = "norm_"
_RAW_VIEWS: Final = NOISE | {"reshape", "flatten", "transpose"}


@dataclass(frozen=True)
class PlainGraph:
    """A graph whose nodes the code can be written from."""

    graph: Graph
    homes: Mapping[str, str]  # the canonical node of each node
    unplaced: tuple[str, ...]  # dropout layers of the source that have no known place


def plain_graph(graph: Graph, raw: Graph, origins: Mapping[str, Origin], dropouts: Iterable[LayerFact]) -> PlainGraph:
    """`raw` is the source's own graph, in which dropout still has its place."""
    nodes = list(_nested_concats(graph.nodes))
    nodes, homes, made = _split_norms(nodes, origins)
    outputs = tuple(made.get(name, name) for name in graph.outputs)
    placed, unplaced = _dropout_places(graph, raw, list(dropouts))
    nodes, outputs = _with_dropout(nodes, outputs, placed, made, homes)
    return PlainGraph(replace(graph, nodes=tuple(nodes), outputs=outputs), homes, tuple(unplaced))


def _nested_concats(nodes: Sequence[Node]) -> Iterable[Node]:
    """Canonical concats are flat. One that begins with all that an earlier one has takes the earlier one instead."""
    before: list[Node] = []
    known: dict[tuple[object, tuple[str, ...]], str] = {}
    for node in nodes:
        if node.op == "concat":
            flat = node.inputs
            length = next((n for n in range(len(flat), 1, -1) if (node.get("axis"), flat[:n]) in known), 0)
            if length and length < len(flat):
                node = replace(node, inputs=(known[node.get("axis"), flat[:length]], *flat[length:]))
            known.setdefault((node.get("axis"), flat), node.name)
        before.append(node)
    return before


def _split_norms(
    nodes: Iterable[Node], origins: Mapping[str, Origin]
) -> tuple[list[Node], dict[str, str], dict[str, str]]:
    """Norms that the canonical form merged into their layers, as nodes of their own behind them."""
    split: list[Node] = []
    homes: dict[str, str] = {}
    made: dict[str, str] = {}  # the node that now has a canonical node's value
    names = {node.name for node in nodes} if isinstance(nodes, list) else set()
    for node in nodes:
        inputs = tuple(made.get(name, name) for name in node.inputs)
        homes[node.name] = node.name
        if node.get("norm") not in ("batch", "affine"):
            split.append(replace(node, inputs=inputs))
            continue
        norm = tuple(
            replace(tensor, role=tensor.role.removeprefix(_NORM))
            for tensor in node.parameters
            if tensor.role.startswith(_NORM)
        )
        kept = tuple(tensor for tensor in node.parameters if not tensor.role.startswith(_NORM))
        layer = replace(node.with_attributes(norm=None, epsilon=None), inputs=inputs, parameters=kept)
        name = unused_name(f"{node.name}:norm", names)
        names.add(name)
        source = _owner(norm, origins) or f"{node.source}.norm"
        op, settings = _norm_op(node)
        split += [layer, Node(name, op, (node.name,), node.shape, settings, norm, source)]
        homes[name] = node.name
        made[node.name] = name
    return split, homes, made


def _norm_op(node: Node) -> tuple[str, dict[str, Value]]:
    """What stands behind a layer that has a norm, or a scale and shift, merged into it."""
    if node.get("norm") == "batch":
        return "batch_norm", {"epsilon": node.get("epsilon", 0.0)}
    return "affine", {"axis": len(node.shape) - 1 if node.op == "dense" else 1}


def _owner(tensors: Iterable[Parameter], origins: Mapping[str, Origin]) -> str:
    """The layer that the source keeps these tensors in."""
    for tensor in tensors:
        origin = origins.get(tensor.key)
        if origin is not None:
            separator = "/" if "/" in origin.tensor else "."
            return origin.tensor.rpartition(separator)[0]
    return ""


@dataclass(frozen=True)
class _Place:
    """A dropout on the way from one canonical node to others; `units`: what it drops together."""

    name: str
    rate: float
    before: str
    users: tuple[str, ...]
    units: str = ""


def _dropout_places(graph: Graph, raw: Graph, facts: list[LayerFact]) -> tuple[list[_Place], list[str]]:
    placed: list[_Place] = []
    seen: set[str] = set()
    for node in raw.nodes:
        if node.op == "dropout" and node.get("rate"):
            seen.add(node.source)
            place = _place_between(node, graph, raw) if node.get("units") != "other" else None
            if place is not None:
                placed.append(place)
    known = {place.name for place in placed}
    for fact in facts:
        if fact.name not in seen and (place := _place_on_branch(fact, graph)) is not None:
            placed.append(place)
            known.add(fact.name)
    unplaced = [fact.name for fact in facts if fact.name not in known]
    return placed, unplaced


def _place_between(node: Node, graph: Graph, raw: Graph) -> _Place | None:
    """Where the canonical graph has the dropout: behind the nearest value before it, before the nearest users."""
    before = _upward(node, graph, raw)
    users = _downward(node, graph, raw)
    if before is None:
        return None
    fitting = tuple(user.name for user in graph.consumers[before] if user.name in users)
    if not fitting and not (before in graph.outputs and not users):
        return None
    return _Place(node.source or node.name, float(node.get("rate")), before, fitting, str(node.get("units") or ""))


def _upward(node: Node, graph: Graph, raw: Graph) -> str | None:
    current = node
    while current.inputs:
        current = raw.by_name[current.inputs[0]]
        if current.op in _RAW_VIEWS and current.name not in graph.by_name:
            continue
        if current.name in graph.by_name:
            return current.name
        if current.op not in ("batch_norm", *_RAW_VIEWS):  # merged into the layer before it
            return _by_suffix(current.name, graph)
    return None


def _downward(node: Node, graph: Graph, raw: Graph) -> set[str]:
    names: set[str] = set()
    waiting = list(raw.consumers[node.name])
    while waiting:
        user = waiting.pop()
        if user.name in graph.by_name:
            names.add(user.name)
        elif (other := _by_suffix(user.name, graph)) is not None:
            names.add(other)
        elif user.op in _RAW_VIEWS:
            waiting.extend(raw.consumers[user.name])
    return names


def _by_suffix(name: str, graph: Graph) -> str | None:
    """Passes that make several nodes of one call them NAME:op."""
    return next((node.name for node in graph.nodes if node.name.rpartition(":")[0] == name), None)


def _place_on_branch(fact: LayerFact, graph: Graph) -> _Place | None:
    """Stochastic depth leaves no trace in evaluation: it stands on the branch of the only sum of its block."""
    block = fact.name.rpartition(".")[0]
    sums = [node for node in graph.nodes if node.op == "add" and node.source == block and len(node.inputs) == 2]
    if len(sums) != 1 or ("depth" not in fact.name and "drop_path" not in fact.name) or fact.rate is None:
        return None
    depth = {node.name: place for place, node in enumerate(graph.nodes)}
    branch = max(sums[0].inputs, key=lambda name: depth[name])
    return _Place(fact.name, float(fact.rate), branch, (sums[0].name,), "example")


def _with_dropout(
    nodes: list[Node],
    outputs: tuple[str, ...],
    placed: list[_Place],
    made: Mapping[str, str],
    homes: dict[str, str],
) -> tuple[list[Node], tuple[str, ...]]:
    for place in placed:
        value = made.get(place.before, place.before)
        at = next((number for number, node in enumerate(nodes) if node.name == value), None)
        if at is None:
            continue
        name = unused_name(f"{place.name}:dropout", homes)
        attributes: dict[str, Value] = {"rate": place.rate, **({"units": place.units} if place.units else {})}
        added = Node(name, "dropout", (value,), nodes[at].shape, attributes, (), place.name)
        homes[name] = place.before
        after = [
            replace(node, inputs=tuple(name if given == value else given for given in node.inputs))
            if homes[node.name] in place.users
            else node
            for node in nodes[at + 1 :]
        ]
        nodes = [*nodes[: at + 1], added, *after]
        if not place.users:
            outputs = tuple(name if output == value else output for output in outputs)
    return nodes, outputs
