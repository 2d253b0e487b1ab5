"""What each layer of an IR is in ONNX's operators. The meaning of every one here is held against OpenVINO itself by
`test_openvino.py`; a setting that ONNX cannot say makes the layer untranslatable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from zoolens.findings.graph.importers.openvino.openvino_arrangement import ARRANGEMENT
from zoolens.findings.graph.importers.openvino.recurrent import RECURRENT
from zoolens.findings.graph.importers.openvino.windows import WINDOWS
from zoolens.findings.graph.importers.openvino.writing import LayerWriting, Untranslatable

Translation = Callable[[LayerWriting], None]

CAST_TYPES: Final = {
    "f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6, "i64": 7, "boolean": 9, "f16": 10, "f64": 11, "bf16": 16,
}  # fmt: skip


def _plain(op: str, **attributes: int | float | str) -> Translation:
    """An operator of the same inputs."""

    def write(layer: LayerWriting) -> None:
        layer.last(op, *layer.layer.inputs, **attributes)

    return write


def _elementwise(op: str) -> Translation:
    """An operator of two inputs, which ONNX always broadcasts as numpy does."""

    def write(layer: LayerWriting) -> None:
        if layer.text("auto_broadcast", "numpy") not in ("numpy", "none"):
            raise Untranslatable
        layer.last(op, *layer.layer.inputs)

    return write


def _negated(op: str) -> Translation:
    def write(layer: LayerWriting) -> None:
        layer.last("Not", layer.add(op, *layer.layer.inputs))

    return write


def _convert(layer: LayerWriting) -> None:
    """A change of type. Constants in float16 that are computed with as float32 keep their name."""
    (given,) = layer.layer.inputs
    to = CAST_TYPES.get(layer.text("destination_type"))
    if to is None:
        raise Untranslatable
    if given in layer.graph.graph.constants:
        layer.graph.converted[layer.output] = given
    layer.last("Cast", given, to=to)


def _matmul(layer: LayerWriting) -> None:
    a, b = layer.layer.inputs
    turned = layer.flag("transpose_a"), layer.flag("transpose_b")
    if layer.rank(a) == layer.rank(b) == 2:
        layer.last("Gemm", a, b, transA=int(turned[0]), transB=int(turned[1]))
        return
    a, b = (_turned(layer, name) if turn else name for name, turn in zip((a, b), turned, strict=True))
    layer.last("MatMul", a, b)


def _turned(layer: LayerWriting, name: str) -> str:
    rank = layer.rank(name)
    if rank < 2:
        return name  # a vector has nothing to exchange
    return layer.add("Transpose", name, perm=[*range(rank - 2), rank - 1, rank - 2])


def _reduce(op: str) -> Translation:
    def write(layer: LayerWriting) -> None:
        given, axes = layer.layer.inputs
        if not layer.graph.values(axes).size:
            layer.last("Identity", given)
            return
        axes = layer.constant(layer.graph.whole_numbers(axes))
        layer.last(op, given, axes, keepdims=int(layer.flag("keep_dims")))

    return write


def _softmax(op: str) -> Translation:
    def write(layer: LayerWriting) -> None:
        layer.last(op, *layer.layer.inputs, axis=layer.whole("axis", 1))

    return write


def _attention(layer: LayerWriting) -> None:
    """Attention written out: softmax(queries × keys × scale + mask) × values."""
    queries, keys, values, *others = layer.layer.inputs
    width = layer.graph.ports[queries].shape[-1]
    if width is None:
        raise Untranslatable
    scale = others[1] if len(others) > 1 else layer.constant(width**-0.5, "float32")
    scores = layer.add("Mul", layer.add("MatMul", queries, _turned(layer, keys)), scale)
    if layer.flag("causal"):
        before = np.tri(layer.extents(queries)[-2], layer.extents(keys)[-2])
        scores = layer.add("Add", scores, layer.constant(np.where(before, 0.0, -np.inf), "float32"))
    elif others:
        scores = _masked(layer, scores, others[0])
    layer.last("MatMul", layer.add("Softmax", scores, axis=-1), values)


def _masked(layer: LayerWriting, scores: str, mask: str) -> str:
    if layer.graph.ports[mask].element != "bool":
        return layer.add("Add", scores, mask)
    seen, unseen = (layer.constant(number, "float32") for number in (0.0, -np.inf))
    return layer.add("Add", scores, layer.add("Where", mask, seen, unseen))


# --- activations


def _prelu(layer: LayerWriting) -> None:
    given, slope = layer.layer.inputs
    shape = layer.graph.ports[slope].shape
    if all(extent == 1 for extent in shape):
        layer.last("LeakyRelu", given, alpha=float(layer.graph.values(slope).ravel()[0]))
        return
    if len(shape) == 1 and layer.rank(given) > 1:  # one slope for each channel
        slope = layer.add("Unsqueeze", slope, layer.constant(range(1, layer.rank(given) - 1)))
    layer.last("PRelu", given, slope)


def _clamp(layer: LayerWriting) -> None:
    element = layer.graph.ports[layer.output].element
    if element not in ("float32", "float16", "int32", "int64"):
        raise Untranslatable
    limits = [layer.constant(layer.number(key), element) for key in ("min", "max")]
    layer.last("Clip", *layer.layer.inputs, *limits)


def _swish(layer: LayerWriting) -> None:
    given, *beta = layer.layer.inputs
    inner = layer.add("Mul", given, beta[0]) if beta and layer.graph.values(beta[0]).ravel()[0] != 1 else given
    layer.last("Mul", given, layer.add("Sigmoid", inner))


def _gelu(layer: LayerWriting) -> None:
    mode = layer.text("approximation_mode", "ERF").upper()
    layer.last("Gelu", *layer.layer.inputs, approximate="tanh" if mode == "TANH" else "none")


def _with_numbers(op: str, *keys: str) -> Translation:
    """An operator whose further inputs are attributes in ONNX."""

    def write(layer: LayerWriting) -> None:
        given, *numbers = layer.layer.inputs
        values = {key: float(layer.graph.values(name).ravel()[0]) for key, name in zip(keys, numbers, strict=True)}
        layer.last(op, given, **values)

    return write


# --- norms


def _mean_variance(layer: LayerWriting) -> None:
    given, axes = layer.layer.inputs
    if layer.layer.opset != "opset6":
        raise Untranslatable
    across = layer.constant(layer.graph.whole_numbers(axes))
    only = "" if layer.flag("normalize_variance") else layer.output
    centred = layer.add("Sub", given, layer.add("ReduceMean", given, across, keepdims=1), made=only)
    if only:
        return
    variance = layer.add("ReduceMean", layer.add("Mul", centred, centred), across, keepdims=1)
    epsilon = layer.constant(layer.number("eps"), "float32")
    if layer.text("eps_mode").lower() == "inside_sqrt":
        scale = layer.add("Sqrt", layer.add("Add", variance, epsilon))
    else:
        scale = layer.add("Add", layer.add("Sqrt", variance), epsilon)
    layer.last("Div", centred, scale)


def _l2(layer: LayerWriting) -> None:
    given, axes = layer.layer.inputs
    across = layer.constant(layer.graph.whole_numbers(axes))
    total = layer.add("ReduceSum", layer.add("Mul", given, given), across, keepdims=1)
    epsilon = layer.constant(layer.number("eps"), "float32")
    joined = layer.add("Max" if layer.text("eps_mode") == "max" else "Add", total, epsilon)
    layer.last("Div", given, layer.add("Sqrt", joined))


def _batch_norm(layer: LayerWriting) -> None:
    inputs = list(layer.layer.inputs)
    if layer.layer.opset != "opset5":  # gamma and beta come first
        inputs = [inputs[2], inputs[0], inputs[1], *inputs[3:]]
    layer.last("BatchNormalization", *inputs, epsilon=layer.number("epsilon"))


def _group_norm(layer: LayerWriting) -> None:
    settings = {"num_groups": layer.whole("num_groups"), "epsilon": layer.number("epsilon")}
    layer.last("GroupNormalization", *layer.layer.inputs, **settings)


def _response_norm(layer: LayerWriting) -> None:
    given, axes = layer.layer.inputs
    if layer.graph.whole_numbers(axes) != [1]:
        raise Untranslatable
    numbers = {key: layer.number(key) for key in ("alpha", "beta", "bias")}
    layer.last("LRN", given, size=layer.whole("size"), **numbers)


OPERATORS: Final[dict[str, Translation]] = {
    **ARRANGEMENT,
    **WINDOWS,
    **RECURRENT,
    **{kind: _elementwise(op) for kind, op in {
        "Add": "Add", "Subtract": "Sub", "Multiply": "Mul", "Divide": "Div", "Power": "Pow", "Maximum": "Max",
        "Minimum": "Min", "Equal": "Equal", "Greater": "Greater", "GreaterEqual": "GreaterOrEqual", "Less": "Less",
        "LessEqual": "LessOrEqual", "LogicalAnd": "And", "LogicalOr": "Or", "LogicalXor": "Xor",
    }.items()},
    **{kind: _plain(op) for kind, op in {
        "Abs": "Abs", "Sqrt": "Sqrt", "Exp": "Exp", "Log": "Log", "Negative": "Neg", "Sign": "Sign", "Floor": "Floor",
        "Ceiling": "Ceil", "Sin": "Sin", "Cos": "Cos", "Tan": "Tan", "Sinh": "Sinh", "Cosh": "Cosh", "Atan": "Atan",
        "Tanh": "Tanh", "Sigmoid": "Sigmoid", "ReLU": "Relu", "Erf": "Erf", "SoftPlus": "Softplus",
        "SoftSign": "Softsign", "HSwish": "HardSwish", "Mish": "Mish", "LogicalNot": "Not", "Select": "Where",
    }.items()},
    **{kind: _reduce(op) for kind, op in {
        "ReduceMean": "ReduceMean", "ReduceSum": "ReduceSum", "ReduceMax": "ReduceMax", "ReduceMin": "ReduceMin",
        "ReduceProd": "ReduceProd", "ReduceL1": "ReduceL1", "ReduceL2": "ReduceL2",
    }.items()},
    "NotEqual": _negated("Equal"), "Convert": _convert, "MatMul": _matmul, "SoftMax": _softmax("Softmax"),
    "LogSoftmax": _softmax("LogSoftmax"), "PReLU": _prelu, "Clamp": _clamp, "Swish": _swish, "Gelu": _gelu,
    "Elu": lambda layer: layer.last("Elu", *layer.layer.inputs, alpha=layer.number("alpha")),
    "HSigmoid": _plain("HardSigmoid", alpha=1 / 6, beta=0.5),
    "HardSigmoid": _with_numbers("HardSigmoid", "alpha", "beta"),
    "Selu": _with_numbers("Selu", "alpha", "gamma"), "MVN": _mean_variance, "NormalizeL2": _l2,
    "BatchNormInference": _batch_norm, "GroupNormalization": _group_norm, "LRN": _response_norm,
    "ScaledDotProductAttention": _attention,
}  # fmt: skip
