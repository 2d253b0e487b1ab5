"""The output shapes of ONNX operators that the vocabulary has no word for, so that what follows them can be read.

An operator without a rule here, or whose shape depends on numbers (NonZero, Unique), has the shape that the file gives
it, or none: a shape is never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from zoolens.findings.graph.importers.onnx.translation import OnnxCall
from zoolens.findings.graph.ir.model import Shape
from zoolens.findings.graph.ir.shapes import broadcast

Rule = Callable[[OnnxCall], Sequence[Shape]]


def output_shapes(call: OnnxCall) -> Sequence[Shape]:
    """The shapes of all outputs as far as they follow from the inputs; nothing where they do not."""
    rule = _RULES.get(call.node.op)
    if rule is None or call.node.domain not in ("", "ai.onnx", *_CONTRIBUTED):
        return ()
    return rule(call)


def _as_input(position: int) -> Rule:
    return lambda call: [call.shape(position)] * len(call.outputs)


def _combined(call: OnnxCall) -> Sequence[Shape]:
    given = [position for position in range(len(call.inputs)) if call.given(position) is not None]
    shapes = [call.shape(position) for position in given]
    return [broadcast(shapes)]


def _extreme(call: OnnxCall) -> Sequence[Shape]:
    shape = call.shape(0)
    axis = call.axis(call.get("axis", 0), len(shape))
    return [_without(shape, {axis}, keep=bool(call.get("keepdims", 1)))]


def _without(shape: Shape, axes: set[int], *, keep: bool) -> Shape:
    kept = [1 if i in axes else extent for i, extent in enumerate(shape) if keep or i not in axes]
    return tuple(kept)


def _gather_nd(call: OnnxCall) -> Sequence[Shape]:
    data = call.shape(0)
    indices = call.shape(1)
    batch = call.get("batch_dims", 0)
    return [(*indices[:-1], *data[batch + indices[-1] :])]


def _top_k(call: OnnxCall) -> Sequence[Shape]:
    shape = call.shape(0)
    (count,) = call.whole(1) or [call.get("k", 1)]
    axis = call.axis(call.get("axis", -1), len(shape))
    return [(*shape[:axis], count, *shape[axis + 1 :])] * 2


def _one_hot(call: OnnxCall) -> Sequence[Shape]:
    indices = call.shape(0)
    (depth,) = call.whole(1) or [0]
    axis = call.axis(call.get("axis", -1), len(indices) + 1)
    return [(*indices[:axis], depth, *indices[axis:])]


def _grid_sample(call: OnnxCall) -> Sequence[Shape]:
    return [(*call.shape(0)[:2], *call.shape(1)[1:-1])]


def _region_align(call: OnnxCall) -> Sequence[Shape]:
    regions = call.shape(1)[0]
    channels = call.shape(0)[1]
    height = call.get("output_height", 1)
    width = call.get("output_width", 1)
    return [(regions, channels, height, width)]


def _region_pool(call: OnnxCall) -> Sequence[Shape]:
    return [(call.shape(1)[0], call.shape(0)[1], *(call.integers("pooled_shape") or ()))]


def _affine_grid(call: OnnxCall) -> Sequence[Shape]:
    size = call.whole(1) or []
    return [(size[0], *size[2:], len(size) - 2)]


def _crop_or_pad(call: OnnxCall) -> Sequence[Shape]:
    shape = list(call.shape(0))
    wanted = call.whole(1) or []
    for axis, extent in zip(call.integers("axes") or range(len(shape)), wanted, strict=True):
        shape[call.axis(axis, len(shape))] = extent
    return [tuple(shape)]


def _drawn(call: OnnxCall) -> Sequence[Shape]:
    return [tuple(call.integers("shape") or ())]


_CONTRIBUTED: Final = ("com.microsoft",)
_SAME: Final = (
    "Acos Acosh Asin Asinh Atan Atanh Bernoulli BitwiseNot Celu Cosh CumProd CumSum EyeLike Hardmax IsInf "
    "IsNaN MeanVarianceNormalization Not RandomNormalLike RandomUniformLike ReverseSequence RotaryEmbedding Scatter "
    "ScatterElements ScatterND Shrink Sign Sinh Softsign Swish Tan TensorScatter ThresholdedRelu Trilu"
)
_RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(_SAME.split(), _as_input(0)),
    **dict.fromkeys(
        ("And", "Or", "Xor", "Mod", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Mean"), _combined
    ),
    **dict.fromkeys(("ArgMax", "ArgMin"), _extreme),
    "GatherElements": _as_input(1),
    "GatherND": _gather_nd,
    "TopK": _top_k,
    "OneHot": _one_hot,
    "GridSample": _grid_sample,
    "RoiAlign": _region_align,
    "MaxRoiPool": _region_pool,
    "AffineGrid": _affine_grid,
    "CenterCropPad": _crop_or_pad,
    "Det": lambda call: [call.shape(0)[:-2]],
    "GlobalLpPool": lambda call: [(*call.shape(0)[:2], *(1,) * (len(call.shape(0)) - 2))],
    "RandomNormal": _drawn,
    "RandomUniform": _drawn,
}
OTHER_OPERATORS: Final = frozenset(_RULES)
