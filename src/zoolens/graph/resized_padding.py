"""What the windows of a network pad at another image size than that of its file."""

from __future__ import annotations

from zoolens.errors import ModelError
from zoolens.graph.image_size import resized
from zoolens.graph.model import Graph
from zoolens.graph.signatures import signature


class ResizedPadding:
    """The digest of a network's padding by image size; "" where something binds it to its own size."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._digests: dict[tuple[int, ...], str] = {}

    def at(self, size: tuple[int, ...]) -> str:
        if size not in self._digests:
            self._digests[size] = self._digest(size)
        return self._digests[size]

    def _digest(self, size: tuple[int, ...]) -> str:
        if len(size) != 2:
            return ""
        try:
            return signature(resized(self._graph, (size[0], size[1]))).padding
        except ModelError:
            return ""
