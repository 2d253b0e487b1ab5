"""The header of a safetensors file, with every place checked, and the values of its tensors."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.base.safety.untrusted import open_regular, parse_json
from zoolens.inventory.runtimes.model_files.stored_rows import float_values

_LONGEST_HEADER: Final = 100 << 20  # bytes, as in the safetensors library
_BITS: Final = {
    "F64": 64,
    "F32": 32,
    "F16": 16,
    "BF16": 16,
    "I64": 64,
    "I32": 32,
    "I16": 16,
    "I8": 8,
    "U8": 8,
    "BOOL": 8,
}


@dataclass(frozen=True)
class SafeTensor:
    """A tensor of the file."""

    name: str
    shape: tuple[int, ...]
    type: str  # as the format names it
    offset: int  # from the beginning of the file
    nbytes: int

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def read_safetensors(path: Path) -> dict[str, SafeTensor]:
    """The tensors of a file by name; ModelError in one sentence where its header contradicts itself or the file."""
    try:
        with open_regular(path) as file:
            total = file.seek(0, 2)
            file.seek(0)
            (size,) = struct.unpack("<Q", file.read(8))
            # One that is cut off is no JSON.
            header = parse_json(file.read(min(size, _LONGEST_HEADER)))
        return _tensors(header, 8 + size, total)
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{path.name} is not a complete safetensors file: {str(error)[:120]}.") from error


def _tensors(header: Mapping[str, Any], start: int, total: int) -> dict[str, SafeTensor]:
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        shape = tuple(map(_whole, entry["shape"]))
        begin, end = map(_whole, entry["data_offsets"])
        bits = _BITS.get(entry["dtype"])
        if bits is None:
            raise ValueError(f"its tensor {name[:60]!r} is of the type {entry['dtype']!s:.20}, which is not known here")
        if any(extent < 0 for extent in shape) or not 0 <= begin <= end <= total - start:
            raise ValueError(f"its tensor {name[:60]!r} lies outside it")
        if end - begin != math.prod(shape) * bits // 8:
            raise ValueError(f"its tensor {name[:60]!r} has other bytes than values")
        tensors[name] = SafeTensor(name, shape, entry["dtype"], start + begin, end - begin)
    return tensors


def _whole(value: object) -> int:
    if type(value) is not int:  # 1e400 is an infinite float in JSON
        raise ValueError(f"{value!s:.20} is no whole number")
    return value


def safetensors_values(rows: NDArray[np.uint8], type_: str) -> NDArray[np.float32]:
    """The values of rows of bytes."""
    values = float_values(rows, type_)
    if values is None:
        raise ModelError(f"Tensors of type {type_} are no weights that can be compared.")
    return values
