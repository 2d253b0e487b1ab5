"""Torch weights together with a library's architecture, as a graph that carries them: `torch-state-dict` files.

The request's files have the weights; its arguments say how the network is built and which input it takes.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from zoolens.findings.graph.importers.importer import Importer, Request
from zoolens.findings.graph.ir.model import Graph
from zoolens.inventory.frameworks.placeholder_modules import without_torch_compiler
from zoolens.inventory.frameworks.torchvision_shim import import_torchvision


def load(request: Request) -> Graph:
    """The network is traced once, on zeros of the given shape."""
    # transformers imports parts of torch's compiler by itself
    compiles = request.arguments["architecture"]["library"] == "transformers"
    with nullcontext() if compiles else without_torch_compiler():
        return _loaded(request)


def _loaded(request: Request) -> Graph:
    from zoolens.findings.graph.importers.torch.torch_library import graph_of_module
    from zoolens.inventory.runtimes.runtime import ModelFiles
    from zoolens.inventory.runtimes.torch.torch_weights import build_with_weights

    with suppress(ImportError):
        import_torchvision(with_compiler=False)  # before the runtime's code imports it with the compiler
    arguments: dict[str, Any] = dict(request.arguments)
    files = {role: Path(path) for role, path in request.files.items()}
    module = build_with_weights(ModelFiles("torch-state-dict", files, architecture=arguments["architecture"]))
    zeros = next(module.parameters()).new_zeros([1, *arguments["shape"]])
    if arguments.get("whole"):
        zeros = zeros.long()  # places in a table, such as the numbers of tokens
    return graph_of_module(module, [zeros], request.subject, weights=True)


STATE_DICT = Importer(load, ("torch",))
