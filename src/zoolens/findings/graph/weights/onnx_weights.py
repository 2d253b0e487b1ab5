"""Weight tensors by what the graph of their file calls them, as initializers of ONNX files are found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Final

from zoolens.base.errors import ModelError
from zoolens.findings.graph.weights.rounding import FLOATS
from zoolens.findings.graph.weights.stored_weights import COMPUTED, LoadedTensor, StoredTensor, stored_weights
from zoolens.inventory.runtimes.llamacpp.gguf_file import read_gguf
from zoolens.inventory.runtimes.llamacpp.llama_tensors import KNOWN, transformers_name
from zoolens.inventory.runtimes.onnx.onnx_file import OnnxTensor, read_graph
from zoolens.inventory.runtimes.onnx.onnx_values import array

SUFFIX: Final = ".onnx"
_TYPES: Final = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}


def keyed_weights(path: Path, keys: Sequence[str]) -> Mapping[str, StoredTensor]:
    """The tensors of a file by what its graph calls them; ModelError where one is computed from others."""
    if path.suffix == SUFFIX:
        constants = read_graph(path).constants
        return {key: _of_onnx(path, key, constants) for key in keys}
    stored = stored_weights(path)
    known = path.suffix == ".gguf" and read_gguf(path).architecture in KNOWN
    found = {key: stored.get((transformers_name(key) if known else None) or key) for key in keys}
    lost = next((key for key, tensor in found.items() if tensor is None), None)
    if lost is not None:
        raise _computed(lost, path)
    return {key: tensor for key, tensor in found.items() if tensor is not None}


def left_out(path: Path, found: Mapping[str, StoredTensor]) -> list[str]:
    """Names of weight tensors that a file has beside these. Of ONNX files the graph knows what is a weight."""
    if path.suffix == SUFFIX:
        return []
    covered = {tensor.name for tensor in found.values()}
    return [name for name in stored_weights(path) if name not in covered and not COMPUTED.fullmatch(name)]


def _of_onnx(path: Path, key: str, constants: Mapping[str, OnnxTensor]) -> StoredTensor:
    """An initializer, or one whose axes are turned: the graph writes their order behind an @."""
    name, _, order = (key, "", "") if key in constants else key.rpartition("@")
    tensor = constants.get(name)
    perm = [int(axis) for axis in order] if order.isdecimal() else list(range(len(tensor.shape))) if tensor else []
    if tensor is None or tensor.dtype not in _TYPES or sorted(perm) != list(range(len(tensor.shape))):
        raise _computed(key, path)
    shape = tuple(tensor.shape[axis] for axis in perm)
    type_ = _TYPES[tensor.dtype]
    place = LoadedTensor(prod(shape), lambda: array(tensor, path.parent).transpose(perm))
    return StoredTensor(key, shape, type_, FLOATS[type_], path, place)


def _computed(key: str, path: Path) -> ModelError:
    return ModelError(
        f"The weights of {path.name} are not compared: {key[:80]!r} is computed from other tensors, or is of a "
        "type that is not read."
    )
