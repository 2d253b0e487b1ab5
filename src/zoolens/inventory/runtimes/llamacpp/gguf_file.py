"""GGUF, the file format of llama.cpp, read by hand: what the header says, with every count and offset checked.

llama.cpp trusts more than it should: a count that does not fit ends its process or takes all memory. A file is
therefore read here first. Numpy and the standard library only: workers import it.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.base.safety.untrusted import open_regular

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)  # version 1 had other widths of its counts, and llama.cpp refuses it as well
# Llama 3 has 128,256 tokens with 280,147 merges in a header of 8 MB, Gemma 3 has 262,144 tokens in 16 MB.
_MAX_HEADER_BYTES: Final = 1 << 28
_CHUNK: Final = 1 << 20  # what is read first; then as much again, and so on
_MAX_ENTRIES: Final = 1 << 16  # of metadata; models have 20 to 60
_MAX_TENSORS: Final = 1 << 17
_MAX_ITEMS: Final = 1 << 22  # of one array
_MAX_NAME_BYTES: Final = 1 << 10
_MAX_RANK: Final = 4  # GGML_MAX_DIMS
_MAX_ALIGNMENT: Final = 1 << 20

_LENGTH: Final = struct.Struct("<Q")
_STRING, _ARRAY, _BOOL = 8, 9, 7
_NUMBERS: Final[Mapping[int, str]] = {
    0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", _BOOL: "?", 10: "<u8", 11: "<i8", 12: "<f8",
}  # fmt: skip


@dataclass(frozen=True)
class TensorType:
    """How values are stored: in blocks, each of so many values in so many bytes."""

    name: str
    block: int
    block_bytes: int

    @property
    def bits(self) -> float:
        """Bits that one value takes, scales of its block included."""
        return 8 * self.block_bytes / self.block


# By ggml's number. Those that it removed or never stores (Q8_1, Q8_K) are not here.
TENSOR_TYPES: Final[Mapping[int, TensorType]] = {
    number: TensorType(name, block, size)
    for number, name, block, size in (
        (0, "F32", 1, 4), (1, "F16", 1, 2), (30, "BF16", 1, 2), (28, "F64", 1, 8),
        (24, "I8", 1, 1), (25, "I16", 1, 2), (26, "I32", 1, 4), (27, "I64", 1, 8),
        (2, "Q4_0", 32, 18), (3, "Q4_1", 32, 20), (6, "Q5_0", 32, 22), (7, "Q5_1", 32, 24), (8, "Q8_0", 32, 34),
        (10, "Q2_K", 256, 84), (11, "Q3_K", 256, 110), (12, "Q4_K", 256, 144), (13, "Q5_K", 256, 176),
        (14, "Q6_K", 256, 210),
        (16, "IQ2_XXS", 256, 66), (17, "IQ2_XS", 256, 74), (22, "IQ2_S", 256, 82), (18, "IQ3_XXS", 256, 98),
        (21, "IQ3_S", 256, 110), (19, "IQ1_S", 256, 50), (29, "IQ1_M", 256, 56), (20, "IQ4_NL", 32, 18),
        (23, "IQ4_XS", 256, 136), (34, "TQ1_0", 256, 54), (35, "TQ2_0", 256, 66), (39, "MXFP4", 32, 17),
        (40, "NVFP4", 64, 36), (41, "Q1_0", 128, 18),
    )
}  # fmt: skip
TYPES_BY_NAME: Final[Mapping[str, TensorType]] = {type_.name: type_ for type_ in TENSOR_TYPES.values()}


@dataclass(frozen=True)
class GgufTensor:
    """A tensor of the file. `shape`: the fastest axis last, as numpy has it; the file has it first."""

    name: str
    shape: tuple[int, ...]
    type: TensorType
    offset: int  # from the beginning of the file
    nbytes: int

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class GgufFile:
    """What the header of a file says. Arrays of numbers are numpy's, arrays of texts are tuples of bytes."""

    name: str
    version: int
    metadata: Mapping[str, Any]
    tensors: tuple[GgufTensor, ...]
    nbytes: int
    metadata_end: int = 0  # where the list of tensors begins, from the beginning of the file

    @property
    def architecture(self) -> str:
        return self.text("general.architecture") or ""

    @property
    def parameters(self) -> int:
        return sum(tensor.size for tensor in self.tensors)

    @cached_property
    def types(self) -> Mapping[str, int]:
        """How many tensors have each type, the most frequent first."""
        return dict(Counter(tensor.type.name for tensor in self.tensors).most_common())

    @property
    def context_length(self) -> int | None:
        """Tokens of the longest text that the model was trained with."""
        return self.number(f"{self.architecture}.context_length")

    def text(self, key: str) -> str | None:
        """A text of the metadata; None where there is none, ModelError where it is no text in UTF-8."""
        value = self.metadata.get(key)
        if value is None:
            return None
        if not isinstance(value, bytes):
            raise self._wrong(key, "a text")
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise self._wrong(key, "a text in UTF-8") from error

    def number(self, key: str) -> int | None:
        value = self.metadata.get(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(key, "a whole number")
        return value

    def flag(self, key: str) -> bool | None:
        value = self.metadata.get(key)
        if value is None or isinstance(value, bool):
            return value
        raise self._wrong(key, "true or false")

    def texts(self, key: str) -> tuple[bytes, ...] | None:
        """An array of texts, as bytes: tokens of a vocabulary need not be UTF-8."""
        value = self.metadata.get(key)
        if value is None or isinstance(value, tuple):
            return value
        raise self._wrong(key, "an array of texts")

    def numbers(self, key: str) -> np.ndarray[Any, Any] | None:
        value = self.metadata.get(key)
        if value is None or isinstance(value, np.ndarray):
            return value
        raise self._wrong(key, "an array of numbers")

    def _wrong(self, key: str, wanted: str) -> ModelError:
        return ModelError(f"The metadata {key} of {self.name} is not {wanted}.")


def read_gguf(path: Path) -> GgufFile:
    """The header of a GGUF file; ModelError in one sentence where it contradicts itself or the file's size."""
    try:
        with open_regular(path) as file:
            return _Reader(file, path.name).read()
    except OSError as error:
        raise ModelError(f"{path.name} cannot be read: {error.strerror or error}.") from error


class _Reader:
    """Reads a header once from its beginning to its end."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._name = name
        self._file = file
        self._size = file.seek(0, 2)
        file.seek(0)
        self._content = file.read(_CHUNK)
        self._place = 0

    def read(self) -> GgufFile:
        if self._content[:4] != _MAGIC:
            raise ModelError(f"{self._name} is not a GGUF file.", hint="Is the format in the manifest right?")
        self._place = 4
        version = self._number("<I")
        if version not in _VERSIONS:
            what = "big-endian" if version > 0xFFFF else f"version {version}"
            raise ModelError(f"{self._name} is a GGUF file of {what}; versions 2 and 3 in little-endian are read.")
        tensors, entries = self._count("tensors", _MAX_TENSORS), self._count("metadata entries", _MAX_ENTRIES)
        metadata = self._metadata(entries)
        metadata_end = self._place
        stated = [self._tensor() for _ in range(tensors)]
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 0 < alignment <= _MAX_ALIGNMENT or alignment & (alignment - 1):
            raise self._damaged("its alignment is no power of two")
        start = -(-self._place // alignment) * alignment
        parts = metadata.get("split.count", 1)
        if not isinstance(parts, int) or parts > 1:
            raise ModelError(
                f"{self._name} is one part of a model that was split.", hint="Join the parts with llama-gguf-split."
            )
        placed = self._placed(stated, start, alignment)
        file = GgufFile(self._name, version, metadata, placed, self._size, metadata_end)
        self._check_network(file)
        return file

    def _check_network(self, file: GgufFile) -> None:
        """Refuses sizes of the network at which llama.cpp ends its process."""
        blocks = file.number(f"{file.architecture}.block_count")
        if blocks is not None and not 0 < blocks <= max(len(file.tensors), 1):
            raise self._damaged(f"it states {blocks:,} blocks for {len(file.tensors):,} tensors")
        if file.context_length is not None and file.context_length < 1:
            raise self._damaged(f"it states a context of {file.context_length:,} tokens")

    def _metadata(self, entries: int) -> dict[str, Any]:
        metadata: dict[str, Any] = {}
        for _ in range(entries):
            key = self._name_text()
            if key in metadata:
                raise self._damaged(f"it has the metadata {key[:80]!r} twice")
            metadata[key] = self._value(self._number("<I"))
        return metadata

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY:
            return self._array()
        return self._items(kind, 1)[0].item()

    def _array(self) -> Any:
        kind = self._number("<I")
        if kind == _ARRAY:
            raise self._damaged("it nests arrays in its metadata")
        count = self._count("items of an array", _MAX_ITEMS)
        if kind != _STRING:
            return self._items(kind, count)
        # Each has 8 bytes of length at least.
        self._need(8 * count)
        return tuple(self._texts(count))

    def _texts(self, count: int) -> Iterator[bytes]:
        """Reads so many texts. A vocabulary has 100,000, and calls of `_text` take three times as long."""
        for _ in range(count):
            begin = self._place + 8
            if begin > len(self._content):
                self._need(8)
            end = begin + _LENGTH.unpack_from(self._content, begin - 8)[0]
            if end > len(self._content):
                self._need(end - self._place)
            self._place = end
            yield self._content[begin:end]

    def _items(self, kind: int, count: int) -> np.ndarray[Any, Any]:
        if kind not in _NUMBERS:
            raise self._damaged(f"it has metadata of the unknown type {kind}")
        dtype = np.dtype(_NUMBERS[kind])
        content = self._take(count * dtype.itemsize)
        if kind == _BOOL and content.strip(b"\x00\x01"):
            raise self._damaged("it has a truth value that is neither true nor false")
        return np.frombuffer(content, dtype)

    def _tensor(self) -> tuple[str, tuple[int, ...], TensorType, int]:
        name = self._name_text()
        shown = repr(name[:80])
        rank = self._number("<I")
        if rank > _MAX_RANK:
            raise self._damaged(f"its tensor {shown} has {rank:,} axes, and {_MAX_RANK} are possible")
        extents = struct.unpack(f"<{rank}Q", self._take(8 * rank))
        number = self._number("<I")
        if number not in TENSOR_TYPES:
            raise ModelError(f"{self._name} has a tensor {shown} of type {number}, which is not known here.")
        type_ = TENSOR_TYPES[number]
        if 0 in extents or math.prod(extents) > 1 << 62:
            raise self._damaged(f"its tensor {shown} has an impossible shape")
        if rank == 0 or extents[0] % type_.block:
            raise self._damaged(f"rows of its tensor {shown} are no whole blocks of {type_.name}")
        return name, tuple(reversed(extents)), type_, self._number("<Q")

    def _placed(
        self, stated: list[tuple[str, tuple[int, ...], TensorType, int]], start: int, alignment: int
    ) -> tuple[GgufTensor, ...]:
        """Tensors with their places, none of which lies outside the file or in another one."""
        tensors = []
        for name, shape, type_, offset in stated:
            nbytes = math.prod(shape) // type_.block * type_.block_bytes
            if offset % alignment or start + offset + nbytes > self._size:
                raise self._damaged(f"its tensor {name[:80]!r} lies outside the file, which may be cut off")
            tensors.append(GgufTensor(name, shape, type_, start + offset, nbytes))
        if len({tensor.name for tensor in tensors}) < len(tensors):
            raise self._damaged("two of its tensors have one name")
        ordered = sorted(tensors, key=lambda tensor: tensor.offset)
        for before, after in pairwise(ordered):
            if before.offset + before.nbytes > after.offset:
                raise self._damaged(f"its tensors {before.name[:80]!r} and {after.name[:80]!r} overlap")
        return tuple(tensors)

    def _name_text(self) -> str:
        content = self._text()
        if len(content) > _MAX_NAME_BYTES:
            raise self._damaged(f"it has a name of {len(content):,} bytes")
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise self._damaged("it has a name that is not UTF-8") from error

    def _text(self) -> bytes:
        return self._take(self._number("<Q"))

    def _count(self, what: str, most: int) -> int:
        count = self._number("<Q")
        if count > most:
            raise self._damaged(f"it states {count:,} {what}, and {most:,} are read at most")
        return count

    def _number(self, layout: str) -> int:
        (value,) = struct.unpack(layout, self._take(struct.calcsize(layout)))
        return int(value)

    def _take(self, count: int) -> bytes:
        self._need(count)
        content = self._content[self._place : self._place + count]
        self._place += count
        return content

    def _need(self, count: int) -> None:
        """Reads on until so many bytes are there from the present place on."""
        end = self._place + count
        if end > self._size:
            raise self._damaged("it ends within its header")
        if end > _MAX_HEADER_BYTES:
            raise self._damaged(f"its header has more than the {_MAX_HEADER_BYTES:,} bytes that are read")
        while end > len(self._content):
            more = self._file.read(max(len(self._content), end - len(self._content)))
            if not more:
                raise self._damaged("it ends within its header")
            self._content += more

    def _damaged(self, reason: str) -> ModelError:
        return ModelError(f"{self._name} is a damaged GGUF file: {reason}.", hint="Fetch it again.")
