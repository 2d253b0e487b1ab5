"""A copy of a GGUF file whose tensors have other types or other values. One tensor is in memory at a time."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError, first_line
from zoolens.base.paths import replaced_file
from zoolens.base.safety.untrusted import open_regular
from zoolens.inventory.runtimes.llamacpp.gguf_file import (
    TENSOR_TYPES,
    TYPES_BY_NAME,
    GgufFile,
    GgufTensor,
    TensorType,
    read_gguf,
)
from zoolens.inventory.runtimes.llamacpp.gguf_values import Array, gguf_quants, tensor_values

TypeOf = Callable[[GgufTensor], str]  # the name of the type that a tensor gets
Change = Callable[[GgufTensor, Array], Array | None]  # other values of a tensor, in its shape; None: its own

_NUMBERS: Final = {type_.name: number for number, type_ in TENSOR_TYPES.items()}
# llama.cpp's number for a file that mostly has this type; others are written as mixed.
_FILE_TYPES: Final = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "BF16": 32}
_FILE_TYPE_KEY: Final = b"general.file_type"
_UINT32: Final = 4
_GUESSED: Final = 1024  # "the type was guessed" in llama.cpp: a mixture


def copy_gguf(source: Path, target: Path, type_of: TypeOf, change: Change | None = None) -> GgufFile:
    """Writes the copy and reads its header back. A tensor that keeps its type and its values keeps its bytes."""
    file = read_gguf(source)
    types = {tensor.name: _wanted(tensor, type_of(tensor)) for tensor in file.tensors}
    alignment = int(file.metadata.get("general.alignment", 32))
    with replaced_file(target) as out:
        out.write(_header(source, file, types, alignment))
        for tensor in file.tensors:
            _pad(out, alignment)
            out.write(_content(source, tensor, types[tensor.name], change))
        _pad(out, alignment)
    return read_gguf(target)


def encoded(values: Array, type_: TensorType) -> bytes:
    """The values in this type, as the library `gguf` rounds them."""
    if type_.name == "F32":
        return np.ascontiguousarray(values, "<f4").tobytes()
    quants = gguf_quants()
    try:
        with np.errstate(all="ignore"):
            content: NDArray[np.generic] = quants.quantize(values, quants.GGMLQuantizationType[type_.name])
    except (NotImplementedError, KeyError, quants.QuantError) as error:
        raise ModelError(f"The installed gguf cannot write the type {type_.name}: {first_line(error)}.") from error
    return content.tobytes()


def _wanted(tensor: GgufTensor, name: str) -> TensorType:
    type_ = TYPES_BY_NAME.get(name)
    if type_ is None:
        raise ModelError(f"There is no type {name[:40]!r} of tensors.")
    if tensor.shape[-1] % type_.block:
        raise ModelError(
            f"The rows of {tensor.name[:80]!r} have {tensor.shape[-1]:,} numbers, which are no whole blocks of {name}."
        )
    return type_


def _content(source: Path, tensor: GgufTensor, type_: TensorType, change: Change | None) -> bytes:
    values = tensor_values(source, tensor) if change is not None or type_ != tensor.type else None
    changed = None if change is None or values is None else change(tensor, values)
    if changed is None and type_ == tensor.type:
        with open_regular(source) as file:
            file.seek(tensor.offset)
            return file.read(tensor.nbytes)
    kept = changed if changed is not None else values
    assert kept is not None  # it was read, because its type changes
    return encoded(kept, type_)


def _header(source: Path, file: GgufFile, types: Mapping[str, TensorType], alignment: int) -> bytes:
    """The metadata as they are, but for the type of the file, and the tensors in their new types."""
    with open_regular(source) as opened:
        head = bytearray(opened.read(file.metadata_end))
    place = head.find(struct.pack("<Q", len(_FILE_TYPE_KEY)) + _FILE_TYPE_KEY + struct.pack("<I", _UINT32))
    if place >= 0 and "general.file_type" in file.metadata:
        struct.pack_into("<I", head, place + 8 + len(_FILE_TYPE_KEY) + 4, _file_type(file, types))
    listed, offset = [], 0
    for tensor in file.tensors:
        type_ = types[tensor.name]
        name, extents = tensor.name.encode(), tensor.shape[::-1]
        listed.append(struct.pack("<Q", len(name)) + name)
        listed.append(struct.pack(f"<I{len(extents)}QIQ", len(extents), *extents, _NUMBERS[type_.name], offset))
        nbytes = tensor.size // type_.block * type_.block_bytes
        offset += -(-nbytes // alignment) * alignment
    return bytes(head) + b"".join(listed)


def _file_type(file: GgufFile, types: Mapping[str, TensorType]) -> int:
    matrices = {types[tensor.name].name: 0 for tensor in file.tensors if len(tensor.shape) > 1}
    for tensor in file.tensors:
        if len(tensor.shape) > 1:
            matrices[types[tensor.name].name] += tensor.size
    most = max(matrices, key=lambda name: matrices[name], default="F32")
    return _FILE_TYPES.get(most, _GUESSED)


def _pad(out: IO[bytes], alignment: int) -> None:
    out.write(bytes(-out.tell() % alignment))
