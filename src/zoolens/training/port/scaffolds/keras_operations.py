"""Activations, arithmetic and arrangements of a draft for Keras."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

from zoolens.findings.graph.ir.model import Node
from zoolens.training.port.scaffolds.keras_code import KerasWriter, padded
from zoolens.training.port.scaffolds.layouts import Order, channels_last, reshaped_order, straight, turned
from zoolens.training.port.scaffolds.steps import Setting
from zoolens.training.port.scaffolds.writer import CannotWrite, by_axis

Handler = Callable[[KerasWriter, Node], None]
_MERGES: Final = {
    "add": ("Add", "+"), "mul": ("Multiply", "*"), "sub": ("Subtract", "-"), "div": ("", "/"), "pow": ("", "**"),
    "maximum": ("Maximum", ""), "minimum": ("Minimum", ""),
}  # fmt: skip


def _unary(pattern: str) -> Handler:
    """An expression of one value, of whatever order."""

    def handle(writer: KerasWriter, node: Node) -> None:
        value = writer.operand(node, 0)
        writer.add(node, pattern, [value])
        writer.made(node, writer.orders[value])

    return handle


def _activation(kind: str, *settings: Setting) -> Handler:
    def handle(writer: KerasWriter, node: Node) -> None:
        value = writer.operand(node, 0)
        writer.layer(node, kind, settings, [value], label=node.op)
        writer.made(node, writer.orders[value])

    return handle


def _named(function: str) -> Handler:
    return _activation("Activation", Setting("activation", function, positional=True))


def _with_option(kind: str, attribute: str, keyword: str, usual: float, default: float) -> Handler:
    def handle(writer: KerasWriter, node: Node) -> None:
        given = float(f"{node.get(attribute, usual):.6g}")
        _activation(kind, Setting(keyword, given, default))(writer, node)

    return handle


def _hard_sigmoid(writer: KerasWriter, node: Node) -> None:
    alpha, beta = node.get("alpha", 1 / 6), node.get("beta", 0.5)
    if abs(alpha - 1 / 6) > 1e-6 or beta != 0.5:
        raise CannotWrite("Keras' hard sigmoid has another slope")
    _named("hard_sigmoid")(writer, node)


def _gelu(writer: KerasWriter, node: Node) -> None:
    kind = node.get("approximate")
    if kind == "quick":
        return _unary("{0} * ops.sigmoid(1.702 * {0})")(writer, node)
    if kind == "tanh":
        return _unary("keras.activations.gelu({0}, approximate=True)")(writer, node)
    return _named("gelu")(writer, node)


def _clip(writer: KerasWriter, node: Node) -> None:
    low, high = node.get("low"), node.get("high")
    if low == 0 and high is not None:
        return _activation("ReLU", Setting("max_value", float(high)))(writer, node)
    value = writer.operand(node, 0)
    bounds = [("maximum", low), ("minimum", high)]
    pattern = "{0}"
    settings = []
    for function, bound in bounds:
        if bound is not None:
            pattern = f"ops.{function}({pattern}, {{{function}}})"
            settings.append(Setting(function, float(bound)))
    writer.add(node, pattern, [value], settings)
    writer.made(node, writer.orders[value])
    return None


def _prelu(writer: KerasWriter, node: Node) -> None:
    value = writer.usual(node)
    alpha, rank = node.parameter("alpha"), len(node.shape)
    if alpha is None or (alpha.size not in (1, node.shape[1])):
        raise CannotWrite("its slopes are not one for each channel")
    last = rank if alpha.size == 1 and node.shape[1] != 1 else rank - 1
    writer.layer(node, "PReLU", [Setting("shared_axes", tuple(range(1, last)), ())], [value])
    writer.made(node, writer.orders[value])


def _softmax(writer: KerasWriter, node: Node) -> None:
    value = writer.operand(node, 0)
    order = writer.orders[value]
    axis = order.index(node.get("axis"))
    given = Setting("axis", -1 if axis == len(order) - 1 else axis, -1)
    if node.op == "softmax":
        writer.layer(node, "Softmax", [given], [value])
    else:
        writer.add(node, "ops.log_softmax({0}, axis={axis})", [value], [given])
    writer.made(node, order)


def _merge(writer: KerasWriter, node: Node) -> None:
    layer, sign = _MERGES[node.op]
    if len(node.inputs) == 1:
        return _with_scalar(writer, node, sign)
    inputs, order = facing(writer, node)
    layered = layer and len({len(writer.orders[name]) for name in inputs}) == 1
    if layered and not any(name == other for name, other in pairwise(inputs)):
        writer.layer(node, layer, [], inputs, is_leaf=writer.is_leaf(node))
    elif sign:
        writer.add(node, f"{{0}} {sign} {{1}}", inputs)
    else:
        writer.add(node, f"ops.{node.op}({{0}}, {{1}})", inputs)
    writer.made(node, order)
    return None


def _with_scalar(writer: KerasWriter, node: Node, sign: str) -> None:
    value, number = writer.operand(node, 0), Setting("scalar", float(node.get("scalar")))
    pattern = f"{{0}} {sign} {{scalar}}" if sign else f"ops.{node.op}({{0}}, {{scalar}})"
    if node.get("reverse") and sign:
        pattern = f"{{scalar}} {sign} {{0}}"
    writer.add(node, pattern, [value], [number])
    writer.made(node, writer.orders[value])


def facing(writer: KerasWriter, node: Node) -> tuple[list[str], Order]:
    """All inputs in one order, that of the largest where they have the same number of axes."""
    values = [writer.operand(node, place) for place in range(len(node.inputs))]
    ranks = {len(writer.orders[value]) for value in values}
    if len(ranks) > 1:
        straightened = [writer.straightened(node, place) for place in range(len(values))]
        return straightened, straight(len(node.shape))
    sizes = [_elements(writer, name) for name in node.inputs]
    order = writer.orders[values[sizes.index(max(sizes))]]
    return [writer.turned(node, value, order) for value in values], order


def _elements(writer: KerasWriter, name: str) -> int:
    total = 1
    for extent in writer.graph.by_name[name].shape:
        total *= extent
    return total


def _concat(writer: KerasWriter, node: Node) -> None:
    inputs, order = facing(writer, node)
    if len({len(writer.orders[name]) for name in inputs}) > 1:
        raise CannotWrite("its inputs have other numbers of axes")
    axis = order.index(node.get("axis"))
    given = Setting("axis", -1 if axis == len(order) - 1 else axis, -1)
    writer.layer(node, "Concatenate", [given], inputs)
    writer.movable(node.name)
    writer.made(node, order)


def _slice(writer: KerasWriter, node: Node) -> None:
    value = writer.operand(node, 0)
    order = writer.orders[value]
    axis, extent = order.index(node.get("axis")), writer.graph.by_name[node.inputs[0]].shape[node.get("axis")]
    start, stop, step = int(node.get("start")), int(node.get("stop")), int(node.get("step", 1))
    settings = [Setting("start", start or None, family="width")]
    settings.append(Setting("stop", None if stop >= extent else stop, family="width"))
    stepped = f":{step}" if step != 1 else ""
    first = "{start}" if start else ""
    last = "{stop}" if stop < extent else ""
    pattern = f"{{0}}[{':, ' * axis}{first}:{last}{stepped}]"
    writer.add(node, pattern, [value], [setting for setting in settings if setting.value is not None])
    writer.made(node, order)


def _reduction(writer: KerasWriter, node: Node) -> None:
    value = writer.operand(node, 0)
    order = writer.orders[value]
    gone = node.get("axes")
    axes = tuple(sorted(order.index(axis) for axis in gone))
    keep = bool(node.get("keep"))
    settings = [Setting("axis", by_axis(axes) if len(axes) == 1 else axes), Setting("keepdims", keep)]
    kept = ", keepdims={keepdims}" if keep else ""
    writer.add(node, f"ops.{node.op}({{0}}, axis={{axis}}{kept})", [value], settings if keep else settings[:1])
    left = [axis for axis in order if axis not in gone]
    writer.made(node, order if keep else tuple(sorted(left).index(axis) for axis in left))


def _reshape(writer: KerasWriter, node: Node) -> None:
    value = writer.operand(node, 0)
    before = writer.graph.by_name[node.inputs[0]].shape
    order = reshaped_order(before, node.shape, writer.orders[value])
    if order is None:
        value = writer.straightened(node)
        order = reshaped_order(before, node.shape, writer.orders[value]) or straight(len(node.shape))
    _reshaped(writer, node, value, turned(node.shape, order))
    writer.made(node, order)


def _reshaped(writer: KerasWriter, node: Node, given: str, shape: Sequence[int], **more: Any) -> str:
    if shape[0] == 1:
        target = tuple(shape[1:])
        if len(target) > 1 and sum(extent != 1 for extent in target) == 1:
            target = tuple(extent if extent == 1 else -1 for extent in target)
        return writer.layer(node, "Reshape", [Setting("target_shape", target, positional=True)], [given], **more)
    settings = [Setting("shape", (-1, *shape[1:]))]  # the batch is in the first axis, together with another one
    return writer.add(node, "ops.reshape({0}, {shape})", [given], settings, **more)


def _transpose(writer: KerasWriter, node: Node) -> None:
    """No step: the variable has its axes in the same places, which now have other meanings."""
    value, perm = writer.operand(node, 0), node.get("perm")
    order = tuple(perm.index(axis) for axis in writer.orders[value])
    writer.steps.append(_alias(writer, node, value))
    writer.made(node, order)


def _alias(writer: KerasWriter, node: Node, value: str) -> Any:
    from zoolens.training.port.scaffolds.steps import CodeStep

    return CodeStep((node.name,), (value,), "{0}", "alias", path=writer.path(node), is_leaf=False)


def _matmul(writer: KerasWriter, node: Node) -> None:
    inputs = [writer.straightened(node, place) for place in (0, 1)]
    texts = []
    for place, key in enumerate(("transpose_a", "transpose_b")):
        rank = len(writer.orders[inputs[place]])
        swapped = (*range(rank - 2), rank - 1, rank - 2)
        texts.append(f"ops.transpose({{{place}}}, {swapped})" if node.get(key) else f"{{{place}}}")
    writer.add(node, f"ops.matmul({texts[0]}, {texts[1]})", inputs)
    writer.made(node, straight(len(node.shape)))


def _attention(writer: KerasWriter, node: Node) -> None:
    if node.get("causal"):
        raise CannotWrite("a causal mask is not written yet")
    inputs = [writer.straightened(node, place) for place in range(len(node.inputs))]
    writer.helpers["attention"] = None
    wide = writer.graph.by_name[node.inputs[0]].shape[-1]
    scale = Setting("scale", float(f"{node.get('scale') or wide**-0.5:.9g}"))
    bias = ", bias={3}" if len(inputs) > 3 else ""
    writer.add(node, f"attention({{0}}, {{1}}, {{2}}, scale={{scale}}{bias})", inputs, [scale])
    writer.made(node, straight(len(node.shape)))


def _pad(writer: KerasWriter, node: Node) -> None:
    value = writer.operand(node, 0)
    order = writer.orders[value]
    pads, rank, mode = node.get("pads"), len(node.shape), node.get("mode", "constant")
    begins, ends, filled = turned(pads[:rank], order), turned(pads[rank:], order), float(node.get("value", 0.0))
    spatial = not any((begins[0], begins[-1], ends[0], ends[-1])) and 3 <= rank <= 5
    if min(pads) < 0:
        raise CannotWrite("it pads one side and cuts another")
    if spatial and mode == "constant" and not filled:
        name = padded(writer, node, value, (*begins[1:-1], *ends[1:-1]))
        writer.steps.append(_alias(writer, node, name))
    else:
        pairs = tuple(zip(begins, ends, strict=True))
        settings = [Setting("pad_width", pairs), Setting("mode", mode), Setting("constant_values", filled)]
        more = ", constant_values={constant_values}" if filled else ""
        chosen = settings if filled else settings[:2]
        writer.add(node, f"ops.pad({{0}}, {{pad_width}}, mode={{mode}}{more})", [value], chosen)
    writer.made(node, order)


def _channel_shuffle(writer: KerasWriter, node: Node) -> None:
    value, (_, channels, *spatial), groups = writer.usual(node), node.shape, node.get("groups")
    rank = len(spatial)
    names = [writer.between(node.name) for _ in range(2)]
    _reshaped(writer, node, value, (1, *spatial, groups, channels // groups), value=names[0],
              path=writer.path(node, "split"))  # fmt: skip
    dims = (*range(1, rank + 1), rank + 2, rank + 1)
    writer.layer(node, "Permute", [Setting("dims", dims, positional=True)], [names[0]], value=names[1],
                 path=writer.path(node, "shuffle"))  # fmt: skip
    _reshaped(writer, node, names[1], (1, *spatial, channels), path=writer.path(node, "join"))
    writer.made(node, channels_last(len(node.shape)))


def _resize(writer: KerasWriter, node: Node) -> None:
    value, before = writer.usual(node), writer.graph.by_name[node.inputs[0]].shape
    mode = node.get("mode")
    usual = {"nearest": "asymmetric", "linear": "half_pixel"}.get(mode)
    factors = [after / given for after, given in zip(node.shape[2:], before[2:], strict=True)]
    if usual is None or node.get("coordinates", usual) != usual or any(factor % 1 for factor in factors):
        raise CannotWrite("Keras scales by whole factors, by the nearest pixel or linearly between centres")
    settings = [
        Setting("size", by_axis([int(factor) for factor in factors]), positional=True),
        Setting("interpolation", {"nearest": "nearest", "linear": "bilinear"}[mode], "nearest"),
    ]
    writer.layer(node, f"UpSampling{len(factors)}D", settings, [value])
    writer.made(node, channels_last(len(node.shape)))


def _l2_normalize(writer: KerasWriter, node: Node) -> None:
    value = writer.operand(node, 0)
    order = writer.orders[value]
    if abs(node.get("epsilon", 1e-12) - 1e-12) > 1e-15:
        raise CannotWrite("Keras normalises with another floor of the length")
    axes = tuple(sorted(order.index(axis) for axis in node.get("axes")))
    writer.layer(node, "UnitNormalization", [Setting("axis", axes if len(axes) > 1 else axes[0], -1)], [value])
    writer.made(node, order)


def _roll(writer: KerasWriter, node: Node) -> None:
    value = writer.operand(node, 0)
    order = writer.orders[value]
    axes = tuple(order.index(axis) for axis in node.get("axes"))
    settings = [Setting("shift", tuple(node.get("shifts"))), Setting("axis", axes)]
    writer.add(node, "ops.roll({0}, {shift}, axis={axis})", [value], settings)
    writer.made(node, order)


def _tile(writer: KerasWriter, node: Node) -> None:
    value = writer.operand(node, 0)
    order = writer.orders[value]
    settings = [Setting("repeats", turned(node.get("repeats"), order))]
    writer.add(node, "ops.tile({0}, {repeats})", [value], settings)
    writer.made(node, order)


OPERATIONS: Final[dict[str, Handler]] = {
    "relu": _activation("ReLU"),
    "relu6": _activation("ReLU", Setting("max_value", 6.0)),
    **{
        op: _named(function)
        for op, function in {
            "sigmoid": "sigmoid", "silu": "silu", "hard_swish": "hard_silu", "tanh": "tanh", "selu": "selu",
            "softplus": "softplus", "mish": "mish",
        }.items()
    },
    "hard_sigmoid": _hard_sigmoid,
    "elu": _with_option("ELU", "alpha", "alpha", 1.0, 1.0),
    "leaky_relu": _with_option("LeakyReLU", "alpha", "negative_slope", 0.01, 0.3),
    "prelu": _prelu,
    "gelu": _gelu,
    "clip": _clip,
    "softmax": _softmax,
    "log_softmax": _softmax,
    **dict.fromkeys(_MERGES, _merge),
    **{op: _unary(f"ops.{op}({{0}})") for op in (
        "abs", "exp", "log", "sqrt", "rsqrt", "square", "erf", "sin", "cos", "floor", "ceil", "round", "reciprocal",
    )},
    "neg": _unary("-{0}"),
    **dict.fromkeys(("mean", "sum", "max", "min", "prod", "argmax", "argmin"), _reduction),
    "concat": _concat,
    "slice": _slice,
    "reshape": _reshape,
    "transpose": _transpose,
    "matmul": _matmul,
    "attention": _attention,
    "pad": _pad,
    "channel_shuffle": _channel_shuffle,
    "resize": _resize,
    "l2_normalize": _l2_normalize,
    "roll": _roll,
    "tile": _tile,
}  # fmt: skip
