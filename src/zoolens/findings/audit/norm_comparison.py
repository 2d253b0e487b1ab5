"""Whether a network has norms that the networks of its name do not have.

Signatures pass over norms, because exporters fold them: a VGG-16 with folded batch norms is a VGG-16. Norms that are
still there can be seen, and how many numbers a known network has tells whether it has them, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from zoolens.findings.graph.ir.model import STATISTICS, Graph
from zoolens.findings.graph.ir.vocabulary import NORMS
from zoolens.findings.graph.signatures.known_networks import KnownNetwork
from zoolens.findings.graph.signatures.signatures import LEARNED, StructureSignature, final_nodes

_CLASSES: Final = 1_000  # of the networks that zoos ship. A few have more, which hides norms that were added


class Norms(Enum):
    AGREE = auto()  # a network of the name has as many numbers
    FOLDED = auto()  # none are left: they are folded into biases, or the network never had any
    ADDED = auto()  # without its norms it would have exactly as many numbers as a network of the name
    UNKNOWN = auto()


@dataclass(frozen=True)
class _Numbers:
    """The learned numbers of a network: all but those of its classifier, those of its norms, and those that each
    class takes."""

    body: int
    norms: int
    per_class: int


def compare_norms(graph: Graph, own: StructureSignature, networks: Iterable[KnownNetwork]) -> Norms:
    """`networks` have the layers of the graph, norms aside."""
    numbers = _numbers(graph)
    bodies = {network.signature.parameters - _CLASSES * numbers.per_class for network in networks}
    if numbers.body in bodies:
        return Norms.AGREE
    if not numbers.norms:
        return Norms.FOLDED
    if numbers.body - numbers.norms in bodies:
        return Norms.ADDED
    # To an image size, on which the number of weights depends.
    bound = any("map→" in layer for layer in own.layers)
    folds_some = not bound and any(body > numbers.body for body in bodies)
    return Norms.AGREE if folds_some else Norms.UNKNOWN


def _numbers(graph: Graph) -> _Numbers:
    final = final_nodes(graph)
    heads = [node for node in graph if node.op in LEARNED and node.name in final]
    in_heads = sum(tensor.size for node in heads for tensor in node.parameters if not _of_norm(node.op, tensor.role))
    classes = sum(node.parameters[0].shape[0] for node in heads if node.parameters)
    norms = sum(tensor.size for node, tensor in graph.learned_tensors() if _of_norm(node.op, tensor.role))
    return _Numbers(graph.parameters - in_heads, norms, in_heads // classes if classes else 0)


def _of_norm(op: str, role: str) -> bool:
    return (role.startswith("norm_") or op in NORMS) and role not in STATISTICS
