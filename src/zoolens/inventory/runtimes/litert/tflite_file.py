"""What a TFLite file says, read straight from its FlatBuffers bytes with every offset checked.

LiteRT tells shapes and quantisation but not what is a weight; OpenVINO reads TFLite but drops the scales a caller
needs to feed it. Both ask here.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Final, TypeVar

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.model_files.model_reading import model_bytes

DTYPES: Final = {
    0: "float32",
    1: "float16",
    2: "int32",
    3: "uint8",
    4: "int64",
    5: "string",
    6: "bool",
    7: "int16",
    8: "complex64",
    9: "int8",
    10: "float64",
    17: "int4",
}
_WEIGHT_TYPES: Final = {"float32", "float16", "float64", "uint8", "int8", "int16", "int4"}
# Builtin operator code -> (position of the weights, position of the bias).
_LAYERS: Final = {3: (1, 2), 4: (1, 2), 9: (1, 2), 67: (1, 3)}
_MAX_OPERATORS: Final = 200_000
_MAX_TENSORS: Final = 400_000
_MAX_RANK: Final = 64
_MAX_METADATA: Final = 1000  # entries; exporters write two or three
_Read = TypeVar("_Read")


@dataclass(frozen=True)
class TfliteTensor:
    name: str
    dtype: str
    shape: tuple[int, ...]
    constant: bool
    scale: float | None
    zero_point: int | None
    scales: tuple[float, ...] = ()  # one, or one per entry of `axis`
    zero_points: tuple[int, ...] = ()
    axis: int = 0
    content: memoryview = field(default=memoryview(b""), repr=False, compare=False)  # a constant's bytes
    free: tuple[bool, ...] = ()  # which extents the file leaves open
    variable: bool = False  # the state of a recurrent layer: nothing makes it before the layer reads it


@dataclass(frozen=True)
class TfliteOperator:
    """`options` are the fields of its own table: see `Table.scalar`."""

    code: int
    inputs: tuple[int, ...]  # tensors; -1: left out
    outputs: tuple[int, ...]
    custom: str  # the name of an operator that is not built in
    options: Table | None = field(repr=False, compare=False)
    custom_options: memoryview = field(default=memoryview(b""), repr=False, compare=False)  # of a custom operator


@dataclass(frozen=True)
class TfliteGraph:
    tensors: tuple[TfliteTensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[TfliteOperator, ...]

    def parameters(self) -> int:
        biases = {inputs[_LAYERS[op][1]] for op, inputs in self._layers() if _LAYERS[op][1] < len(inputs)}
        return sum(
            prod(tensor.shape)
            for index, tensor in enumerate(self.tensors)
            if tensor.constant and tensor.shape and (tensor.dtype in _WEIGHT_TYPES or index in biases)
        )

    def precision(self) -> str:
        """The type of the convolutions' and dense layers' weights; float16 ones are stored so but computed wider."""
        types = set()
        for op, inputs in self._layers():
            dtype = self.tensors[inputs[_LAYERS[op][0]]].dtype
            types.add("int8" if dtype in ("int8", "uint8", "int4") else "float32")
        return "+".join(sorted(types)) or "float32"

    def _layers(self) -> list[tuple[int, tuple[int, ...]]]:
        layers = [op for op in self.operators if op.code in _LAYERS]
        return [(op.code, op.inputs) for op in layers if len(op.inputs) > _LAYERS[op.code][0]]


def tensor_labels(graph: TfliteGraph) -> tuple[str, ...]:
    """A name for each tensor, of which no two are equal. The label of an operator is that of its first output."""
    counts = Counter(tensor.name for tensor in graph.tensors)
    return tuple(
        tensor.name if tensor.name and counts[tensor.name] == 1 else f"{tensor.name}#{index}"
        for index, tensor in enumerate(graph.tensors)
    )


def read_graph(path: Path) -> TfliteGraph:
    """The main subgraph; ModelError where the bytes are no TFLite model."""
    return _read(path, _model)


def attached(path: Path, name: str) -> bytes | None:
    """What a TFLite file holds under this name beside its graph; None: nothing."""
    return _read(path, lambda model: _attached(model, name))


def root_table(data: bytes) -> Table:
    """The outermost table of a FlatBuffer; ValueError, IndexError or struct.error where an offset leads out of it."""
    return Table(_Bytes(data), struct.unpack_from("<I", data, 0)[0])


def _read(path: Path, read: Callable[[Table], _Read]) -> _Read:
    data = model_bytes(path)
    try:
        if data[4:8] != b"TFL3":
            raise ValueError("it does not carry the TFL3 mark")  # noqa: TRY301
        return read(root_table(data))
    except (ValueError, IndexError, struct.error) as error:
        raise ModelError(
            f"{path.name} is not a complete TFLite file: {why(error)}.", hint="Fetch it again, or check its format."
        ) from error


def _attached(model: Table, name: str) -> bytes | None:
    for entry in model.tables(6, _MAX_METADATA):
        if _name(entry, 0) == name:
            buffer = model.tables(4)[entry.scalar(1, "I")]
            return bytes(_content(buffer))
    return None


def why(error: Exception) -> str:
    """What is wrong with a FlatBuffer, as the rest of a sentence."""
    if isinstance(error, struct.error):  # a read beyond the end
        return "it ends before all of its parts do"
    return "a name in it is not text" if isinstance(error, UnicodeDecodeError) else str(error)


class _Bytes:
    """The file, and how much may still be read from it: lists that overlap could name more than memory holds."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.left = 16 * len(data) + (1 << 20)

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise ValueError("its parts overlap")


class Table:
    """One FlatBuffers table; struct refuses reads beyond the end."""

    def __init__(self, file: _Bytes, at: int) -> None:
        self._file, self._data, self._at = file, file.data, at
        vtable = at - struct.unpack_from("<i", self._data, at)[0]
        if vtable < 0:
            raise ValueError("a table lies before the file")
        size = struct.unpack_from("<H", self._data, vtable)[0]
        file.spend(size)
        self._slots = struct.unpack_from(f"<{max(size - 4, 0) // 2}H", self._data, vtable + 4)

    def scalar(self, slot: int, kind: str, default: int = 0) -> int:
        return int(self.number(slot, kind, default))

    def number(self, slot: int, kind: str, default: float = 0) -> float:
        offset = self._slots[slot] if slot < len(self._slots) else 0
        if not offset:
            return default
        value: float = struct.unpack_from(f"<{kind}", self._data, self._at + offset)[0]
        return value

    def _target(self, slot: int) -> int | None:
        offset = self._slots[slot] if slot < len(self._slots) else 0
        if not offset:
            return None
        at = self._at + offset
        return at + int(struct.unpack_from("<I", self._data, at)[0])

    def table(self, slot: int) -> Table | None:
        at = self._target(slot)
        return None if at is None else Table(self._file, at)

    def length(self, slot: int) -> int:
        at = self._target(slot)
        return 0 if at is None else int(struct.unpack_from("<I", self._data, at)[0])

    def numbers(self, slot: int, kind: str) -> tuple[float, ...]:
        at = self._target(slot)
        if at is None:
            return ()
        count = struct.unpack_from("<I", self._data, at)[0]
        if count > len(self._data):
            raise ValueError("a list is longer than the file")
        self._file.spend(count * struct.calcsize(kind))
        return struct.unpack_from(f"<{count}{kind}", self._data, at + 4)

    def integers(self, slot: int) -> tuple[int, ...]:
        return tuple(int(value) for value in self.numbers(slot, "i"))

    def tables(self, slot: int, most: int = _MAX_TENSORS) -> list[Table]:
        at = self._target(slot)
        if at is None:
            return []
        if self.length(slot) > most:
            raise ValueError(f"one of its lists has more than {most:,} entries")
        starts = self.numbers(slot, "I")
        return [Table(self._file, at + 4 + 4 * i + int(offset)) for i, offset in enumerate(starts)]

    def text(self, slot: int) -> str:
        return str(self.octets(slot), "utf-8")

    def octets(self, slot: int) -> memoryview:
        """A vector of bytes, not copied."""
        at = self._target(slot)
        if at is None:
            return memoryview(b"")
        size = struct.unpack_from("<I", self._data, at)[0]
        if at + 4 + size > len(self._data):
            raise ValueError("a list is longer than the file")
        return memoryview(self._data)[at + 4 : at + 4 + size]

    def outside(self, start: int, size: int) -> memoryview:
        """Bytes behind the FlatBuffer, by their place in the file."""
        if start + size > len(self._data):
            raise ValueError("a buffer lies behind the file")
        return memoryview(self._data)[start : start + size]


def _model(model: Table) -> TfliteGraph:
    codes = [(max(code.scalar(0, "b"), code.scalar(3, "i")), _name(code, 1)) for code in model.tables(1)]
    buffers = [_content(buffer) for buffer in model.tables(4)]
    graphs = model.tables(2)
    if not graphs:
        raise ValueError("it holds no graph")
    main = graphs[0]
    return TfliteGraph(
        tensors=tuple(_tensor(tensor, buffers) for tensor in main.tables(0)),
        inputs=main.integers(1),
        outputs=main.integers(2),
        operators=tuple(_operator(op, codes) for op in main.tables(3, _MAX_OPERATORS)),
    )


def _name(table: Table, slot: int) -> str:
    table._file.spend(table.length(slot))
    return table.text(slot)


def _content(buffer: Table) -> memoryview:
    """A buffer holds its bytes inline, or says where behind the FlatBuffer they lie (large files)."""
    start = buffer.scalar(1, "Q")
    return buffer.outside(start, buffer.scalar(2, "Q")) if start > 1 else buffer.octets(0)


def _operator(op: Table, codes: list[tuple[int, str]]) -> TfliteOperator:
    code, custom = codes[op.scalar(0, "I")]
    return TfliteOperator(code, op.integers(1), op.integers(2), custom, op.table(4), op.octets(5))


def _tensor(tensor: Table, buffers: list[memoryview]) -> TfliteTensor:
    quantisation = tensor.table(4)
    scales = quantisation.numbers(2, "f") if quantisation else ()
    zeros = quantisation.numbers(3, "q") if quantisation else ()
    per_tensor = len(scales) == 1
    shape, signature = tensor.integers(0), tensor.integers(7)
    if len(shape) > _MAX_RANK or any(extent < 0 for extent in shape):
        raise ValueError(f"a tensor has the impossible shape {shape[:8]}")
    content = buffers[tensor.scalar(2, "I")]
    return TfliteTensor(
        name=_name(tensor, 3),
        dtype=DTYPES.get(tensor.scalar(1, "b"), "unknown"),
        shape=shape,
        constant=len(content) > 0,
        scale=float(scales[0]) if per_tensor else None,
        zero_point=int(zeros[0]) if per_tensor and zeros else (0 if per_tensor else None),
        scales=scales,
        zero_points=tuple(int(zero) for zero in zeros),
        axis=quantisation.scalar(6, "i") if quantisation else 0,
        content=content,
        free=tuple(extent < 0 for extent in signature),
        variable=bool(tensor.scalar(5, "b")),
    )
