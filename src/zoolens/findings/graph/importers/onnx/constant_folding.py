"""Constants computed from constants: the shape arithmetic of exporters, and weights behind a cast or a transpose.

Small ones are computed with numpy at once. Large ones are never computed here: where only their arrangement changes
the new constant knows how to load itself, otherwise the operator stays a node of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.constants import MOST, Constant, computed, repeated
from zoolens.findings.graph.importers.onnx.translation import OnnxCall
from zoolens.findings.graph.ir.model import Array, Shape
from zoolens.findings.graph.ir.shapes import broadcast
from zoolens.inventory.runtimes.onnx.onnx_file import OnnxTensor
from zoolens.inventory.runtimes.onnx.onnx_value_types import DTYPES
from zoolens.inventory.runtimes.onnx.onnx_values import array

_MAX_IN_ALL: Final = 1 << 25  # numbers computed for one file
_RESAMPLING: Final = frozenset({"Gather", "Slice", "Expand", "Tile"})


class _NotHere(Exception):
    """More numbers or another kind than are computed here: the operator stays a node."""


def folded(call: OnnxCall) -> bool:
    """Answer a call whose inputs are all constant, if it can be; False: it must become a node."""
    op = call.node.op
    if call.node.domain not in ("", "ai.onnx"):
        return False
    if op in _SOURCES:
        return _SOURCES[op](call)
    values = [call.given(i) for i in range(len(call.node.inputs))]
    constants = [value for value in values if isinstance(value, Constant)]
    if not constants or any(isinstance(value, str) for value in values):
        return False
    if op in _VIEWS:
        call.answer(_VIEWS[op](call, constants[0]))
        return True
    if op in _LAZY and not all(constant.is_small for constant in constants):
        call.answer(_lazily(call, constants))
        return True
    if op not in _FOLDS or not all(constant.is_small for constant in constants):
        return False
    if op == "Expand" and broadcast([constants[0].shape, tuple(constants[-1].integers())]) == constants[0].shape:
        call.answer(constants[0])
        return True
    if op in _RESAMPLING and constants[0].is_learned:
        return False  # a learned table stays one, however often its entries are used
    if op == "MatMul" and all(constant.learned for constant in constants):
        return False
    return _at_once(call, constants)


def _at_once(call: OnnxCall, constants: Sequence[Constant]) -> bool:
    if call.node.op in _GROWING and prod(broadcast([item.shape for item in constants])) > MOST:
        return False
    try:
        with np.errstate(all="ignore"):
            results = _FOLDS[call.node.op](call, [item.values() for item in constants])
    except _NotHere:
        return False
    except (ValueError, IndexError, TypeError, KeyError, OverflowError) as error:
        raise ModelError(f"The constant {call.source[:60]!r} ({call.node.op}) cannot be computed.") from error
    parts = results if isinstance(results, list) else [results]
    call.state.computed += sum(np.size(item) for item in parts)
    if call.state.computed > _MAX_IN_ALL:
        return False
    call.answer(*(computed(np.asarray(item), name) for item, name in zip(parts, call.node.outputs, strict=False)))
    return True


# --- operators that make constants whatever their input


def _constant(call: OnnxCall) -> bool:
    for name, value in call.attributes.items():
        if isinstance(value, OnnxTensor):
            call.answer(call.state.constant(value, call.node.outputs[0]))
            return True
        if name.startswith("value_") and value is not None:
            call.fold(np.asarray(value, np.float32 if "float" in name else None))
            return True
    return False


def _shape(call: OnnxCall) -> bool:
    shape = call.shape(0)
    call.fold(np.asarray(shape[slice(call.get("start", 0), call.get("end"))], np.int64))
    return True


def _size(call: OnnxCall) -> bool:
    call.fold(np.asarray(prod(call.shape(0)), np.int64))
    return True


def _constant_of_shape(call: OnnxCall) -> bool:
    shape = call.constant(0)
    if shape is None:
        return False
    given = call.get("value")
    if isinstance(given, OnnxTensor) and given.shape not in ((), (1,)):
        raise ModelError(f"{call.source[:60]!r} repeats a value that is not one number.")
    value = array(given, call.state.folder) if isinstance(given, OnnxTensor) else np.zeros(1, np.float32)
    call.answer(repeated(value.reshape(()), shape.integers(), call.node.outputs[0]))
    return True


_SOURCES: Final[dict[str, Callable[[OnnxCall], bool]]] = {
    "Constant": _constant,
    "Shape": _shape,
    "Size": _size,
    "ConstantOfShape": _constant_of_shape,
}


# --- the same numbers, otherwise arranged


def _squeezed_shape(call: OnnxCall, shape: Shape) -> Shape:
    given = call.integers("axes") or call.whole(1)
    axes = {call.axis(axis, len(shape)) for axis in given} if given else {i for i, e in enumerate(shape) if e == 1}
    if any(shape[axis] != 1 for axis in axes):
        raise ModelError(f"{call.source[:60]!r} removes an axis that is longer than 1.")
    return tuple(extent for axis, extent in enumerate(shape) if axis not in axes)


def _unsqueezed_shape(call: OnnxCall, shape: Shape) -> Shape:
    given = call.integers("axes") or call.whole(1) or []
    rank = len(shape) + len(given)
    axes = {call.axis(axis, rank) for axis in given}
    if len(axes) != len(given):
        raise ModelError(f"{call.source[:60]!r} adds the same axis twice.")
    rest = iter(shape)
    return tuple(1 if axis in axes else next(rest) for axis in range(rank))


def _flattened_shape(call: OnnxCall, shape: Shape) -> Shape:
    axis = call.get("axis", 1)
    axis = call.axis(axis, len(shape)) if axis != len(shape) else axis
    return prod(shape[:axis]), prod(shape[axis:])


def _reshaped_shape(call: OnnxCall, shape: Shape) -> Shape:
    target = call.integers("shape") or call.whole(1) or []
    return call.state.reshaped(shape, target, zero_copies=not call.get("allowzero", 0))


SHAPE_CHANGES: Final[dict[str, Callable[[OnnxCall, Shape], Shape]]] = {
    "Squeeze": _squeezed_shape,
    "Unsqueeze": _unsqueezed_shape,
    "Flatten": _flattened_shape,
    "Reshape": _reshaped_shape,
}


def permutation(call: OnnxCall, rank: int) -> list[int]:
    perm = call.integers("perm") or list(range(rank))[::-1]
    if sorted(perm) != list(range(rank)):
        raise ModelError(f"{call.source[:60]!r} permutes {rank} axes in an impossible way.")
    return perm


def _cast(call: OnnxCall, value: Constant) -> Constant:
    dtype = DTYPES.get(call.get("to", 1), "unknown")
    if dtype in ("unknown", "string") or (value.is_float and "float" in dtype):
        return value  # from one real type to another: the same parameter
    kind = "float32" if dtype == "bfloat16" else dtype
    name = call.node.outputs[0]
    return Constant(value.shape, kind, name, lambda: value.load().astype(kind), learned=value.learned)


def _rearranged(change: Callable[[OnnxCall, Shape], Shape]) -> Callable[[OnnxCall, Constant], Constant]:
    return lambda call, value: value.reshaped(change(call, value.shape))


_VIEWS: Final[dict[str, Callable[[OnnxCall, Constant], Constant]]] = {
    **{op: _rearranged(change) for op, change in SHAPE_CHANGES.items()},
    "Identity": lambda call, value: value,
    "Dropout": lambda call, value: value,
    "Transpose": lambda call, value: value.transposed(permutation(call, len(value.shape))),
    "Cast": _cast,
}


# --- large ones that load themselves


def _lazily(call: OnnxCall, constants: Sequence[Constant]) -> Constant:
    shape = broadcast([constant.shape for constant in constants])
    compute = _LAZY[call.node.op]
    return Constant(shape, "float32", call.outputs[0], lambda: compute(*(constant.load() for constant in constants)))


_ELEMENTWISE: Final[dict[str, Callable[..., Array]]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Pow": np.power, "Sqrt": np.sqrt, "Exp": np.exp,
    "Log": np.log, "Neg": np.negative, "Abs": np.abs, "Floor": np.floor, "Ceil": np.ceil, "Equal": np.equal,
    "Less": np.less, "Greater": np.greater, "LessOrEqual": np.less_equal, "GreaterOrEqual": np.greater_equal,
    "Not": np.logical_not, "And": np.logical_and, "Or": np.logical_or, "Where": np.where, "Mod": np.mod,
    "Sin": np.sin, "Cos": np.cos, "Sign": np.sign, "Xor": np.logical_xor,
}  # fmt: skip


def divided(left: Array, right: Array) -> Array:
    """Whole numbers are cut towards zero, as ONNX does."""
    if left.dtype.kind in "iu" and right.dtype.kind in "iu":
        return np.asarray(np.trunc(left / right).astype(left.dtype))
    return np.asarray(left / right)


_LAZY: Final[dict[str, Callable[..., Array]]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": divided, "Sqrt": np.sqrt,
}  # fmt: skip


# --- small ones

Fold = Callable[[OnnxCall, list[Array]], Array | list[Array]]


def _gather(call: OnnxCall, values: list[Array]) -> Array:
    data, indices = values
    if data.size * indices.size > MOST * max(data.shape[call.get("axis", 0)], 1):
        raise _NotHere
    return np.asarray(np.take(data, indices.astype(np.int64), axis=call.get("axis", 0)))


def _gather_elements(call: OnnxCall, values: list[Array]) -> Array:
    data, indices = values
    return np.asarray(np.take_along_axis(data, indices.astype(np.int64), axis=call.get("axis", 0)))


def slices(call: OnnxCall, shape: Shape) -> list[tuple[int, int, int, int]]:
    """The cuts of a Slice as (axis, start, stop, step), with starts and stops inside the shape."""
    starts = call.integers("starts") or call.whole(1) or []
    ends = call.integers("ends") or call.whole(2) or []
    axes = call.integers("axes") or call.whole(3) or list(range(len(starts)))
    steps = call.whole(4) or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise ModelError(f"{call.source[:60]!r} cuts {len(axes)} axes at {len(starts)} places.")
    cuts = []
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        place = call.axis(axis, len(shape))
        cuts.append((place, *slice(start, end, step).indices(shape[place])))
    return cuts


def _slice(call: OnnxCall, values: list[Array]) -> Array:
    part = values[0]
    for axis, start, stop, step in slices(call, part.shape):
        index: list[Any] = [slice(None)] * part.ndim
        index[axis] = slice(start, stop if stop >= 0 else None, step)
        part = part[tuple(index)]
    return part


def _range(call: OnnxCall, values: list[Array]) -> Array:
    start, stop, step = (value.item() for value in values)
    if abs((stop - start) / (step or 1)) > MOST:
        raise _NotHere
    return np.arange(start, stop, step, dtype=values[0].dtype)


def _triangle(call: OnnxCall, values: list[Array]) -> Array:
    diagonal = int(values[1].ravel()[0]) if len(values) > 1 else 0
    if call.get("upper", 1):
        return np.triu(values[0], diagonal)
    return np.tril(values[0], diagonal)


def _expand(call: OnnxCall, values: list[Array]) -> Array:
    shape = broadcast([values[0].shape, tuple(int(extent) for extent in values[1].ravel())])
    return _bounded(np.broadcast_to(values[0], shape))


def _tile(call: OnnxCall, values: list[Array]) -> Array:
    repeats = [int(count) for count in values[1].ravel()]
    if values[0].size * prod(repeats) > MOST or min(repeats, default=0) < 0:
        raise _NotHere
    return np.tile(values[0], repeats)


def _bounded(values: Array) -> Array:
    if values.size > MOST:
        raise _NotHere
    return values


def _reduce(function: Callable[..., Array]) -> Fold:
    def fold(call: OnnxCall, values: list[Array]) -> Array:
        axes = call.integers("axes") or ([int(number) for number in values[1].ravel()] if len(values) > 1 else None)
        return np.asarray(
            function(values[0], axis=tuple(axes) if axes else None, keepdims=bool(call.get("keepdims", 1)))
        )

    return fold


def _split(call: OnnxCall, values: list[Array]) -> list[Array]:
    axis = call.get("axis", 0)
    count = len(call.node.outputs)
    sizes = call.integers("split") or ([int(size) for size in values[1].ravel()] if len(values) > 1 else None)
    return list(np.split(values[0], np.cumsum(sizes)[:-1] if sizes else count, axis=axis))


def _scatter(call: OnnxCall, values: list[Array]) -> Array:
    data = values[0].copy()
    indices = values[1].astype(np.int64)
    updates = values[2]
    if call.get("reduction", "none") != "none":
        raise _NotHere
    data[tuple(np.moveaxis(indices, -1, 0))] = updates
    return data


def _cumulated(call: OnnxCall, values: list[Array]) -> Array:
    if call.get("exclusive", 0) or call.get("reverse", 0):
        raise _NotHere
    return np.asarray(np.cumsum(values[0], axis=int(values[1].reshape(())), dtype=values[0].dtype))


def _clip(call: OnnxCall, values: list[Array]) -> Array:
    low, high = (
        call.get(name) if (limit := call.constant(place)) is None else limit.values()
        for place, name in ((1, "min"), (2, "max"))
    )
    if low is None and high is None:
        return values[0]
    return np.asarray(np.clip(values[0], low, high))


def _outer_product(call: OnnxCall, values: list[Array]) -> Array:
    """Positions × rates, as exporters of transformers write it. A sum over several numbers may be a layer."""
    left, right = values
    if left.ndim < 2 or right.ndim < 2 or left.shape[-1] != 1 or left.shape[-2] * right.shape[-1] > MOST:
        raise _NotHere
    return np.asarray(left @ right)


def _each(function: Callable[..., Array]) -> Fold:
    return lambda call, values: function(*values)


_FOLDS: Final[dict[str, Fold]] = {
    **{op: _each(function) for op, function in _ELEMENTWISE.items()},
    "Div": lambda call, values: divided(*values),
    "Reciprocal": lambda call, values: 1 / values[0],
    "Min": lambda call, values: np.minimum.reduce(np.broadcast_arrays(*values)),
    "Max": lambda call, values: np.maximum.reduce(np.broadcast_arrays(*values)),
    "Concat": lambda call, values: np.concatenate(values, axis=call.get("axis", 0)),
    "Clip": _clip,
    "CumSum": _cumulated,
    "Trilu": _triangle,
    "Relu": lambda call, values: np.maximum(values[0], 0),
    "Round": lambda call, values: np.rint(values[0]),
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "Slice": _slice,
    "Range": _range,
    "MatMul": _outer_product,
    "Expand": _expand,
    "Tile": _tile,
    "Split": _split,
    "ScatterND": _scatter,
    "NonZero": lambda call, values: np.stack(np.nonzero(values[0])),
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "ReduceMax": _reduce(np.max),
    "ReduceMin": _reduce(np.min),
    "ReduceMean": _reduce(np.mean),
}
_GROWING: Final = frozenset(_ELEMENTWISE) | {"Div", "Min", "Max"}
