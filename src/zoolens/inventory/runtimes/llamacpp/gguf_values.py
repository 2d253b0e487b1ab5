"""The values of a tensor in a GGUF file, as float32. Quantised types are read by the library `gguf`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import MissingDependency, ModelError, first_line
from zoolens.base.safety.untrusted import open_regular
from zoolens.inventory.runtimes.llamacpp.gguf_file import GgufTensor, TensorType

Array = NDArray[np.float32]

_PIECE: Final = 1 << 24  # values at a time, so that a large tensor needs no second copy in other types
_PLAIN: Final = {"F32": "<f4", "F16": "<f2", "F64": "<f8"}


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
    width = tensor.shape[-1]
    rows = tensor.size // width
    row_bytes = tensor.nbytes // rows
    step = max(1, _PIECE // width)
    with open_regular(path) as file:
        file.seek(tensor.offset)
        for begin in range(0, rows, step):
            count = min(step, rows - begin)
            content = file.read(count * row_bytes)
            if len(content) < count * row_bytes:
                raise ModelError(f"{path.name} ends within its tensor {tensor.name[:80]!r}.")
            yield decoded(np.frombuffer(content, np.uint8).reshape(count, row_bytes), tensor.type)


def decoded(rows: NDArray[np.uint8], type_: TensorType) -> Array:
    """The values of rows of bytes."""
    if type_.name in _PLAIN:
        return rows.view(_PLAIN[type_.name]).astype(np.float32)
    if type_.name == "BF16":
        return (rows.view("<u2").astype(np.uint32) << 16).view(np.float32)
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
