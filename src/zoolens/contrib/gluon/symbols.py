"""MXNet symbols (the JSON that MXNet writes) as graphs. MXNet itself is not needed; shapes come from its inference."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.model import Array, Graph, Parameter, Shape
from zoolens.findings.graph.ir.sliding_windows import covering_ends

_AXES: Final = {4: "NCHW", 3: "NCW", 5: "NCDHW"}

# One input or several, no attributes: MXNet's name -> ours.
_PLAIN: Final = {
    "elemwise_add": "add", "_plus": "add", "_Plus": "add", "broadcast_add": "add", "broadcast_plus": "add",
    "elemwise_sub": "sub", "_minus": "sub", "broadcast_sub": "sub",
    "elemwise_mul": "mul", "_mul": "mul", "broadcast_mul": "mul",
    "elemwise_div": "div", "_div": "div", "broadcast_div": "div",
    "broadcast_maximum": "maximum", "_maximum": "maximum", "broadcast_minimum": "minimum", "_minimum": "minimum",
    "relu": "relu", "sigmoid": "sigmoid", "tanh": "tanh", "exp": "exp", "log": "log", "sqrt": "sqrt",
    "rsqrt": "rsqrt", "square": "square", "abs": "abs", "negative": "neg", "erf": "erf",
    "Flatten": "flatten", "flatten": "flatten", "Reshape": "reshape", "reshape": "reshape",
    "expand_dims": "reshape", "squeeze": "reshape",
    "_copy": "identity", "identity": "identity", "BlockGrad": "identity", "Cast": "cast", "cast": "cast",
}  # fmt: skip
_SCALAR: Final = {
    "_plus_scalar": "add", "_minus_scalar": "sub", "_mul_scalar": "mul", "_div_scalar": "div",
    "_power_scalar": "pow", "_maximum_scalar": "maximum", "_minimum_scalar": "minimum",
    "_rminus_scalar": "sub", "_rdiv_scalar": "div", "_rpower_scalar": "pow",
}  # fmt: skip
_ACTIVATION: Final = {"relu": "relu", "sigmoid": "sigmoid", "tanh": "tanh", "softrelu": "softplus"}


@dataclass(frozen=True)
class _Operator:
    """One node of the symbol. `inputs` are positions of nodes and of their outputs."""

    kind: str
    name: str
    attributes: Mapping[str, str]
    inputs: tuple[tuple[int, int], ...]
    shape: Shape

    def get(self, name: str, default: Any) -> Any:
        """MXNet writes every attribute as the text of a Python literal, or as a bare word."""
        text = self.attributes.get(name)
        if text is None:
            return default
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return text

    def extents(self, name: str, otherwise: int, count: int) -> tuple[int, ...]:
        given = self.get(name, ())
        if given:
            return tuple(int(extent) for extent in given)
        return (otherwise,) * count


def graph_of_symbol(
    document: Mapping[str, Any],
    shapes: Mapping[str, Shape],
    name: str,
    *,
    prefix: str = "",
    learned: Collection[str] | None = None,
    values: Mapping[str, Array] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Graph:
    """The graph of a symbol. `shapes` are those of variables and of outputs, as MXNet names them. A variable without
    `values` (and not `learned`, where that is given) that only elementwise operators use is an input."""
    reader = _Reader(document, shapes, GraphBuilder(name, keep_weights=values is not None), prefix, learned, values)
    return reader.builder.finish(reader.read(), facts)


class _Reader:
    def __init__(
        self,
        document: Mapping[str, Any],
        shapes: Mapping[str, Shape],
        builder: GraphBuilder,
        prefix: str,
        learned: Collection[str] | None,
        values: Mapping[str, Array] | None,
    ) -> None:
        self.builder = builder
        self._document = document
        self._shapes = shapes
        self._prefix = prefix
        self._learned = learned
        self._values = values or {}
        self._operators = [self._operator(row) for row in document["nodes"]]
        self._made: dict[tuple[int, int], str] = {}

    def read(self) -> list[str]:
        for position, operator in enumerate(self._operators):
            if operator.kind == "null":
                continue  # a variable: made by whoever uses it
            handler = _HANDLERS.get(operator.kind, _unknown)
            self._made[position, 0] = handler(self, operator)
        return [self.value(position, output) for position, output, *_ in self._document["heads"]]

    def _operator(self, row: Mapping[str, Any]) -> _Operator:
        name = str(row["name"])
        known = (name, f"{name}_output", f"{name}_output0")
        shape = next((self._shapes[key] for key in known if key in self._shapes), None)
        if shape is None:
            raise ModelError(f"The shape of {name[:60]!r} in {self.builder.name} is not known.")
        inputs = tuple((int(position), int(output)) for position, output, *_ in row["inputs"])
        return _Operator(str(row["op"]), name, row.get("attrs") or row.get("param") or {}, inputs, shape)

    def short(self, name: str) -> str:
        """The name without the network's own prefix, which counts how often one was built, and without gluon's
        suffix."""
        return name.removeprefix(self._prefix).removesuffix("_fwd")

    def value(self, position: int, output: int) -> str:
        if (position, output) not in self._made:
            self._made[position, output] = self._variable(position, output)
        return self._made[position, output]

    def _variable(self, position: int, output: int) -> str:
        operator = self._operators[position]
        if operator.kind != "null":
            index = self._shapes.get(f"{operator.name}_output{output}", operator.shape)
            return self.builder.add("output_of", [self.value(position, 0)], index, index=output)
        if self._is_parameter(operator.name):
            parameter = self.parameter("value", position)
            return self.builder.leaf("parameter", parameter, source=parameter.key)
        axes = _AXES.get(len(operator.shape), "")
        return self.builder.add("input", (), operator.shape, name=operator.name, axes=axes)

    def _is_parameter(self, name: str) -> bool:
        return name in self._values or (self._learned is not None and name in self._learned)

    def parameter(self, role: str, position: int) -> Parameter:
        variable = self._operators[position]
        key = self.short(variable.name)
        return self.builder.parameter(role, variable.shape, key, self._values.get(variable.name))

    def parameters(self, operator: _Operator, *roles: str) -> list[Parameter]:
        """The variables after the first input, by role; "" is one that has no effect."""
        pairs = zip(roles, operator.inputs[1:], strict=False)
        return [self.parameter(role, position) for role, (position, _) in pairs if role]

    def is_learned(self, position: int) -> bool:
        return self._learned is None or self._operators[position].name in self._learned

    def input_shape(self, operator: _Operator) -> Shape:
        return self.builder.shapes[self.value(*operator.inputs[0])]

    def add(self, op: str, operator: _Operator, count: int | None = 1, **details: Any) -> str:
        """A node on the first `count` inputs of the operator (None: all)."""
        inputs = [self.value(*place) for place in operator.inputs[:count]]
        details = {"axes": _AXES.get(len(operator.shape), ""), **details}
        return self.builder.add(op, inputs, operator.shape, source=self.short(operator.name), **details)


Handler = Callable[[_Reader, _Operator], str]


def _convolution(reader: _Reader, operator: _Operator) -> str:
    kernel = operator.get("kernel", ())
    pad = operator.extents("pad", 0, len(kernel))
    return reader.add(
        "conv",
        operator,
        kernel=kernel,
        stride=operator.extents("stride", 1, len(kernel)),
        dilation=operator.extents("dilate", 1, len(kernel)),
        pads=pad + pad,
        groups=operator.get("num_group", 1),
        parameters=reader.parameters(operator, "kernel", "bias"),
    )


def _dense(reader: _Reader, operator: _Operator) -> str:
    source = reader.short(operator.name)
    data = reader.value(*operator.inputs[0])
    shape = reader.builder.shapes[data]
    if operator.get("flatten", True) and len(shape) > 2:
        features = reader.parameter("kernel", operator.inputs[1][0]).shape[1]
        data = reader.builder.add("flatten", [data], (shape[0], features), source=f"{source}_flatten")
    parameters = reader.parameters(operator, "kernel", "bias")
    return reader.builder.add("dense", [data], operator.shape, source=source, parameters=parameters)


def _batch_norm(reader: _Reader, operator: _Operator) -> str:
    """A gamma that is fixed is taken as one whatever it holds; a beta that is not learned stays at zero."""
    if operator.get("axis", 1) != 1:
        return _unknown(reader, operator)
    gamma, beta = (position for position, _ in operator.inputs[1:3])
    scale = "" if operator.get("fix_gamma", True) or not reader.is_learned(gamma) else "scale"
    shift = "shift" if reader.is_learned(beta) else ""
    roles = reader.parameters(operator, scale, shift, "mean", "variance")
    return reader.add("batch_norm", operator, epsilon=float(operator.get("eps", 1e-3)), parameters=roles)


def _activation(reader: _Reader, operator: _Operator) -> str:
    op = _ACTIVATION.get(str(operator.get("act_type", "")))
    return reader.add(op, operator) if op else _unknown(reader, operator)


def _leaky(reader: _Reader, operator: _Operator) -> str:
    slope = float(operator.get("slope", 0.25))
    match operator.get("act_type", "leaky"):
        case "leaky":
            return reader.add("leaky_relu", operator, alpha=slope)
        case "elu":
            return reader.add("elu", operator, alpha=slope)
        case "prelu":
            return reader.add("prelu", operator, parameters=reader.parameters(operator, "alpha"))
        case "selu" | "gelu" as op:
            return reader.add(op, operator)
    return _unknown(reader, operator)


def _pooling(reader: _Reader, operator: _Operator) -> str:
    kind = operator.get("pool_type", "max")
    if kind not in ("max", "avg"):
        return _unknown(reader, operator)
    if operator.get("global_pool", False):
        return reader.add(f"adaptive_{kind}_pool", operator, size=operator.shape[2:])
    kernel = operator.get("kernel", ())
    begins = operator.extents("pad", 0, len(kernel))
    strides = operator.extents("stride", 1, len(kernel))
    given = reader.input_shape(operator)[2:]
    ones = (1,) * len(kernel)
    ends = covering_ends(given, operator.shape[2:], kernel, strides, ones, begins)  # more than declared if rounded up
    window = {"kernel": kernel, "stride": strides, "pads": begins + ends}
    if kind == "max":
        return reader.add("max_pool", operator, **window)
    counted = bool(operator.get("count_include_pad", True))
    if counted and ends != begins:  # MXNet divides by what lies inside the declared pad, and not beyond: no such op
        return _unknown(reader, operator)
    return reader.add("avg_pool", operator, count_pad=counted or None, **window)


def _concat(reader: _Reader, operator: _Operator) -> str:
    return reader.add("concat", operator, None, axis=operator.get("dim", 1) % len(operator.shape))


def _softmax(reader: _Reader, operator: _Operator) -> str:
    axis = operator.get("axis", -1 if "log" in operator.kind or operator.kind == "softmax" else 1)
    op = "log_softmax" if operator.kind == "log_softmax" else "softmax"
    return reader.add(op, operator, axes="", axis=axis % len(operator.shape))


def _lrn(reader: _Reader, operator: _Operator) -> str:
    return reader.add(
        "lrn",
        operator,
        size=operator.get("nsize", 5),
        alpha=float(operator.get("alpha", 1e-4)),
        beta=float(operator.get("beta", 0.75)),
        bias=float(operator.get("knorm", 2.0)),
    )


def _clip(reader: _Reader, operator: _Operator) -> str:
    return reader.add("clip", operator, low=float(operator.get("a_min", 0)), high=float(operator.get("a_max", 0)))


def _dropout(reader: _Reader, operator: _Operator) -> str:
    return reader.add("dropout", operator, rate=float(operator.get("p", 0.5)))


def _scalar(reader: _Reader, operator: _Operator) -> str:
    reverse = operator.kind.startswith("_r") or None
    number = float(operator.get("scalar", 0))
    return reader.add(_SCALAR[operator.kind], operator, axes="", scalar=number, reverse=reverse)


def _plain(reader: _Reader, operator: _Operator) -> str:
    return reader.add(_PLAIN[operator.kind], operator, None, axes="")


def _transpose(reader: _Reader, operator: _Operator) -> str:
    rank = len(operator.shape)
    perm = operator.get("axes", ()) or tuple(reversed(range(rank)))
    return reader.add("transpose", operator, axes="", perm=tuple(perm))


def _unknown(reader: _Reader, operator: _Operator) -> str:
    inputs = [reader.value(*place) for place in operator.inputs]
    return reader.builder.unknown(operator.kind, inputs, operator.shape, source=reader.short(operator.name))


_HANDLERS: Final[Mapping[str, Handler]] = {
    **dict.fromkeys(_PLAIN, _plain),
    **dict.fromkeys(_SCALAR, _scalar),
    **dict.fromkeys(("softmax", "log_softmax", "SoftmaxOutput", "SoftmaxActivation"), _softmax),
    "Convolution": _convolution,
    "FullyConnected": _dense,
    "BatchNorm": _batch_norm,
    "Activation": _activation,
    "LeakyReLU": _leaky,
    "Pooling": _pooling,
    "Concat": _concat,
    "concat": _concat,
    "LRN": _lrn,
    "clip": _clip,
    "Dropout": _dropout,
    "transpose": _transpose,
}
