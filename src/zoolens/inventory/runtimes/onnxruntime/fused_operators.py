"""Which operators of an ONNX file each operator of the optimised graph computes.

ONNX Runtime fuses operators under names of its own, but tensors between what it leaves mostly keep theirs. So an
operator of the optimised graph computes what lies, in the file, between its outputs and the nearest tensors that are
still made. Where it changes the order of axes (channels last on ARM, blocks of channels on x86), tensors get new names,
and the operator's own name tells where it stands: it is made of the name of an operator or of a tensor of the file.
What was fused behind such an operator is found by its inputs: a convolution that adds a shortcut takes the shortcut.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from zoolens.inventory.runtimes.onnx.onnx_editing import node_label, unique_names
from zoolens.inventory.runtimes.onnx.onnx_file import OnnxGraph, OnnxNode

# Operators that an optimiser adds to move values about; what comes out holds the same values as what went in.
_MOVES: Final = {"ReorderInput", "ReorderOutput", "Transpose", "Cast", "Identity", "Reshape"}
# Operators that are fused into the one before them.
_ACTIVATIONS: Final = {"Clip", "HardSigmoid", "HardSwish", "LeakyRelu", "Relu", "Sigmoid", "Tanh"}
_JOINS: Final = {"Add", "BatchNormalization", "QuantizeLinear", *_ACTIVATIONS}
_BLOCKED: Final = re.compile(r"(_bn)?_nchwc$")  # behind the tensor that an operator on blocks of channels makes
_IN_FLOAT32: Final = "InsertedPrecisionFreeCast_"  # before what is computed so for want of a kernel in float16
_RENAMED: Final = re.compile(r"_token_\d+$")  # behind the name of an operator that replaces the one of that name
_FUSED: Final = re.compile(r"^fused |/\w*Fusion\w*/?$")  # around the name of the first operator that was fused
_PRODUCT: Final = re.compile("Conv(?!ert)|Gemm|MatMul|FullyConnected|Attention")  # operators that others are fused into
_BESIDE: Final = {"QuantizeLinear", "DequantizeLinear", *_MOVES}  # what is fused into others without saying much
_SUMMAND: Final = 3  # the input of a fused convolution that is added to its result


@dataclass(frozen=True)
class Fused:
    """What a node of the optimised graph computes: labels of the file's nodes in their order. A node that computes
    nothing of the file, or of which that is unknown, has none. Two nodes have the same label where one operator of the
    file was replaced by several. `main` is the label that says most. `moved`: the node computes nothing, but brings the
    value of this tensor of the file into another layout or type."""

    node: OnnxNode
    labels: tuple[str, ...]
    main: str = ""
    moved: str = ""


def fused_nodes(file: OnnxGraph, optimised: OnnxGraph) -> list[Fused]:
    """What each node of the optimised graph computes. The optimised graph was made of the file with the names that
    `unique_names` gives."""
    return _Fusion(file, optimised).nodes()


def computed_tensors(file: OnnxGraph) -> list[tuple[OnnxNode, str]]:
    """The tensors that depend on an input, each with the node that makes it, in the order of the file."""
    constants = _constants(file)
    return [(node, name) for node in file.nodes for name in node.outputs if name and name not in constants]


def made_tensors(graph: OnnxGraph) -> set[str]:
    return {name for node in graph.nodes for name in node.outputs if name}


def with_lost_producers(file: OnnxGraph, layers: Sequence[tuple[str, tuple[str, ...]]]) -> list[tuple[str, ...]]:
    """The nodes of each layer, with those before them that no layer names and that only this layer uses.

    `layers` has a kind and the labels that a runtime tells. A runtime that multiplies a normalisation into the weights
    of a convolution may only tell the normalisation. A convolution or product is added to none but layers with one.
    """
    told = {label for _, labels in layers for label in labels}
    makers = {name: node for node in file.nodes for name in node.outputs if name}
    users: dict[str, set[str]] = defaultdict(set)
    for node in file.nodes:
        for name in node.inputs:
            users[name].add(node_label(node))
    lost = {node_label(node) for node, _ in computed_tensors(file)} - told
    return [_with_producers(kind, labels, makers, users, lost) for kind, labels in layers]


def _with_producers(
    kind: str,
    labels: tuple[str, ...],
    makers: Mapping[str, OnnxNode],
    users: Mapping[str, set[str]],
    lost: Set[str],
) -> tuple[str, ...]:
    own = set(labels)
    order = {node_label(node): place for place, node in enumerate(dict.fromkeys(makers.values()))}
    waiting = [node for node in makers.values() if node_label(node) in own]
    multiplies = _PRODUCT.search(kind) or any(_PRODUCT.search(node.op) for node in waiting)
    while waiting:
        for name in waiting.pop().inputs:
            producer = makers.get(name)
            if producer is None or (label := node_label(producer)) in own or label not in lost:
                continue
            only_here = all(users[made] <= own for made in producer.outputs if made)
            if only_here and (multiplies or not _PRODUCT.search(producer.op)):
                own.add(label)
                waiting.append(producer)
    return tuple(sorted(own, key=lambda label: order.get(label, 0))) if own != set(labels) else labels


class _Fusion:
    def __init__(self, file: OnnxGraph, optimised: OnnxGraph) -> None:
        self._file, self._optimised = file, optimised
        self._makers = {name: place for place, node in enumerate(file.nodes) for name in node.outputs if name}
        self._named = {name: place for place, name in enumerate(unique_names(file))}
        self._users: dict[str, list[int]] = defaultdict(list)
        for place, node in enumerate(file.nodes):
            for name in node.inputs:
                self._users[name].append(place)
        self._constants = _constants(file)
        self._anchors = [self._anchor(node) for node in optimised.nodes]
        self._left = self._still_there()
        self._origins = self._origins_of_tensors()
        self._boundary = {origin for origin in self._origins.values() if origin is not None}

    def nodes(self) -> list[Fused]:
        found = [self._places(node, anchor) for node, anchor in zip(self._optimised.nodes, self._anchors, strict=True)]
        for group in self._unknown_groups(found):
            self._share(group, found)
        return [
            self._fused(node, anchor, sorted(places or ()))
            for node, anchor, places in zip(self._optimised.nodes, self._anchors, found, strict=True)
        ]

    def _fused(self, node: OnnxNode, anchor: int | None, places: list[int]) -> Fused:
        if not places:
            return Fused(node, (), moved=self._moved(node, anchor))
        unchanged = [place for place in places if self._file.nodes[place].op == node.op]  # beside arithmetic of shapes
        computing = [place for place in places if self._file.nodes[place].op not in _BESIDE]
        products = [place for place in places if _PRODUCT.search(self._file.nodes[place].op)]
        labels = {place: node_label(self._file.nodes[place]) for place in places}
        likeliest = unchanged or products or computing or places
        return Fused(node, tuple(labels.values()), labels[likeliest[0]])

    def _moved(self, node: OnnxNode, anchor: int | None) -> str:
        moves = _only_moves(node, anchor) and node.inputs
        return (self._origins.get(node.inputs[0]) or "") if moves else ""

    def _anchor(self, node: OnnxNode) -> int | None:
        """The place in the file of an operator that the optimised one computes, among others, by its name."""
        # The name of a tensor follows.
        if node.op == "Cast" and node.name.startswith(_IN_FLOAT32):
            return None
        name = node.name.removeprefix(_IN_FLOAT32)
        while name not in self._named:
            if _BLOCKED.search(name):
                return self._makers.get(_BLOCKED.sub("", name))
            shorter = _RENAMED.sub("", name) if _RENAMED.search(name) else _FUSED.sub("", name)
            if shorter == name:
                return None
            name = shorter
        return self._named[name]

    def _still_there(self) -> set[int]:
        """Places of the operators in the file that were not fused into the one before them."""
        left = {anchor for anchor in self._anchors if anchor is not None}
        for node, anchor in zip(self._optimised.nodes, self._anchors, strict=True):
            if not _only_moves(node, anchor):
                left.update(self._makers[name] for name in node.outputs if name in self._makers)
        return left

    def _origins_of_tensors(self) -> dict[str, str | None]:
        """The tensor of the file that each tensor of the optimised graph stands for, in whichever order of axes or
        before it is dequantised; None where none is known to be."""
        origins: dict[str, str | None] = {spec.name: spec.name for spec in self._file.inputs}
        for node, anchor in zip(self._optimised.nodes, self._anchors, strict=True):
            for position, name in enumerate(node.outputs):
                origins[name] = self._origin(node, anchor, position, origins)
        return origins

    def _origin(
        self, node: OnnxNode, anchor: int | None, position: int, origins: Mapping[str, str | None]
    ) -> str | None:
        if node.outputs[position] in self._makers:
            return node.outputs[position]
        if _only_moves(node, anchor):
            return origins.get(node.inputs[0]) if node.inputs else None
        if anchor is None or position >= len(self._file.nodes[anchor].outputs):
            return None
        summand = origins.get(node.inputs[_SUMMAND]) if "Conv" in node.op and len(node.inputs) > _SUMMAND else None
        return self._after_fused(self._file.nodes[anchor].outputs[position], summand)

    def _after_fused(self, tensor: str, summand: str | None) -> str:
        """What becomes of a tensor in the operators behind it that are no longer there by themselves. An addition of
        two computed tensors was fused only into the operator that takes the other one, `summand`, as well."""
        results = {spec.name for spec in self._file.outputs}
        while len(users := self._users[tensor]) == 1 and tensor not in results:
            user = self._file.nodes[users[0]]
            others = set(user.inputs) - self._constants - {tensor, ""}
            if user.op not in _JOINS or users[0] in self._left or not others.issubset({summand}):
                break
            tensor = user.outputs[0]
        return tensor

    def _places(self, node: OnnxNode, anchor: int | None) -> set[int] | None:
        """Places of the file's nodes that this one computes; None where an input or all outputs are unknown."""
        sources = {self._source(name) for name in node.inputs if name and name not in self._optimised.constants}
        targets = {self._origins[name] for name in node.outputs if name} - {None}
        if None in sources or not targets:
            return set() if _only_moves(node, anchor) and not targets else None
        return self._between(targets - sources)

    def _source(self, name: str) -> str | None:
        return self._origins.get(name, name if name in self._constants else None)

    def _between(self, targets: set[str | None]) -> set[int]:
        """Places of the nodes that make these tensors from the nearest ones that are made in the optimised graph."""
        waiting = [name for name in targets if name is not None]
        places: set[int] = set()
        while waiting:
            place = self._makers.get(waiting.pop())
            if place is None or place in places:
                continue
            places.add(place)
            waiting.extend(set(self._file.nodes[place].inputs) - self._boundary - self._constants - {""})
        return places

    def _unknown_groups(self, found: list[set[int] | None]) -> list[list[int]]:
        """Nodes of which it is not known what they compute, together where a tensor of unknown origin links them."""
        groups: list[list[int]] = []
        makers: dict[str, list[int]] = {}
        for place, node in enumerate(self._optimised.nodes):
            if found[place] is not None:
                continue
            linked = [makers[name] for name in node.inputs if name in makers]
            group = linked[0] if linked else []
            for other in linked[1:]:
                if other is not group:
                    group += other
                    groups.remove(other)
                    makers.update({name: group for member in other for name in self._optimised.nodes[member].outputs})
            if not linked:
                groups.append(group)
            group.append(place)
            makers.update({name: group for name in node.outputs if self._origins[name] is None})
        return groups

    def _share(self, group: list[int], found: list[set[int] | None]) -> None:
        """Give each node of a group the operator that it still is, and the rest of what they compute together to the
        others, if that is one node, or if it is one operator that was replaced by several. Else it stays unknown."""
        outputs = {self._origins[name] for place in group for name in self._optimised.nodes[place].outputs if name}
        rest = self._between(outputs - {None})
        others = []
        for place in group:
            node, anchor = self._optimised.nodes[place], self._anchors[place]
            unchanged = anchor is not None and self._file.nodes[anchor].op == node.op
            found[place] = {anchor} if anchor is not None and unchanged else set()
            rest -= found[place] or set()
            if not unchanged and not _only_moves(node, anchor):
                others.append(place)
        if len(others) == 1 or len(rest) == 1:
            for place in others:
                found[place] = set(rest)


def _only_moves(node: OnnxNode, anchor: int | None) -> bool:
    """Whether the optimiser added this operator to move values about. One that the file has is anchored."""
    return node.op in _MOVES and anchor is None


def _constants(graph: OnnxGraph) -> set[str]:
    """Tensors that depend on no input: an optimiser computes them once."""
    constants = set(graph.constants)
    for node in graph.nodes:
        stored = node.op == "Constant" or (any(node.inputs) and constants.issuperset(filter(None, node.inputs)))
        if stored and not node.has_subgraph:
            constants.update(node.outputs)
    return constants
