"""Activations, arithmetic and arrangements of a draft for PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from zoolens.findings.graph.ir.model import Node
from zoolens.training.port.scaffolds.steps import Setting
from zoolens.training.port.scaffolds.torch_code import TorchWriter
from zoolens.training.port.scaffolds.writer import CannotWrite, by_axis

Handler = Callable[[TorchWriter, Node], None]
_SIGNS: Final = {"add": "+", "mul": "*", "sub": "-", "div": "/", "pow": "**"}


def _module(kind: str, *settings: Setting) -> Handler:
    return lambda writer, node: _activate(writer, node, kind, settings)


def _activate(writer: TorchWriter, node: Node, kind: str, settings: Sequence[Setting]) -> None:
    writer.layer(node, kind, settings, [writer.operand(node, 0)], label=node.op)


def _expression(pattern: str) -> Handler:
    def handle(writer: TorchWriter, node: Node) -> None:
        writer.add(node, pattern, [writer.operand(node, 0)])

    return handle


def _with_option(kind: str, keyword: str, usual: float) -> Handler:
    def handle(writer: TorchWriter, node: Node) -> None:
        _activate(writer, node, kind, [Setting(keyword, float(f"{node.get('alpha', usual):.6g}"), usual)])

    return handle


def _hard_sigmoid(writer: TorchWriter, node: Node) -> None:
    alpha, beta = float(node.get("alpha", 1 / 6)), float(node.get("beta", 0.5))
    if abs(alpha - 1 / 6) < 1e-6 and beta == 0.5:
        return _activate(writer, node, "Hardsigmoid", ())
    settings = [Setting("alpha", alpha), Setting("beta", beta)]
    writer.add(node, "({0} * {alpha} + {beta}).clamp(0, 1)", [writer.operand(node, 0)], settings)
    return None


def _gelu(writer: TorchWriter, node: Node) -> None:
    kind = node.get("approximate")
    if kind == "quick":
        return _expression("{0} * torch.sigmoid(1.702 * {0})")(writer, node)
    return _activate(writer, node, "GELU", [Setting("approximate", kind or "none", "none")])


def _clip(writer: TorchWriter, node: Node) -> None:
    bounds = [("min", node.get("low")), ("max", node.get("high"))]
    settings = [Setting(name, float(bound)) for name, bound in bounds if bound is not None]
    given = ", ".join(f"{setting.keyword}={{{setting.keyword}}}" for setting in settings)
    writer.add(node, f"{{0}}.clamp({given})", [writer.operand(node, 0)], settings)


def _prelu(writer: TorchWriter, node: Node) -> None:
    alpha = node.parameter("alpha")
    if alpha is None or alpha.size not in (1, node.shape[1]):
        raise CannotWrite("its slopes are not one for each channel")
    writer.layer(node, "PReLU", [Setting("num_parameters", alpha.size, 1)], [writer.operand(node, 0)])


def _softmax(writer: TorchWriter, node: Node) -> None:
    axis = node.get("axis")
    given = Setting("dim", -1 if axis == len(node.shape) - 1 else axis)
    writer.layer(node, "Softmax" if node.op == "softmax" else "LogSoftmax", [given], [writer.operand(node, 0)])


def _merge(writer: TorchWriter, node: Node) -> None:
    sign = _SIGNS.get(node.op)
    if len(node.inputs) > 1:
        pattern = f"{{0}} {sign} {{1}}" if sign else f"torch.{node.op}({{0}}, {{1}})"
        writer.add(node, pattern, writer.operands(node))
        return
    number = Setting("scalar", float(node.get("scalar")))
    bound = {"maximum": "min", "minimum": "max"}.get(node.op)
    pattern = f"{{0}} {sign} {{scalar}}" if sign else f"{{0}}.clamp({bound}={{scalar}})"
    if node.get("reverse") and sign:
        pattern = f"{{scalar}} {sign} {{0}}"
    writer.add(node, pattern, [writer.operand(node, 0)], [number])


def _reduction(function: str) -> Handler:
    def handle(writer: TorchWriter, node: Node) -> None:
        axes = node.get("axes")
        if function == "prod" and len(axes) > 1:
            raise CannotWrite("PyTorch multiplies along one axis")
        settings = [Setting("dim", by_axis(axes) if len(axes) == 1 else tuple(axes))]
        kept = ", keepdim=True" if node.get("keep") else ""
        writer.add(node, f"{{0}}.{function}(dim={{dim}}{kept})", [writer.operand(node, 0)], settings)

    return handle


def _concat(writer: TorchWriter, node: Node) -> None:
    inputs = writer.operands(node)
    given = ", ".join(f"{{{place}}}" for place in range(len(inputs)))
    settings = [Setting("dim", int(node.get("axis")))]
    writer.add(node, f"torch.cat([{given}], dim={{dim}})", inputs, settings)
    writer.movable(node.name)


def _slice(writer: TorchWriter, node: Node) -> None:
    axis, extent = node.get("axis"), writer.graph.by_name[node.inputs[0]].shape[node.get("axis")]
    start, stop, step = int(node.get("start")), int(node.get("stop")), int(node.get("step", 1))
    first, last = "{start}" if start else "", "{stop}" if stop < extent else ""
    settings = [Setting("start", start, family="width")] if start else []
    settings += [Setting("stop", stop, family="width")] if stop < extent else []
    stepped = f":{step}" if step != 1 else ""
    pattern = f"{{0}}[{':, ' * axis}{first}:{last}{stepped}]"
    writer.add(node, pattern, [writer.operand(node, 0)], settings)


def _reshape(writer: TorchWriter, node: Node) -> None:
    shape = (-1, *node.shape[1:]) if -1 not in node.shape else node.shape
    writer.add(node, "{0}.reshape({shape})", [writer.operand(node, 0)], [Setting("shape", tuple(shape))])


def _flatten(writer: TorchWriter, node: Node) -> None:
    """Behind a plain flatten the numbers are in PyTorch's order, and so are the inputs of a dense layer."""
    order, value = str(node.get("order") or ""), writer.operand(node, 0)
    before = writer.graph.by_name[node.inputs[0]].shape
    plain = "NC" + order.replace("N", "").replace("C", "")
    if order and order != plain and not writer.feeds_dense(node) and max(before[2:], default=1) > 1:
        dims = tuple(plain.index(letter) for letter in order)
        settings = [Setting("dims", dims)]
        writer.add(node, "{0}.permute({dims}).flatten(1)", [value], settings)
        return
    writer.layer(node, "Flatten", [], [value])


def _transpose(writer: TorchWriter, node: Node) -> None:
    settings = [Setting("dims", tuple(int(axis) for axis in node.get("perm")))]
    writer.add(node, "{0}.permute({dims})", [writer.operand(node, 0)], settings)


def _expand(writer: TorchWriter, node: Node) -> None:
    shape = tuple(-1 if place == 0 else extent for place, extent in enumerate(node.shape))
    writer.add(node, "{0}.expand({shape})", [writer.operand(node, 0)], [Setting("shape", shape)])


def _matmul(writer: TorchWriter, node: Node) -> None:
    texts = [
        f"{{{place}}}.transpose(-2, -1)" if node.get(key) else f"{{{place}}}"
        for place, key in enumerate(("transpose_a", "transpose_b"))
    ]
    writer.add(node, " @ ".join(texts), writer.operands(node))


def _attention(writer: TorchWriter, node: Node) -> None:
    inputs = writer.operands(node)
    wide = writer.graph.by_name[node.inputs[0]].shape[-1]
    scale = float(f"{node.get('scale') or wide**-0.5:.9g}")
    usual = abs(scale - wide**-0.5) < 1e-9
    settings = [] if usual else [Setting("scale", scale)]
    more = "" if usual else ", scale={scale}"
    more += ", is_causal=True" if node.get("causal") else ""
    bias = ", attn_mask={3}" if len(inputs) > 3 else ""
    writer.add(node, f"F.scaled_dot_product_attention({{0}}, {{1}}, {{2}}{bias}{more})", inputs, settings)


def _pad(writer: TorchWriter, node: Node) -> None:
    value, pads, rank, mode = writer.operand(node, 0), node.get("pads"), len(node.shape), node.get("mode", "constant")
    begins, ends = pads[:rank], pads[rank:]
    first = next((axis for axis in range(rank) if begins[axis] or ends[axis]), rank)
    filled = float(node.get("value", 0.0))
    pairs = [int(pad) for axis in reversed(range(first, rank)) for pad in (begins[axis], ends[axis])]
    settings = [Setting("pad", tuple(pairs))]
    more = ""
    if mode != "constant":
        settings.append(Setting("mode", {"edge": "replicate"}.get(mode, mode)))
        more = ", mode={mode}"
    elif filled:
        settings.append(Setting("value", filled))
        more = ", value={value}"
    writer.add(node, f"F.pad({{0}}, {{pad}}{more})", [value], settings, label="pad")


def _channel_shuffle(writer: TorchWriter, node: Node) -> None:
    settings = [Setting("groups", int(node.get("groups")), positional=True)]
    writer.layer(node, "ChannelShuffle", settings, [writer.operand(node, 0)])


def _resize(writer: TorchWriter, node: Node) -> None:
    mode, rank = node.get("mode"), len(node.shape) - 2
    usual = {"nearest": "asymmetric", "linear": "half_pixel", "cubic": "half_pixel"}.get(mode)
    coordinates = node.get("coordinates", usual)
    if usual is None or coordinates not in (usual, "align_corners") or not 1 <= rank <= 3:
        raise CannotWrite("PyTorch has no such rule for the places of pixels")
    name = (
        mode
        if mode == "nearest"
        else {"linear": ("linear", "bilinear", "trilinear")[rank - 1], "cubic": "bicubic"}[mode]
    )
    settings = [Setting("size", tuple(node.shape[2:])), Setting("mode", name)]
    corners = ", align_corners=True" if coordinates == "align_corners" else ""
    pattern = f"F.interpolate({{0}}, size={{size}}, mode={{mode}}{corners})"
    writer.add(node, pattern, [writer.operand(node, 0)], settings)


def _l2_normalize(writer: TorchWriter, node: Node) -> None:
    axes = node.get("axes")
    if len(axes) != 1:
        raise CannotWrite("PyTorch normalises along one axis")
    settings = [Setting("dim", int(axes[0])), Setting("eps", float(node.get("epsilon", 1e-12)))]
    writer.add(node, "F.normalize({0}, dim={dim}, eps={eps})", [writer.operand(node, 0)], settings)


def _lrn(writer: TorchWriter, node: Node) -> None:
    settings = [Setting("size", int(node.get("size")), positional=True)]
    settings += [
        Setting(keyword, float(f"{node.get(attribute, default):.6g}"), default)
        for keyword, attribute, default in (("alpha", "alpha", 1e-4), ("beta", "beta", 0.75), ("k", "bias", 1.0))
    ]
    writer.layer(node, "LocalResponseNorm", settings, [writer.operand(node, 0)])


def _roll(writer: TorchWriter, node: Node) -> None:
    settings = [Setting("shifts", tuple(node.get("shifts"))), Setting("dims", tuple(node.get("axes")))]
    writer.add(node, "torch.roll({0}, {shifts}, dims={dims})", [writer.operand(node, 0)], settings)


def _tile(writer: TorchWriter, node: Node) -> None:
    settings = [Setting("repeats", tuple(node.get("repeats")))]
    writer.add(node, "{0}.repeat({repeats})", [writer.operand(node, 0)], settings)


OPERATIONS: Final[dict[str, Handler]] = {
    **{
        op: _module(kind)
        for op, kind in {
            "relu": "ReLU", "relu6": "ReLU6", "sigmoid": "Sigmoid", "silu": "SiLU", "hard_swish": "Hardswish",
            "tanh": "Tanh", "selu": "SELU", "softplus": "Softplus", "mish": "Mish",
        }.items()
    },
    "hard_sigmoid": _hard_sigmoid,
    "elu": _with_option("ELU", "alpha", 1.0),
    "leaky_relu": _with_option("LeakyReLU", "negative_slope", 0.01),
    "prelu": _prelu,
    "gelu": _gelu,
    "clip": _clip,
    "softmax": _softmax,
    "log_softmax": _softmax,
    **dict.fromkeys((*_SIGNS, "maximum", "minimum"), _merge),
    **{op: _expression(f"{{0}}.{op}()") for op in (
        "abs", "neg", "exp", "log", "sqrt", "rsqrt", "square", "erf", "sin", "cos", "floor", "ceil", "round",
        "reciprocal",
    )},
    **{op: _reduction(function) for op, function in
       (("mean", "mean"), ("sum", "sum"), ("max", "amax"), ("min", "amin"), ("prod", "prod"), ("argmax", "argmax"),
        ("argmin", "argmin"))},
    "concat": _concat,
    "slice": _slice,
    "reshape": _reshape,
    "flatten": _flatten,
    "transpose": _transpose,
    "expand": _expand,
    "matmul": _matmul,
    "attention": _attention,
    "pad": _pad,
    "channel_shuffle": _channel_shuffle,
    "resize": _resize,
    "l2_normalize": _l2_normalize,
    "lrn": _lrn,
    "roll": _roll,
    "tile": _tile,
}  # fmt: skip
