"""One TFLite operator while it is translated, and the constants of a TFLite file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers import translation
from zoolens.findings.graph.importers.constants import Constant
from zoolens.findings.graph.importers.quantised_relu import cut
from zoolens.findings.graph.importers.tflite.operator_names import operator_name
from zoolens.findings.graph.ir.model import Array, Shape, check_shape
from zoolens.inventory.runtimes.litert.tflite_file import TfliteOperator, TfliteTensor

# Operators without a place in the vocabulary that are known to multiply no matrices: they sort, select, look up.
_COSTLESS: Final = frozenset(
    {"custom:TFLite_Detection_PostProcess", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "TOPK_V2", "WHERE",
     "UNIQUE", "ONE_HOT", "RANGE", "CUMSUM", "SCATTER_ND", "GATHER_ND", "SPARSE_TO_DENSE", "REVERSE_SEQUENCE",
     "REVERSE_V2", "RANK", "ZEROS_LIKE", "SEGMENT_SUM", "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT",
     "HASHTABLE_SIZE", "HASHTABLE_LOOKUP", "MATRIX_DIAG", "MATRIX_SET_DIAG", "BUCKETIZE"}
)  # fmt: skip
_FUSED: Final = {1: "relu", 3: "relu6", 4: "tanh"}


@dataclass
class TfliteTranslation(translation.Translation):
    tensors: tuple[TfliteTensor, ...] = ()
    labels: tuple[str, ...] = ()  # the tensors' names, made unique
    original: bool = True  # the input has the file's own size, so that the file's shapes hold


class TfliteCall(translation.OperatorCall):
    state: TfliteTranslation

    def __init__(self, operator: TfliteOperator, state: TfliteTranslation) -> None:
        self.operator, self.state = operator, state
        self.kind = operator_name(operator)
        self.inputs = tuple("" if index < 0 else str(index) for index in operator.inputs)
        self.outputs = tuple(str(index) for index in operator.outputs)
        self.source = state.labels[operator.outputs[0]]

    def label(self, output: int) -> str | None:
        return self.state.labels[self.operator.outputs[output]]

    def declared(self, output: int) -> Shape | None:
        tensor = self.state.tensors[self.operator.outputs[output]]
        if not self.state.original or any(tensor.free[1:]):
            return None
        if self.state.batch and tensor.shape:
            return (1, *tensor.shape[1:])
        return tensor.shape

    def known_macs(self) -> int | None:
        return 0 if self.kind in _COSTLESS else None

    # --- options, by slot of the operator's own table

    def option(self, slot: int, default: int = 0, kind: str = "i") -> int:
        options = self.operator.options
        return default if options is None else options.scalar(slot, kind, default)

    def flag(self, slot: int) -> bool:
        return bool(self.option(slot, kind="b"))

    def real(self, slot: int, default: float = 0.0) -> float:
        options = self.operator.options
        return default if options is None else float(options.number(slot, "f", default))

    def listed(self, slot: int) -> list[int]:
        if self.operator.options is None:
            return []
        return list(self.operator.options.integers(slot))

    # --- fused activations

    def finish(self, value: str, slot: int) -> None:
        """Answer with a value behind the activation that the option in this slot fuses to it."""
        fused = self.option(slot, kind="b")
        if fused == 0:
            value = self._cut(value)
        elif fused == 2:
            value = self.add("clip", (value,), low=-1.0, high=1.0)
        elif fused in _FUSED:
            value = self.add(_FUSED[fused], (value,))
        else:
            value = self.add("unknown", (value,), shape=self.state.shape(value), source_op=f"fused {fused}")
        self.answer(value)

    def _cut(self, value: str) -> str:
        tensor = self.state.tensors[self.operator.outputs[0]]
        if tensor.scale is None or tensor.zero_point is None:
            return value
        return cut(self, value, tensor.dtype, tensor.scale, tensor.zero_point)

    def finish_answer(self, slot: int) -> None:
        made = self.state.values[self.outputs[0]]
        if isinstance(made, str):
            self.finish(made, slot)


def constant(state: TfliteTranslation, index: int) -> Constant:
    """A tensor whose values are in the file, as real numbers where it is quantised."""
    tensor = state.tensors[index]
    check_shape(tensor.shape, state.labels[index], state.builder.name)
    dtype = "float32" if tensor.scales and "float" not in tensor.dtype else tensor.dtype
    return Constant(tensor.shape, dtype, state.labels[index], lambda: _values(tensor))


def _values(tensor: TfliteTensor) -> Array:
    try:
        stored = np.frombuffer(tensor.content, np.dtype(tensor.dtype).newbyteorder("<")).reshape(tensor.shape)
        if not tensor.scales or stored.dtype.kind == "f":
            return stored
        return _dequantised(tensor, stored)
    except (ValueError, TypeError) as error:
        raise ModelError(f"The values of the tensor {tensor.name[:60]!r} do not fill its shape.") from error


def _dequantised(tensor: TfliteTensor, stored: Array) -> Array:
    zeros = np.asarray(tensor.zero_points or (0,), np.float32)
    return (stored.astype(np.float32) - _along(tensor, zeros)) * _along(tensor, np.asarray(tensor.scales, np.float32))


def _along(tensor: TfliteTensor, values: Array) -> Array:
    """One number for all, or one per entry of the tensor's quantised axis."""
    if values.size == 1:
        return values.reshape(())
    return values.reshape([-1 if axis == tensor.axis else 1 for axis in range(len(tensor.shape))])


def spatial(shape: Sequence[int]) -> Shape:
    return tuple(shape[1:-1])
