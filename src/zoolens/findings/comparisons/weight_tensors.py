"""A digest of every weight tensor of a model file, by name, from the bytes alone: nothing is run or unpickled.

ONNX, TFLite, GGUF, safetensors and torch's archives can be read so. What else there is (HDF5, TensorFlow's checkpoints,
torch files from before 1.6) only its library can read; `compare` then says that the files are compared as a whole.
"""

from __future__ import annotations

import hashlib
import pickletools
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

from zoolens.base.errors import ZoolensError
from zoolens.base.safety.untrusted import open_archive, open_regular, read_entry
from zoolens.inventory.runtimes.litert import tflite_file
from zoolens.inventory.runtimes.llamacpp.gguf_file import read_gguf
from zoolens.inventory.runtimes.model_files.safetensors_file import read_safetensors
from zoolens.inventory.runtimes.onnx import onnx_file, onnx_values

_LARGEST_PICKLE: Final = 64 << 20
_MOST_STEPS: Final = 5_000_000
_CHUNK: Final = 1 << 20
_STORAGE: Final = re.compile(r"[^/]+/(?:data/(\d+)|constants/(\d+)|data/weights/(weight_\d+))")


def weight_digests(format_: str, paths: Mapping[str, Path]) -> dict[str, str]:
    """Digests by name of all tensors with more than one value; none where this file cannot be read so."""
    path = paths.get("model")
    if path is None:
        return {}
    try:
        if format_ == "onnx":
            return _onnx(path)
        if format_ == "gguf":
            return _gguf(path)
        if format_ == "tflite":
            tensors = tflite_file.read_graph(path).tensors
            return {
                tensor.name: _digest(tensor.shape, bytes(tensor.content))
                for tensor in tensors
                if tensor.constant and tensor.shape
            }
        if format_ in ("torch-state-dict", "torchscript", "torch-export"):
            return _safetensors(path) if path.suffix == ".safetensors" else _torch_archive(path)
    except (ZoolensError, OSError, ValueError, KeyError, TypeError, IndexError, struct.error, zipfile.BadZipFile):
        pass
    return {}


def _onnx(path: Path) -> dict[str, str]:
    return {
        name: _digest(tensor.shape, onnx_values.array(tensor, path.parent).tobytes())
        for name, tensor in onnx_file.read_graph(path).constants.items()
        if tensor.shape and tensor.external is None
    }


def _safetensors(path: Path) -> dict[str, str]:
    tensors = read_safetensors(path).values()
    return _places(
        path, {tensor.name: (f"{tensor.type}{tensor.shape}", tensor.offset, tensor.nbytes) for tensor in tensors}
    )


def _gguf(path: Path) -> dict[str, str]:
    tensors = read_gguf(path).tensors
    return _places(
        path, {tensor.name: (f"{tensor.type.name}{tensor.shape}", tensor.offset, tensor.nbytes) for tensor in tensors}
    )


def _places(path: Path, places: Mapping[str, tuple[str, int, int]]) -> dict[str, str]:
    """Digests of parts of a file: by name, what stands before each, where it begins and its bytes."""
    digests = {}
    with open_regular(path) as file:
        for name, (shape, offset, nbytes) in places.items():
            file.seek(offset)
            digests[name] = _digest_of(shape, file, nbytes)
    return digests


def _torch_archive(path: Path) -> dict[str, str]:
    """Storages by the name of the tensor that first uses them; by their number where no name stands before them."""
    with open_archive(path) as archive:
        entries = [(entry, match) for entry in archive.infolist() if (match := _STORAGE.fullmatch(entry.filename))]
        pickled = next(
            (member for member in archive.namelist() if member.count("/") == 1 and member.endswith("/data.pkl")), None
        )
        names = {} if pickled is None else _tensor_names(read_entry(archive, pickled, _LARGEST_PICKLE))
        digests: dict[str, str] = {}
        for entry, match in entries:
            key = next(member for member in match.groups() if member is not None)
            name = names.get(key) if match[1] else None
            with archive.open(entry) as stream:
                digest = _digest_of("", stream, entry.file_size)
            own = entry.filename.split("/", 1)[1]
            digests[name if name is not None and name not in digests else own] = digest
        return digests


def _tensor_names(pickled: bytes) -> dict[str, str]:
    """The key of each storage and the text before it, which in a table of weights is the tensor's name. A storage is
    told as ("storage", type, key, place, size)."""
    names: dict[str, str] = {}
    arguments: list[str] = []
    for operation, argument in islice(_texts(pickled), _MOST_STEPS):
        if operation == "text":
            arguments = [*arguments[-3:], argument]
        elif len(arguments) == 4 and arguments[1] == "storage":
            names.setdefault(arguments[2], arguments[0])
            arguments = []
    return names


def _texts(pickled: bytes) -> Iterator[tuple[str, str]]:
    """("text", …) for every text in a pickle, also one that is said again by its number, and ("storage", "") where a
    storage ends."""
    kept: dict[int, str] = {}
    last: str | None = None
    operations: Iterator[tuple[Any, Any, Any]] = pickletools.genops(pickled)
    for operation, argument, _ in operations:
        if operation.name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            if last is not None:
                kept[len(kept) if operation.name == "MEMOIZE" else int(argument)] = last
            elif operation.name == "MEMOIZE":
                kept[len(kept)] = ""
            last = None
            continue
        last = argument if isinstance(argument, str) and operation.name.endswith("UNICODE") else None
        if last is not None:
            yield "text", last
        elif operation.name in ("BINGET", "LONG_BINGET") and kept.get(int(argument)):
            yield "text", kept[int(argument)]
        elif operation.name == "BINPERSID":
            yield "storage", ""


def _digest(shape: tuple[int, ...], content: bytes) -> str:
    return hashlib.sha256(f"{shape}".encode() + content).hexdigest()


def _digest_of(shape: str, stream: IO[bytes], size: int) -> str:
    hasher = hashlib.sha256(shape.encode())
    while size > 0 and (piece := stream.read(min(size, _CHUNK))):
        hasher.update(piece)
        size -= len(piece)
    if size:
        raise ValueError("the file ends within a tensor")
    return hasher.hexdigest()
