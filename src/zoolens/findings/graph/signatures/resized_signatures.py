"""What a network is at another image size than that of its file: its padding, and what else depends on the size."""

from __future__ import annotations

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.signatures.image_size import resized
from zoolens.findings.graph.signatures.signatures import StructureSignature, signature


class ResizedSignatures:
    """The signature of a network by image size; None where something binds the network to its own size."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._made: dict[tuple[int, ...], StructureSignature | None] = {}

    def at(self, size: tuple[int, ...]) -> StructureSignature | None:
        if size not in self._made:
            self._made[size] = self._signature(size)
        return self._made[size]

    def _signature(self, size: tuple[int, ...]) -> StructureSignature | None:
        if len(size) != 2:
            return None
        try:
            return signature(canonical(resized(self._graph, (size[0], size[1]))))
        except ModelError:
            return None
