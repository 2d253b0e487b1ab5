"""The shape of every op's output, from its inputs, attributes and parameters.

Importers whose source records no shapes, and `image_size`, ask here. A rule raises ModelError where the parts do not
fit together. Ops whose shape is not a matter of arithmetic (leaves, reshape, expand, resize, unknown) have no rule:
whoever makes them knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.model import Parameter, Shape, Value
from zoolens.findings.graph.ir.sliding_windows import grown, slid, spread
from zoolens.findings.graph.ir.vocabulary import ACTIVATIONS, ARITHMETIC, FUNCTIONS, NOISE, REDUCTIONS


@dataclass(frozen=True)
class Case:
    """What a rule sees. `axes` tells where channels and spatial axes are; without it channels come second."""

    op: str
    inputs: tuple[Shape, ...]
    attributes: Mapping[str, Value]
    parameters: Mapping[str, Shape]
    axes: str

    @property
    def given(self) -> Shape:
        return self.inputs[0]

    def get(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    @property
    def channel_axis(self) -> int:
        place = self.axes.find("C")
        return place if place >= 0 else 1

    @property
    def spatial(self) -> Shape:
        given = self.given
        return tuple([given[axis] for axis in self._spatial_axes()])

    def arranged(self, channels: int, spatial: Shape) -> Shape:
        """The input's batch with these channels and spatial extents, in the axis order of the input."""
        extents = list(self.given)
        extents[self.channel_axis] = channels
        for axis, extent in zip(self._spatial_axes(), spatial, strict=True):
            extents[axis] = extent
        return tuple(extents)

    @property
    def channels(self) -> int:
        return self.given[self.channel_axis]

    def window(self, name: str, default: int = 1) -> Shape:
        return spread(self.get(name), len(self._spatial_axes()), default)

    def pads(self) -> Shape:
        return tuple(self.get("pads") or (0,) * (2 * len(self._spatial_axes())))

    def _spatial_axes(self) -> tuple[int, ...]:
        return _all_but(self.channel_axis, len(self.given))


@cache
def _all_but(channel: int, rank: int) -> tuple[int, ...]:
    """The axes but for the batch and the channels."""
    return tuple(axis for axis in range(1, rank) if axis != channel)


def output_shape(
    op: str,
    inputs: Sequence[Shape],
    attributes: Mapping[str, Value],
    parameters: Sequence[Parameter] = (),
    axes: str = "",
) -> Shape:
    """The shape of the output; ModelError where the inputs do not fit, or where the op has no rule."""
    rule = RULES.get(op)
    if rule is None:
        raise ModelError(f"The shape of {op!r} does not follow from its inputs.")
    case = Case(op, tuple(inputs), attributes, {tensor.role: tensor.shape for tensor in parameters}, axes)
    try:
        shape = rule(case)
    except (IndexError, KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise ModelError(f"{op!r} does not fit inputs of the shapes {_words(inputs)}.") from error
    if shape and min(shape) < 0:
        raise ModelError(f"{op!r} would have an output of the shape {_words([shape])}.")
    return shape


def aligned(shape: Sequence[int], rank: int) -> Shape:
    """The shape with as many axes of extent 1 before it as it lacks."""
    return (1,) * (rank - len(shape)) + tuple(shape)


def broadcast(shapes: Sequence[Shape]) -> Shape:
    rank = max(len(shape) for shape in shapes)
    combined = []
    for extents in zip(*(aligned(shape, rank) for shape in shapes), strict=True):
        different = {extent for extent in extents if extent != 1}
        if len(different) > 1:
            raise ModelError(f"Shapes {_words(shapes)} cannot be combined element by element.")
        combined.append(different.pop() if different else 1)
    return tuple(combined)


def filled(target: Sequence[int], given: Shape, *, zero_copies: bool = True) -> Shape:
    """The target of a reshape with its 0 (as in the input) and -1 (the rest) resolved."""
    if zero_copies and any(extent == 0 and i >= len(given) for i, extent in enumerate(target)):
        raise ModelError(f"A value of the shape {_words([given])} cannot be reshaped to {_words([target])}.")
    shape = [given[i] if extent == 0 and zero_copies else int(extent) for i, extent in enumerate(target)]
    known = prod(extent for extent in shape if extent != -1)
    if shape.count(-1) == 1 and known:
        shape[shape.index(-1)] = prod(given) // known
    if prod(shape) != prod(given) or any(extent < 0 for extent in shape):
        raise ModelError(f"A value of the shape {_words([given])} cannot be reshaped to {_words([target])}.")
    return tuple(shape)


def _words(shapes: Sequence[Sequence[int]]) -> str:
    written = ["×".join(map(str, shape[:8])) or "()" for shape in shapes[:4]]
    return " and ".join(written)


def _same(case: Case) -> Shape:
    return case.given


def _normed(case: Case) -> Shape:
    scale = next((shape for role, shape in case.parameters.items() if role in ("scale", "shift", "mean")), None)
    if scale is not None and len(scale) == 1 and scale[0] not in (1, case.channels):
        raise ModelError(f"{case.op!r} with {scale[0]:,} channels follows a value with {case.channels:,}.")
    return case.given


def _conv(case: Case) -> Shape:
    kernel = case.parameters["kernel"]
    groups = case.get("groups", 1)
    if kernel[1] * groups != case.channels or kernel[0] % groups:
        raise ModelError(f"A convolution over {kernel[1] * groups:,} channels follows a value with {case.channels:,}.")
    window = slid(case.spatial, kernel[2:], case.window("stride"), case.window("dilation"), case.pads())
    return case.arranged(kernel[0], window)


def _conv_transpose(case: Case) -> Shape:
    kernel = case.parameters["kernel"]
    if kernel[0] != case.channels:
        raise ModelError(f"A convolution over {kernel[0]:,} channels follows a value with {case.channels:,}.")
    extents = grown(
        case.spatial,
        kernel[2:],
        case.window("stride"),
        case.window("dilation"),
        case.pads(),
        case.window("output_pads", 0),
    )
    return case.arranged(kernel[1] * case.get("groups", 1), extents)


def _dense(case: Case) -> Shape:
    out, width = case.parameters["kernel"]
    if case.given[-1] != width:
        raise ModelError(f"A dense layer over {width:,} numbers follows a value with {case.given[-1]:,}.")
    return (*case.given[:-1], out)


def _embedding(case: Case) -> Shape:
    return (*case.given, *case.parameters["table"][1:])


def _pool(case: Case) -> Shape:
    kernel = case.window("kernel")
    window = slid(case.spatial, kernel, case.window("stride"), case.window("dilation"), case.pads())
    return case.arranged(case.channels, window)


def _adaptive(case: Case) -> Shape:
    return case.arranged(case.channels, tuple(case.get("size")))


def _global(case: Case) -> Shape:
    return (case.given[0], case.channels)


def _reduced(case: Case) -> Shape:
    axes = set(case.get("axes"))
    if axes and not axes <= set(range(len(case.given))):
        raise IndexError
    if case.get("keep", False):
        return tuple(1 if axis in axes else extent for axis, extent in enumerate(case.given))
    return tuple(extent for axis, extent in enumerate(case.given) if axis not in axes)


def _combined(case: Case) -> Shape:
    return broadcast(case.inputs)


def _matmul(case: Case) -> Shape:
    left, right = case.inputs
    if len(left) < 2 or len(right) < 2:
        raise IndexError
    a = (*left[:-2], left[-1], left[-2]) if case.get("transpose_a") else left
    b = (*right[:-2], right[-1], right[-2]) if case.get("transpose_b") else right
    if a[-1] != b[-2]:
        raise ModelError(f"Matrices of the shapes {_words([a, b])} cannot be multiplied.")
    batch = broadcast([a[:-2] or (1,), b[:-2] or (1,)])
    # Where neither side has a batch, the (1,) that stands for it is no axis of the product.
    batch = batch[: max(len(a), len(b)) - 2]
    return (*batch, a[-2], b[-1])


def _attention(case: Case) -> Shape:
    return (*case.given[:-1], case.inputs[2][-1])


def _concat(case: Case) -> Shape:
    axis = case.get("axis")
    extents = list(case.given)
    for shape in case.inputs[1:]:
        rest = [(a, b) for i, (a, b) in enumerate(zip(extents, shape, strict=False)) if i != axis]
        if len(shape) != len(extents) or any(a != b for a, b in rest):
            raise ModelError(f"Values of the shapes {_words(case.inputs)} cannot be put together.")
        extents[axis] += shape[axis]
    return tuple(extents)


def _slice(case: Case) -> Shape:
    axis = case.get("axis")
    start = case.get("start")
    stop = case.get("stop")
    step = case.get("step", 1)
    extents = list(case.given)
    extents[axis] = len(range(start, min(stop, extents[axis]), step)) if step > 0 else 0
    return tuple(extents)


def _pad(case: Case) -> Shape:
    pads = case.get("pads")
    rank = len(case.given)
    if len(pads) != 2 * rank:
        raise IndexError
    return tuple(extent + pads[i] + pads[rank + i] for i, extent in enumerate(case.given))


def _transpose(case: Case) -> Shape:
    perm = case.get("perm")
    if sorted(perm) != list(range(len(case.given))):
        raise IndexError
    return tuple(case.given[axis] for axis in perm)


def _flatten(case: Case) -> Shape:
    return (case.given[0], prod(case.given[1:]))


def _gather(case: Case) -> Shape:
    axis = case.get("axis")
    chosen = case.inputs[1] if len(case.inputs) > 1 else _nested_shape(case.get("indices"))
    return (*case.given[:axis], *chosen, *case.given[axis + 1 :])


def _nested_shape(value: Any) -> Shape:
    if not isinstance(value, tuple):
        return ()
    return (len(value), *(_nested_shape(value[0]) if value else ()))


def _space_to_depth(case: Case) -> Shape:
    block = case.get("block")
    return case.arranged(case.channels * block * block, tuple(extent // block for extent in case.spatial))


def _depth_to_space(case: Case) -> Shape:
    block = case.get("block")
    return case.arranged(case.channels // (block * block), tuple(extent * block for extent in case.spatial))


def _tile(case: Case) -> Shape:
    return tuple(extent * times for extent, times in zip(case.given, case.get("repeats"), strict=True))


_POINTWISE: Final = (
    *ACTIVATIONS, *FUNCTIONS, *NOISE, "softmax", "log_softmax", "l2_normalize", "lrn", "layer_norm", "rms_norm",
    "affine", "channel_shuffle", "roll",
)  # fmt: skip
_NORMS: Final = ("batch_norm", "group_norm", "instance_norm")
_BINARY: Final = (*ARITHMETIC, "compare", "where")

RULES: Final[dict[str, Callable[[Case], Shape]]] = {
    **dict.fromkeys(_POINTWISE, _same),
    **dict.fromkeys(_NORMS, _normed),
    **dict.fromkeys(_BINARY, _combined),
    **dict.fromkeys(REDUCTIONS, _reduced),
    **dict.fromkeys(("max_pool", "avg_pool"), _pool),
    **dict.fromkeys(("adaptive_avg_pool", "adaptive_max_pool"), _adaptive),
    **dict.fromkeys(("global_avg_pool", "global_max_pool"), _global),
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "dense": _dense,
    "embedding": _embedding,
    "matmul": _matmul,
    "attention": _attention,
    "concat": _concat,
    "slice": _slice,
    "pad": _pad,
    "transpose": _transpose,
    "flatten": _flatten,
    "gather": _gather,
    "space_to_depth": _space_to_depth,
    "depth_to_space": _depth_to_space,
    "tile": _tile,
}
