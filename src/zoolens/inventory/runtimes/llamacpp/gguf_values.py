"""The values of a tensor in a GGUF file, as float32. Quantised types are read by the library `gguf`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import MissingDependency, ModelError, first_line
from zoolens.inventory.runtimes.llamacpp.gguf_file import GgufTensor, TensorType
from zoolens.inventory.runtimes.model_files.stored_rows import float_values, stored_rows

Array = NDArray[np.float32]

_PIECE: Final = 1 << 24  # values at a time, so that a large tensor needs no second copy in other types


def tensor_values(path: Path, tensor: GgufTensor) -> Array:
    """All values of a tensor, whose place was checked when the header was read."""
    values = np.empty(tensor.shape, np.float32)
    rows = values.reshape(-1, tensor.shape[-1])
    begin = 0
    for piece in tensor_pieces(path, tensor):
        rows[begin : begin + len(piece)] = piece
        begin += len(piece)
    return values


def tensor_pieces(path: Path, tensor: GgufTensor) -> Iterator[Array]:
    """The rows of a tensor in order, some at a time. A row is what its last axis spans."""
    for rows in stored_rows(path, tensor, max(1, _PIECE // tensor.shape[-1])):
        yield decoded(rows, tensor.type)


def decoded(rows: NDArray[np.uint8], type_: TensorType) -> Array:
    """The values of rows of bytes."""
    floats = float_values(rows, type_.name)
    if floats is not None:
        return floats
    if type_.name.startswith("I") and type_.block == 1:
        raise ModelError(f"Tensors of type {type_.name} are whole numbers and no weights.")
    quants = gguf_quants()
    try:
        with np.errstate(all="ignore"):
            values: Array = quants.dequantize(rows, quants.GGMLQuantizationType[type_.name])
    except (NotImplementedError, KeyError) as error:
        raise ModelError(f"The installed gguf does not read the type {type_.name}: {first_line(error)}.") from error
    return values


def gguf_quants() -> Any:
    """The module of the library `gguf` that knows how each type rounds."""
    try:
        from gguf import quants
    except ImportError as error:
        raise MissingDependency("Reading quantised tensors of a GGUF file", "gguf", "gguf") from error
    return quants
