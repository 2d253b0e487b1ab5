"""Torch weights together with a library's architecture, as a graph that carries them: `torch-state-dict` files.

The request's files have the weights; its arguments say how the network is built and which input it takes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from zoolens.graph.importers.base import Importer, Request
from zoolens.graph.model import Graph


def load(request: Request) -> Graph:
    """The network is traced once, on zeros of the given shape."""
    from zoolens.graph.importers.torch.library import graph_of_module
    from zoolens.runtimes.base import ModelFiles
    from zoolens.runtimes.torchweights import build_with_weights

    arguments: dict[str, Any] = dict(request.arguments)
    files = {role: Path(path) for role, path in request.files.items()}
    module = build_with_weights(ModelFiles("torch-state-dict", files, architecture=arguments["architecture"]))
    zeros = next(module.parameters()).new_zeros([1, *arguments["shape"]])
    return graph_of_module(module, [zeros], request.subject, weights=True)


STATE_DICT = Importer(load, ("torch",))
