"""What makes two nodes, or two graphs, structurally the same: everything but names, sources and values."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.vocabulary import COMMUTATIVE

Signature = tuple[Any, ...]
# How a ReLU was found is not what it computes, and the numbers of tables are values.
_NO_STRUCTURE: Final = frozenset({"implied", "rotary", "rates", "weak"})


def signature(node: Node) -> Signature:
    """Op, attributes, parameter shapes and output shape. Numbers are compared at six digits, as float32 blurs them."""
    computing = ((key, value) for key, value in node.attributes.items() if key not in _NO_STRUCTURE)
    attributes = sorted((key, _plain(value)) for key, value in computing)
    tensors = sorted((tensor.role, tensor.shape) for tensor in node.parameters)
    return node.op, tuple(attributes), tuple(tensors), node.shape


def _plain(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"({','.join(_plain(item) for item in value)})"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:.6g}"


def node_hashes(graph: Graph) -> dict[str, str]:
    """For every value, a hash of all that leads to it. The order of a sum's terms does not matter."""
    hashes: dict[str, str] = {}
    for node in graph.nodes:
        inputs = [hashes[name] for name in node.inputs]
        if node.op in COMMUTATIVE:
            inputs.sort()
        hashes[node.name] = _hash(repr(signature(node)), *inputs)
    return hashes


def structure_hash(graph: Graph) -> str:
    """Equal for graphs of equal structure, whatever the names and the order of nodes."""
    hashes = node_hashes(graph)
    return _hash(*(hashes[name] for name in graph.outputs), *sorted(hashes.values()))


def _hash(*parts: str) -> str:
    machine = blake2b(digest_size=12)
    for part in parts:
        machine.update(part.encode())
        machine.update(b"\0")
    return machine.hexdigest()


def same_structure(a: Graph, b: Graph) -> bool:
    """Whether two canonical graphs are equal node by node apart from names, sources and keys."""
    return len(a.nodes) == len(b.nodes) and _rows(a) == _rows(b)


def _rows(graph: Graph) -> list[tuple[Any, ...]]:
    place = {node.name: index for index, node in enumerate(graph.nodes)}
    rows: list[tuple[Any, ...]] = [
        (signature(node), tuple(place[name] for name in node.inputs)) for node in graph.nodes
    ]
    return [*rows, tuple(place[name] for name in graph.outputs)]
