"""Files that ONNX Runtime saved on a CPU with blocked kernels (domain com.microsoft.nchwc).

Values lie in blocks of 8 or 16 channels, and where a layer has not as many channels its kernel is filled up with
zeros. Here values keep their own channels, and kernels are cut back to them. The size of the blocks is not in the
file, so the order of a kernel's numbers is unknown: its shape is read, its numbers are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.constants import Constant
from zoolens.findings.graph.importers.onnx.contributed import activated, finish_layer
from zoolens.findings.graph.importers.onnx.onnx_layers import LAYERS, convolve
from zoolens.findings.graph.importers.onnx.translation import OnnxCall
from zoolens.findings.graph.ir.model import Array, Shape
from zoolens.inventory.runtimes.onnx.onnx_file import OnnxNode
from zoolens.inventory.runtimes.onnx.onnx_values import attributes

DOMAIN: Final = "com.microsoft.nchwc"
_BLOCKS: Final = (16, 8)  # channels: as many as AVX-512, or AVX, has float32 numbers in a register
# Operators between a convolution and the place where its channels are named; all their values have the same channels.
_POINTWISE: Final = frozenset(
    {"Add", "Sum", "Mul", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid", "HardSwish", "QuickGelu"}
    | {"MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "Upsample", "Elu", "Softplus", "Gelu"}
)


def named_channels(nodes: Sequence[OnnxNode]) -> dict[str, int]:
    """How many channels tensors have that lead to a ReorderOutput, which names them."""
    channels: dict[str, int] = {}
    for node in reversed(nodes):
        if node.op == "ReorderOutput" and node.domain == DOMAIN:
            named = attributes(node).get("channels")
            channels.update({node.inputs[0]: named} if isinstance(named, int) else {})
        wanted = channels.get(node.outputs[0]) if node.outputs else None
        if wanted is None:
            continue
        if node.op in _POINTWISE:
            channels.update(dict.fromkeys(node.inputs, wanted))
        elif node.op == "Conv" and node.domain == DOMAIN and len(node.inputs) > 3:
            channels[node.inputs[3]] = wanted  # the sum that it adds to
    return channels


def _conv(call: OnnxCall) -> None:
    kernel = call.constant(1)
    bias = call.constant(2)
    if kernel is None or len(kernel.shape) != 4 or (bias is None and call.given(2) is not None):
        call.unknown("with a computed kernel")
        return
    out = _outputs(call, kernel)
    given = call.shape(0)[1]
    groups = call.get("group", 1)
    if call.integers("kernel_shape") is None and groups == kernel.shape[0]:
        _norm(call, kernel, bias, out)  # ONNX Runtime writes a norm as a convolution of single numbers
        return
    depthwise = groups > 1 and kernel.shape[1] == 1
    shape = (out, 1 if depthwise else given // groups, *kernel.shape[2:])
    cut = None if bias is None else _cut(bias, (out,))
    convolve(call, _unordered(kernel, shape), cut, groups=out if depthwise else groups)
    finish_layer(call, 3)


def _norm(call: OnnxCall, kernel: Constant, bias: Constant | None, out: int) -> None:
    roles = {
        "scale": _cut(kernel.reshaped((kernel.size,)), (out,)),
        "shift": None if bias is None else _cut(bias, (out,)),
    }
    learned = [call.state.parameter(role, values) for role, values in roles.items() if values is not None]
    call.answer(activated(call, call.add("affine", (call.live(0),), parameters=learned, axis=1)))


def _outputs(call: OnnxCall, kernel: Constant) -> int:
    """The channels that a convolution gives: as the file names them, else without those that are nothing but zeros."""
    named = call.state.channels.get(call.outputs[0])
    if named is not None and named <= kernel.shape[0]:
        return named
    addend = call.given(3)
    if isinstance(addend, str):
        return call.state.shape(addend)[1]
    if kernel.shape[0] == call.get("group", 1):
        return min(kernel.shape[0], call.shape(0)[1])
    return kernel.shape[0] - _filling(kernel)


def _filling(kernel: Constant) -> int:
    """Zero filters at the end. The filters of a block lie beside each other, so that they are columns of the block."""
    values = np.asarray(kernel.load()).ravel()
    inner = prod(kernel.shape[1:])
    for block in _BLOCKS:
        if kernel.shape[0] % block == 0:
            columns = np.asarray(values[-block * inner :].reshape(-1, block).any(axis=0))
            empty = int(np.argmax(columns[::-1])) if columns.any() else 0
            if empty:
                return empty
    return 0


def _cut(constant: Constant, shape: Shape) -> Constant:
    if constant.shape == shape:
        return constant
    return Constant(shape, constant.dtype, constant.key, lambda: constant.load()[: shape[0]])


def _unordered(kernel: Constant, shape: Shape) -> Constant:
    def load() -> Array:
        raise ModelError(
            f"The numbers of {kernel.key[:60]!r} are in the order of one CPU's kernels, which is not recorded.",
            hint="Save the model at the optimisation level EXTENDED, or use the file that it was made from.",
        )

    return Constant(shape, kernel.dtype, kernel.key, load)


def _same_value(call: OnnxCall) -> None:
    if call.get("channels_last", 0):
        back = call.node.op == "ReorderOutput"
        call.emit("transpose", (call.live(0),), perm=(0, 2, 3, 1) if back else (0, 3, 1, 2))
    else:
        call.answer(call.live(0))


def _upsample(call: OnnxCall) -> None:
    """Whole factors; a mode that is not "nearest" has the name of its rule."""
    scales = call.integers("scales") or []
    shape = tuple(extent * scale for extent, scale in zip(call.shape(0), scales, strict=True))
    mode = call.get("mode", "nearest")
    rule = call.get("coordinate_transformation_mode", "")
    coordinates = None if mode == "nearest" or rule in ("", "half_pixel") else rule[:40]
    call.emit("resize", (call.live(0),), shape=shape, axes="NCHW", mode=mode, coordinates=coordinates)


BLOCKED: Final[dict[str, Callable[[OnnxCall], None]]] = {
    "ReorderInput": _same_value,
    "ReorderOutput": _same_value,
    "Conv": _conv,
    "Upsample": _upsample,
    **{op: LAYERS[op] for op in ("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool")},
}
