"""Small ONNX networks of three families with random weights: convolutional, transformer and recurrent ones.

They are written by the `onnx` package, so that nothing of ours decides what the files say. Every network ends in ten
logits. `FAMILIES` names them; each is made by `Drawn`, which draws weights from the name of the tensor.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
CLASSES: Final = 10
VOCABULARY: Final = 40
TOKENS: Final = 8
WIDTH: Final = 16
HEADS: Final = 4
STEPS: Final = 6
FEATURES: Final = 8


class Drawn:
    """Collects nodes and tensors of one network."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[Any] = []
        self.tensors: dict[str, Array] = {}

    def weight(self, name: str, *shape: int, scale: float = 1.0) -> str:
        generator = np.random.default_rng([zlib.crc32(self.name.encode()), zlib.crc32(name.encode())])
        width = np.prod(shape[1:]) if len(shape) > 1 else 1.0
        values = scale * generator.standard_normal(shape) / np.sqrt(width)
        return self.constant(name, values.astype(np.float32))

    def positive(self, name: str, *shape: int) -> str:
        generator = np.random.default_rng([zlib.crc32(self.name.encode()), zlib.crc32(name.encode())])
        return self.constant(name, generator.uniform(0.5, 1.5, shape).astype(np.float32))

    def constant(self, name: str, values: Any) -> str:
        self.tensors[name] = np.asarray(values)
        return name

    def node(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        import onnx.helper

        outputs = output.split(",")
        self.nodes.append(onnx.helper.make_node(op, inputs, outputs, name=f"{outputs[0]}_node", **attributes))
        return outputs[0]

    def model(self, given: tuple[str, int, tuple[int | str, ...]], result: str, opset: int = 17) -> Any:
        import onnx
        import onnx.helper
        import onnx.numpy_helper

        name, kind, shape = given
        graph = onnx.helper.make_graph(
            self.nodes,
            self.name,
            [onnx.helper.make_tensor_value_info(name, kind, shape)],
            [onnx.helper.make_tensor_value_info(result, onnx.TensorProto.FLOAT, ["batch", CLASSES])],
            initializer=[onnx.numpy_helper.from_array(values, key) for key, values in self.tensors.items()],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8)
        onnx.checker.check_model(model)
        return model


# --- convolutional


def _conv(net: Drawn, given: str, name: str, channels: tuple[int, int], size: int = 3, **attributes: Any) -> str:
    before, after = channels
    groups = attributes.get("group", 1)
    kernel = net.weight(f"{name}.weight", after, before // groups, size, size)
    bias = net.weight(f"{name}.bias", after, scale=0.1)
    pads = attributes.pop("pads", [size // 2] * 4)
    return net.node("Conv", [given, kernel, bias], name, kernel_shape=[size, size], pads=pads, **attributes)


def _batch_norm(net: Drawn, given: str, name: str, channels: int) -> str:
    parts = [net.positive(f"{name}.scale", channels), net.weight(f"{name}.shift", channels, scale=0.1)]
    parts += [net.weight(f"{name}.mean", channels, scale=0.1), net.positive(f"{name}.variance", channels)]
    return net.node("BatchNormalization", [given, *parts], name, epsilon=1e-5)


def _head(net: Drawn, given: str, width: int) -> str:
    pooled = net.node("GlobalAveragePool", [given], "pooled")
    flat = net.node("Flatten", [pooled], "flat")
    kernel = net.weight("head.weight", CLASSES, width)
    return net.node("Gemm", [flat, kernel, net.weight("head.bias", CLASSES)], "logits", transB=1)


def plain_cnn() -> Any:
    """Norms, pools of several kinds, a resize and a depthwise convolution."""
    net = Drawn("plain-cnn")
    x = _batch_norm(net, _conv(net, "image", "c1", (3, 8)), "n1", 8)
    x = net.node("Relu", [x], "r1")
    x = net.node("MaxPool", [x], "p1", kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1])
    x = net.node("LeakyRelu", [_conv(net, x, "c2", (8, 8))], "r2", alpha=0.1)
    net.constant("sizes", np.array([1, 1, 2, 2], np.float32))
    x = net.node("Resize", [x, "", "sizes"], "up", mode="linear", coordinate_transformation_mode="half_pixel")
    x = net.node("Elu", [_conv(net, x, "c3", (8, 8), group=8)], "r3", alpha=1.0)
    x = net.node("AveragePool", [x], "p2", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    x = net.node("HardSwish", [_conv(net, x, "c4", (8, 12), size=1)], "r4")
    return net.model(("image", 1, ("batch", 3, 16, 16)), _head(net, x, 12))


def residual_cnn() -> Any:
    """Residual adds, squeeze and excitation, a group norm, a PReLU and a transposed convolution."""
    net = Drawn("residual-cnn")
    x = net.node("Relu", [_conv(net, "image", "stem", (3, 8), strides=[2, 2])], "r0")
    y = net.node("Relu", [_batch_norm(net, _conv(net, x, "b1", (8, 8)), "n1", 8)], "r1")
    y = _batch_norm(net, _conv(net, y, "b2", (8, 8)), "n2", 8)
    squeezed = net.node("GlobalAveragePool", [y], "squeezed")
    gate = net.node("Relu", [_conv(net, squeezed, "se1", (8, 4), size=1)], "se1r")
    gate = net.node("Sigmoid", [_conv(net, gate, "se2", (4, 8), size=1)], "gate")
    y = net.node("Mul", [y, gate], "gated")
    x = net.node("Relu", [net.node("Add", [x, y], "sum1")], "r2")
    slope = net.constant("slope", np.linspace(0.1, 0.4, 8, dtype=np.float32).reshape(8, 1, 1))
    x = net.node("PRelu", [_conv(net, x, "b3", (8, 8), dilations=[2, 2], pads=[2, 2, 2, 2]), slope], "r3")
    parts = [net.positive("in.scale", 8), net.weight("in.shift", 8, scale=0.1)]
    x = net.node("InstanceNormalization", [x, *parts], "inorm", epsilon=1e-3)
    kernel = net.weight("up.weight", 8, 6, 2, 2)
    x = net.node("ConvTranspose", [x, kernel, net.weight("up.bias", 6)], "up", kernel_shape=[2, 2], strides=[2, 2])
    return net.model(("image", 1, ("batch", 3, 16, 16)), _head(net, net.node("Softplus", [x], "r4"), 6))


def dense_cnn() -> Any:
    """Concatenations, and operators that few networks have: GatherElements, TopK and a cubic resize."""
    net = Drawn("dense-cnn")
    x = net.node("Relu", [_conv(net, "image", "c1", (3, 6))], "r1")
    y = net.node("Tanh", [_conv(net, x, "c2", (6, 6))], "r2")
    x = net.node("Concat", [x, y], "joined", axis=1)
    order = np.array([3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8])
    net.constant("order", np.tile(order.reshape(1, 12, 1, 1), (1, 1, 16, 16)))
    x = net.node("GatherElements", [x, "order"], "shuffled", axis=1)
    x = net.node("Relu", [_conv(net, x, "c3", (12, 8), strides=[2, 2])], "r3")
    net.constant("sizes", np.array([1, 1, 1.5, 1.5], np.float32))
    x = net.node("Resize", [x, "", "sizes"], "up", mode="cubic", coordinate_transformation_mode="align_corners")
    x = net.node("Relu", [_conv(net, x, "c4", (8, 8))], "r4")
    net.constant("flatten", np.array([0, 8, -1]))
    net.constant("five", np.array([5]))
    flat = net.node("Reshape", [x, "flatten"], "places")
    best = net.node("TopK", [flat, "five"], "best,where", axis=2)
    x = net.node("ReduceMean", [best], "mean", axes=[2], keepdims=0)
    kernel = net.weight("head.weight", CLASSES, 8)
    return net.model(
        ("image", 1, ("batch", 3, 16, 16)),
        net.node("Gemm", [x, kernel, net.weight("head.bias", CLASSES)], "logits", transB=1),
    )


# --- transformer


def _dense(net: Drawn, given: str, name: str, before: int, after: int) -> str:
    product = net.node("MatMul", [given, net.weight(f"{name}.weight", before, after)], f"{name}.product")
    return net.node("Add", [product, net.weight(f"{name}.bias", after, scale=0.1)], name)


def _layer_norm(net: Drawn, given: str, name: str) -> str:
    parts = [net.positive(f"{name}.scale", WIDTH), net.weight(f"{name}.shift", WIDTH, scale=0.1)]
    return net.node("LayerNormalization", [given, *parts], name, axis=-1, epsilon=1e-5)


def _written_norm(net: Drawn, given: str, name: str) -> str:
    """A norm as exporters before opset 17 write it."""
    net.constant("two", np.float32(2))
    net.constant("epsilon", np.float32(1e-5))
    mean = net.node("ReduceMean", [given], f"{name}.mean", axes=[-1])
    centred = net.node("Sub", [given, mean], f"{name}.centred")
    variance = net.node("ReduceMean", [net.node("Pow", [centred, "two"], f"{name}.squares")], f"{name}.var", axes=[-1])
    root = net.node("Sqrt", [net.node("Add", [variance, "epsilon"], f"{name}.safe")], f"{name}.root")
    scaled = net.node("Mul", [net.node("Div", [centred, root], f"{name}.normed"), net.positive(f"{name}.scale", WIDTH)],
                      f"{name}.scaled")  # fmt: skip
    return net.node("Add", [scaled, net.weight(f"{name}.shift", WIDTH, scale=0.1)], name)


def _attention(net: Drawn, given: str, name: str, mask: str = "") -> str:
    net.constant("heads", np.array([0, 0, HEADS, WIDTH // HEADS]))
    net.constant("whole", np.array([0, 0, WIDTH]))
    net.constant("root", np.float32(np.sqrt(WIDTH // HEADS)))
    parts = {}
    for part, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        value = _dense(net, given, f"{name}.{part}", WIDTH, WIDTH)
        split = net.node("Reshape", [value, "heads"], f"{name}.{part}.heads")
        parts[part] = net.node("Transpose", [split], f"{name}.{part}.turned", perm=perm)
    scores = net.node("MatMul", [parts["q"], parts["k"]], f"{name}.scores")
    scores = net.node("Div", [scores, "root"], f"{name}.scaled")
    if mask:
        scores = net.node("Add", [scores, mask], f"{name}.masked")
    weights = net.node("Softmax", [scores], f"{name}.weights", axis=-1)
    mixed = net.node("MatMul", [weights, parts["v"]], f"{name}.mixed")
    turned = net.node("Transpose", [mixed], f"{name}.back", perm=[0, 2, 1, 3])
    return _dense(net, net.node("Reshape", [turned, "whole"], f"{name}.joined"), f"{name}.o", WIDTH, WIDTH)


def _gelu(net: Drawn, given: str, name: str) -> str:
    net.constant("sqrt2", np.float32(np.sqrt(2)))
    net.constant("one", np.float32(1))
    net.constant("half", np.float32(0.5))
    error = net.node("Erf", [net.node("Div", [given, "sqrt2"], f"{name}.div")], f"{name}.erf")
    product = net.node("Mul", [given, net.node("Add", [error, "one"], f"{name}.add")], f"{name}.mul")
    return net.node("Mul", [product, "half"], name)


def _block(net: Drawn, x: str, name: str, mask: str = "", norm: Callable[..., str] = _layer_norm) -> str:
    """Norms behind the additions, as BERT has them."""
    y = _attention(net, x, f"{name}.attn", mask)
    x = norm(net, net.node("Add", [x, y], f"{name}.sum1"), f"{name}.norm1")
    y = _gelu(net, _dense(net, x, f"{name}.up", WIDTH, 2 * WIDTH), f"{name}.gelu")
    y = _dense(net, y, f"{name}.down", 2 * WIDTH, WIDTH)
    return norm(net, net.node("Add", [x, y], f"{name}.sum2"), f"{name}.norm2")


def _padding_mask(net: Drawn) -> str:
    """Minus ten thousand where the token is 0."""
    net.constant("zero", np.array(0))
    net.constant("low", np.float32(-1e4))
    net.constant("none", np.float32(0))
    net.constant("axes12", np.array([1, 2]))
    empty = net.node("Equal", ["tokens", "zero"], "empty")
    mask = net.node("Where", [empty, "low", "none"], "mask")
    return net.node("Unsqueeze", [mask, "axes12"], "mask4")


def _first_token(net: Drawn, x: str) -> str:
    net.constant("first", np.array(0))
    x = net.node("Gather", [x, "first"], "cls", axis=1)
    return net.node("Gemm", [x, net.weight("head.weight", WIDTH, CLASSES), net.weight("head.bias", CLASSES)], "logits")


def bert() -> Any:
    """Two blocks behind an embedding; both extents of the tokens are open, as exporters leave them."""
    net = Drawn("bert")
    mask = _padding_mask(net)
    x = net.node("Gather", [net.weight("words", VOCABULARY, WIDTH, scale=4), "tokens"], "words.rows")
    net.weight("positions", TOKENS + 2, WIDTH, scale=2)
    length = net.node("Shape", ["tokens"], "length", start=1, end=2)
    net.constant("zeros1", np.array([0]))
    net.constant("axis0", np.array([0]))
    rows = net.node("Slice", ["positions", "zeros1", length, "axis0"], "positions.rows")
    x = _layer_norm(net, net.node("Add", [x, rows], "embedded"), "norm0")
    x = _block(net, _block(net, x, "l0", mask), "l1", mask)
    return net.model(("tokens", 7, ("batch", "sequence")), _first_token(net, x))


def roberta() -> Any:
    """Positions that a cumulative sum counts, norms written out, one block."""
    net = Drawn("roberta")
    mask = _padding_mask(net)
    net.constant("axis1", np.array(1))
    full = net.node("Cast", [net.node("Not", ["empty"], "full")], "ones", to=7)
    counted = net.node("Mul", [net.node("CumSum", [full, "axis1"], "counted"), full], "places")
    x = net.node("Gather", [net.weight("words", VOCABULARY, WIDTH, scale=4), "tokens"], "words.rows")
    rows = net.node("Gather", [net.weight("positions", TOKENS + 2, WIDTH, scale=2), counted], "positions.rows")
    x = _written_norm(net, net.node("Add", [x, rows], "embedded"), "norm0")
    x = _block(net, x, "l0", mask, _written_norm)
    return net.model(("tokens", 7, ("batch", "sequence")), _first_token(net, x))


def decoder() -> Any:
    """A causal mask by Trilu, norms before the layers, and the mean of all tokens."""
    net = Drawn("decoder")
    net.constant("lows", np.full((1, 1, TOKENS, TOKENS), -1e4, np.float32))
    net.constant("diagonal", np.array(1))
    mask = net.node("Trilu", ["lows", "diagonal"], "causal", upper=1)
    x = net.node("Gather", [net.weight("words", VOCABULARY, WIDTH, scale=4), "tokens"], "words.rows")
    x = net.node("Add", [x, net.weight("positions", TOKENS, WIDTH, scale=2)], "embedded")
    x = net.node("Add", [x, _attention(net, _layer_norm(net, x, "l0.norm1"), "l0.attn", mask)], "l0.sum1")
    y = _gelu(net, _dense(net, _layer_norm(net, x, "l0.norm2"), "l0.up", WIDTH, 2 * WIDTH), "l0.gelu")
    x = net.node("Add", [x, _dense(net, y, "l0.down", 2 * WIDTH, WIDTH)], "l0.sum2")
    x = net.node("ReduceMean", [_layer_norm(net, x, "norm")], "mean", axes=[1], keepdims=0)
    head = [net.weight("head.weight", WIDTH, CLASSES), net.weight("head.bias", CLASSES)]
    return net.model(("tokens", 7, ("batch", TOKENS)), net.node("Gemm", [x, *head], "logits"))


# --- recurrent


def _cell(net: Drawn, op: str, given: str, name: str, before: int, hidden: int, **attributes: Any) -> tuple[str, str]:
    """A recurrent layer with its outputs: all states, and the last one."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    ways = 2 if attributes.get("direction") == "bidirectional" else 1
    scale = np.sqrt(gates * hidden)  # of a third axis: the product of the last two is what `weight` divides by
    inputs = [given, net.weight(f"{name}.W", ways, gates * hidden, before, scale=scale),
              net.weight(f"{name}.R", ways, gates * hidden, hidden, scale=scale),
              net.weight(f"{name}.B", ways, 2 * gates * hidden, scale=0.3 * np.sqrt(2) * scale)]  # fmt: skip
    states = attributes.pop("states", [])
    outputs = f"{name},{name}.last" + (f",{name}.cell" if op == "LSTM" else "")
    net.node(op, [*inputs, *states], outputs, hidden_size=hidden, **attributes)
    return name, f"{name}.last"


def _steps_first(net: Drawn) -> str:
    return net.node("Transpose", ["series"], "steps", perm=[1, 0, 2])


def _last_state(net: Drawn, last: str, width: int) -> str:
    net.constant("flat2", np.array([-1, width]))
    turned = net.node("Transpose", [last], "turned", perm=[1, 0, 2])
    x = net.node("Reshape", [turned, "flat2"], "state")
    return net.node("Gemm", [x, net.weight("head.weight", CLASSES, width), net.weight("head.bias", CLASSES)], "logits",
                    transB=1)  # fmt: skip


def lstm() -> Any:
    """Two layers, of which the second gets all states of the first; initial states that were learned."""
    net = Drawn("lstm")
    h, c = (net.weight(name, 1, 1, 8, scale=2) for name in ("h0", "c0"))
    states, _ = _cell(net, "LSTM", _steps_first(net), "lstm1", FEATURES, 8, states=["", h, c])
    net.constant("axis1v", np.array([1]))
    x = net.node("Squeeze", [states, "axis1v"], "states")
    _, last = _cell(net, "LSTM", x, "lstm2", 8, 8)
    return net.model(("series", 1, ("batch", "steps", FEATURES)), _last_state(net, last, 8))


def bidirectional_gru() -> Any:
    """Both directions, as torch exports them (the state is multiplied before it is reset)."""
    net = Drawn("bidirectional-gru")
    _, last = _cell(net, "GRU", _steps_first(net), "gru", FEATURES, 6, direction="bidirectional", linear_before_reset=1)
    return net.model(("series", 1, ("batch", STEPS, FEATURES)), _last_state(net, last, 12))


def mixed_recurrent() -> Any:
    """A convolution over time, a GRU that resets first, a reversed RNN with a ReLU, and a mean over time."""
    net = Drawn("mixed-recurrent")
    turned = net.node("Transpose", ["series"], "channels", perm=[0, 2, 1])
    kernel = net.weight("conv.weight", 8, FEATURES, 3)
    x = net.node("Conv", [turned, kernel, net.weight("conv.bias", 8)], "conv", kernel_shape=[3], pads=[1, 1])
    x = net.node("Transpose", [net.node("Relu", [x], "relu")], "steps", perm=[2, 0, 1])
    net.constant("axis1v", np.array([1]))
    states, _ = _cell(net, "GRU", x, "gru", 8, 8)
    x = net.node("Squeeze", [states, "axis1v"], "gru.states")
    states, _ = _cell(net, "RNN", x, "rnn", 8, 8, direction="reverse", activations=["Relu"])
    x = net.node("ReduceMean", [net.node("Squeeze", [states, "axis1v"], "rnn.states")], "mean", axes=[0], keepdims=0)
    head = [net.weight("head.weight", CLASSES, 8), net.weight("head.bias", CLASSES)]
    return net.model(("series", 1, ("batch", STEPS, FEATURES)), net.node("Gemm", [x, *head], "logits", transB=1))


FAMILIES: Final[Mapping[str, Mapping[str, Callable[[], Any]]]] = {
    "convolutional": {"plain": plain_cnn, "residual": residual_cnn, "dense": dense_cnn},
    "transformer": {"bert": bert, "roberta": roberta, "decoder": decoder},
    "recurrent": {"lstm": lstm, "gru": bidirectional_gru, "mixed": mixed_recurrent},
}
