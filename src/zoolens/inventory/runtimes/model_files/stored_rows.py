"""The rows of a tensor in a file of weights, and the values of those whose type is a float."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.base.safety.untrusted import open_regular

_FLOATS: Final = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}  # as GGUF and safetensors call them


class Stored(Protocol):
    """Where a tensor lies in its file; its place was checked when the header was read."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def size(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def nbytes(self) -> int: ...


def stored_rows(path: Path, tensor: Stored, rows: int) -> Iterator[NDArray[np.uint8]]:
    """The bytes of a tensor, so many rows (of its last axis) at a time."""
    width = tensor.shape[-1] if tensor.shape else 1
    count = tensor.size // max(1, width)
    row_bytes = tensor.nbytes // max(1, count)
    with open_regular(path) as file:
        file.seek(tensor.offset)
        for begin in range(0, count, rows):
            wanted = min(rows, count - begin)
            content = file.read(wanted * row_bytes)
            if len(content) < wanted * row_bytes:
                raise ModelError(f"{path.name} ends within its tensor {tensor.name[:80]!r}.")
            yield np.frombuffer(content, np.uint8).reshape(wanted, row_bytes)


def float_values(rows: NDArray[np.uint8], type_: str) -> NDArray[np.float32] | None:
    """The values of rows of bytes in float32; None of a type that is no float."""
    if type_ == "BF16":
        return (rows.view("<u2").astype(np.uint32) << 16).view(np.float32)
    if type_ not in _FLOATS:
        return None
    with np.errstate(over="ignore"):
        return rows.view(_FLOATS[type_]).astype(np.float32)
