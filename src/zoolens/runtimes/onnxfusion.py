"""Which operators of an ONNX file each operator of the optimised graph computes.

ONNX Runtime fuses operators under names of its own, but tensors between what it leaves mostly keep theirs. So an
operator of the optimised graph computes what lies, in the file, between its outputs and the nearest tensors that are
still made. Where it changes the order of axes it gives operators and tensors new names, which begin with the operator's
old one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from zoolens.runtimes.onnxediting import node_label, unique_names
from zoolens.runtimes.onnxfile import OnnxGraph, OnnxNode

# Operators that an optimiser adds to move values about; what comes out holds the same values as what went in.
_MOVES: Final = {"ReorderInput", "ReorderOutput", "Transpose", "Cast", "Identity", "Reshape"}
_BLOCKED: Final = "_nchwc"  # behind the name of an output that is computed in another order of axes
# Operators that are fused into the one before them.
_ACTIVATIONS: Final = {"Clip", "HardSigmoid", "HardSwish", "LeakyRelu", "Relu", "Sigmoid", "Tanh"}
_JOINS: Final = {"Add", "BatchNormalization", "QuantizeLinear", *_ACTIVATIONS}
_RENAMED: Final = re.compile(r"_token_\d+$")  # behind the name of an operator that replaces the one of that name


def fused_nodes(file: OnnxGraph, optimised: OnnxGraph) -> dict[str, tuple[str, ...]]:
    """Labels of the file's nodes, in their order, by the name of the optimised graph's node that computes them.

    The optimised graph was made of the file with the names that `unique_names` gives. A node that computes nothing of
    the file, or of which that is unknown, has none.
    """
    return _Fusion(file, optimised).nodes()


def computed_tensors(file: OnnxGraph) -> list[tuple[OnnxNode, str]]:
    """The tensors that depend on an input, each with the node that makes it, in the order of the file."""
    constants = _constants(file)
    return [(node, name) for node in file.nodes for name in node.outputs if name and name not in constants]


def made_tensors(graph: OnnxGraph) -> set[str]:
    return {name for node in graph.nodes for name in node.outputs if name}


class _Fusion:
    def __init__(self, file: OnnxGraph, optimised: OnnxGraph) -> None:
        self._file, self._optimised = file, optimised
        self._makers = {name: place for place, node in enumerate(file.nodes) for name in node.outputs if name}
        self._names = unique_names(file)
        self._named = {name: place for place, name in enumerate(self._names)}
        self._left = self._still_there()
        self._users: dict[str, list[int]] = {}
        for place, node in enumerate(file.nodes):
            for name in node.inputs:
                self._users.setdefault(name, []).append(place)
        self._constants = _constants(file)
        self._inputs = {spec.name for spec in file.inputs}
        self._origins = self._origins_of_tensors()
        self._boundary = {origin for origin in self._origins.values() if origin is not None}

    def nodes(self) -> dict[str, tuple[str, ...]]:
        result: dict[str, tuple[str, ...]] = {}
        for node in self._optimised.nodes:
            places = self._places(node)
            if places is None:
                place = self._replaced(node.name)
                places = set() if place is None else {place}
            result[node.name] = tuple(node_label(self._file.nodes[place]) for place in sorted(places))
        return result

    def _origins_of_tensors(self) -> dict[str, str | None]:
        """The tensor of the file that each tensor of the optimised graph stands for, in whichever order of axes or
        before it is dequantised; None where none is known to be."""
        origins: dict[str, str | None] = {name: name for name in self._inputs}
        for node in self._optimised.nodes:
            for position, name in enumerate(node.outputs):
                origins[name] = self._origin(node, position, origins)
        return origins

    def _origin(self, node: OnnxNode, position: int, origins: Mapping[str, str | None]) -> str | None:
        if node.outputs[position] in self._makers:
            return node.outputs[position]
        if node.name.endswith(_BLOCKED) and node.name.removesuffix(_BLOCKED) in self._makers:
            return self._after_fused(node.name.removesuffix(_BLOCKED))
        place = self._replaced(node.name)
        if place is not None and position < len(self._file.nodes[place].outputs):
            return self._after_fused(self._file.nodes[place].outputs[position])
        return origins.get(node.inputs[0]) if node.op in _MOVES and node.inputs else None

    def _still_there(self) -> set[str]:
        """Names of operators that were not fused into others, and of the tensors that they make."""
        left: set[str] = set()
        for node in self._optimised.nodes:
            left.add(_RENAMED.sub("", node.name))
            if node.op not in _MOVES or self._replaced(node.name) is not None:
                left.update(node.outputs)
        return left

    def _replaced(self, name: str) -> int | None:
        """The place in the file of the node that had this name."""
        while name not in self._named and _RENAMED.search(name):
            name = _RENAMED.sub("", name)
        return self._named.get(name)

    def _after_fused(self, tensor: str) -> str:
        """What becomes of a tensor in the operators behind it that are no longer there by themselves."""
        while len(users := self._users.get(tensor, [])) == 1:
            user = self._file.nodes[users[0]]
            if user.op not in _JOINS or self._left.intersection((self._names[users[0]], *user.outputs)):
                break
            tensor = user.outputs[0]
        return tensor

    def _places(self, node: OnnxNode) -> set[int] | None:
        """Places of the file's nodes that this one computes; None where that is unknown."""
        taken = [name for name in node.inputs if name and name not in self._optimised.constants]
        sources = {self._origins.get(name, name if name in self._constants else None) for name in taken}
        targets = {self._origins[name] for name in node.outputs if name} - {None}
        if None in sources or not targets:
            return set() if node.op in _MOVES and self._replaced(node.name) is None else None
        waiting = [name for name in targets - sources if name is not None]
        places: set[int] = set()
        while waiting:
            place = self._makers.get(waiting.pop())
            if place is None or place in places:
                continue
            places.add(place)
            between = set(self._file.nodes[place].inputs) - self._boundary - self._constants - {""}
            waiting.extend(between)
        return places


def _constants(graph: OnnxGraph) -> set[str]:
    """Tensors that depend on no input: an optimiser computes them once."""
    constants = set(graph.constants)
    for node in graph.nodes:
        stored = node.op == "Constant" or (any(node.inputs) and constants.issuperset(filter(None, node.inputs)))
        if stored and not node.has_subgraph:
            constants.update(node.outputs)
    return constants
