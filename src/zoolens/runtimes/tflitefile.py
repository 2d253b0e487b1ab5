"""What a TFLite file says, read straight from its FlatBuffers bytes with every offset checked.

LiteRT tells shapes and quantisation but not what is a weight; OpenVINO reads TFLite but drops the scales a caller
needs to feed it. Both ask here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Final

from zoolens.errors import ModelError

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


@dataclass(frozen=True)
class TfliteTensor:
    name: str
    dtype: str
    shape: tuple[int, ...]
    constant: bool
    scale: float | None
    zero_point: int | None


@dataclass(frozen=True)
class TfliteGraph:
    tensors: tuple[TfliteTensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[tuple[int, tuple[int, ...]], ...]  # (builtin code, input tensors; -1: left out)

    def parameters(self) -> int:
        biases = {inputs[_LAYERS[op][1]] for op, inputs in self._layers() if _LAYERS[op][1] < len(inputs)}
        return sum(
            prod(tensor.shape)
            for index, tensor in enumerate(self.tensors)
            if tensor.constant and tensor.shape and (tensor.dtype in _WEIGHT_TYPES or index in biases)
        )

    def precision(self) -> str:
        """The type of the convolutions' and dense layers' weights; float16 ones are stored so but computed wider."""
        found = set()
        for op, inputs in self._layers():
            dtype = self.tensors[inputs[_LAYERS[op][0]]].dtype
            found.add("int8" if dtype in ("int8", "uint8", "int4") else "float32")
        return "+".join(sorted(found)) or "float32"

    def _layers(self) -> list[tuple[int, tuple[int, ...]]]:
        return [(op, inputs) for op, inputs in self.operators if op in _LAYERS and len(inputs) > _LAYERS[op][0]]


def read_graph(path: Path) -> TfliteGraph:
    """The main subgraph; ModelError where the bytes are no TFLite model."""
    data = path.read_bytes()
    try:
        if data[4:8] != b"TFL3":
            raise ValueError("it does not carry the TFL3 mark")  # noqa: TRY301
        return _model(_Table(data, struct.unpack_from("<I", data, 0)[0]))
    except (ValueError, IndexError, UnicodeDecodeError, struct.error) as error:
        raise ModelError(
            f"{path.name} is not a complete TFLite file: {error}.", hint="Fetch it again, or check its format."
        ) from error


class _Table:
    """One FlatBuffers table; struct refuses reads beyond the end."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        vtable = at - struct.unpack_from("<i", data, at)[0]
        if vtable < 0:
            raise ValueError("a table lies before the file")
        size = struct.unpack_from("<H", data, vtable)[0]
        self._slots = struct.unpack_from(f"<{max(size - 4, 0) // 2}H", data, vtable + 4)

    def scalar(self, slot: int, kind: str, default: int = 0) -> int:
        offset = self._slots[slot] if slot < len(self._slots) else 0
        return int(struct.unpack_from(f"<{kind}", self._data, self._at + offset)[0]) if offset else default

    def _target(self, slot: int) -> int | None:
        offset = self._slots[slot] if slot < len(self._slots) else 0
        if not offset:
            return None
        at = self._at + offset
        return at + int(struct.unpack_from("<I", self._data, at)[0])

    def table(self, slot: int) -> _Table | None:
        at = self._target(slot)
        return None if at is None else _Table(self._data, at)

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
        return struct.unpack_from(f"<{count}{kind}", self._data, at + 4)

    def integers(self, slot: int) -> tuple[int, ...]:
        return tuple(int(value) for value in self.numbers(slot, "i"))

    def tables(self, slot: int) -> list[_Table]:
        at = self._target(slot)
        if at is None:
            return []
        starts = self.numbers(slot, "I")
        return [_Table(self._data, at + 4 + 4 * i + int(offset)) for i, offset in enumerate(starts)]

    def text(self, slot: int) -> str:
        at = self._target(slot)
        if at is None:
            return ""
        size = struct.unpack_from("<I", self._data, at)[0]
        return self._data[at + 4 : at + 4 + size].decode()


def _model(model: _Table) -> TfliteGraph:
    codes = [max(code.scalar(0, "b"), code.scalar(3, "i")) for code in model.tables(1)]
    # A buffer holds its bytes inline, or says where behind the FlatBuffer they lie (files above 2 GB).
    filled = [buffer.length(0) > 0 or buffer.scalar(2, "Q") > 0 for buffer in model.tables(4)]
    graphs = model.tables(2)
    if not graphs:
        raise ValueError("it holds no graph")
    main = graphs[0]
    return TfliteGraph(
        tensors=tuple(_tensor(tensor, filled) for tensor in main.tables(0)),
        inputs=main.integers(1),
        outputs=main.integers(2),
        operators=tuple((codes[op.scalar(0, "I")], op.integers(1)) for op in main.tables(3)),
    )


def _tensor(tensor: _Table, filled: list[bool]) -> TfliteTensor:
    quantisation = tensor.table(4)
    scales = quantisation.numbers(2, "f") if quantisation else ()
    zeros = quantisation.numbers(3, "q") if quantisation else ()
    per_tensor = len(scales) == 1
    return TfliteTensor(
        name=tensor.text(3),
        dtype=DTYPES.get(tensor.scalar(1, "b"), "unknown"),
        shape=tensor.integers(0),
        constant=filled[tensor.scalar(2, "I")],
        scale=float(scales[0]) if per_tensor else None,
        zero_point=int(zeros[0]) if per_tensor and zeros else (0 if per_tensor else None),
    )
