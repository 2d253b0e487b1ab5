"""GGUF files. The file names an architecture and has its tensors; which operators lie between them is known here.

An architecture that is not known is refused, and so is a tensor or a setting that a known one does not have: another
network would be counted and nobody would notice.
"""

from __future__ import annotations

from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.gguf.llama_network import FAMILIES, LlamaNetwork
from zoolens.findings.graph.importers.gguf.llama_settings import read_settings
from zoolens.findings.graph.importers.importer import Importer, Request, counted, model_path
from zoolens.findings.graph.importers.input_shapes import with_extents
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.ir.rotary_tables import with_rotary_tables
from zoolens.inventory.runtimes.llamacpp.gguf_file import GgufFile, read_gguf
from zoolens.inventory.runtimes.runtime import TensorSpec

INPUT: Final = "tokens"
_TOKENS: Final = 128  # of a text where no length is given, as for networks of transformers


def load(request: Request) -> Graph:
    path = model_path(request)
    file = read_gguf(path)
    if file.architecture not in FAMILIES:
        raise ModelError(
            f"{path.name} has the architecture {file.architecture[:60]!r}, whose structure is not known here.",
            hint=f"Structures are known for {', '.join(FAMILIES)}. The file can still be run.",
        )
    network = LlamaNetwork(path, file, read_settings(file), weights=request.weights)
    output = network.build(_length(file, request))
    graph = network.builder.finish([output], _facts(file))
    return counted(with_rotary_tables(graph, network.tables))


def _length(file: GgufFile, request: Request) -> int:
    """Tokens of the text that is counted."""
    _, given = with_extents(TensorSpec(INPUT, (1, None), "int32"), request.extents).shape
    longest = file.context_length
    if given is None:
        return max(1, min(_TOKENS, longest or _TOKENS))
    if longest is not None and given > longest:
        raise ModelError(f"{file.name} takes texts of at most {longest:,} tokens; got {given:,}.")
    return given


def _facts(file: GgufFile) -> dict[str, Any]:
    return {
        "format": "gguf",
        "architecture": file.architecture,
        "title": (file.text("general.name") or "")[:200],
        **_stated(file),
        # Types with blocks of 256 values cannot hold such rows; llama.cpp then takes others.
        "narrow_rows": any(tensor.shape[-1] % 256 for tensor in file.tensors if len(tensor.shape) > 1),
        "context_length": file.context_length,
        "tensor_types": {tensor.name: tensor.type.name for tensor in file.tensors},
        "tensor_bytes": {tensor.name: tensor.nbytes for tensor in file.tensors},
    }


def _stated(file: GgufFile) -> dict[str, Any]:
    """What the file says of its size and its types. Nothing depends on it, so that nonsense is left out."""
    label, number = (file.metadata.get(f"general.{key}") for key in ("size_label", "file_type"))
    stated: dict[str, Any] = {}
    if isinstance(label, bytes):
        stated["size_label"] = label.decode(errors="replace")[:40]
    if isinstance(number, int) and not isinstance(number, bool):
        stated["file_type"] = number
    return stated


GGUF: Final = Importer(load, distributions=())
