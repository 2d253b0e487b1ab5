"""Damages to the small networks: each changes one thing in a file and says at which operator it did.

A damage is known by the output tensors of the operators that may be named for it: of a norm that was written out, or
of a head's layout, several operators are the same layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Change = Callable[[Any], None]  # of the model, in place


@dataclass(frozen=True)
class NetworkDamage:
    family: str
    network: str
    kind: str
    change: Change
    tensors: frozenset[str]  # outputs of operators that are the damaged layer


# --- how a file is changed


def weights(name: str, change: Callable[[Array], Array]) -> Change:
    def apply(model: Any) -> None:
        import onnx.numpy_helper

        stored = next(tensor for tensor in model.graph.initializer if tensor.name == name)
        values = onnx.numpy_helper.to_array(stored)
        changed = np.ascontiguousarray(change(values.copy()), values.dtype).reshape(values.shape)
        assert not np.array_equal(changed, values), f"{name} is not changed"
        stored.CopyFrom(onnx.numpy_helper.from_array(changed, name))

    return apply


def swapped(first: str, second: str) -> Change:
    def apply(model: Any) -> None:
        stored = {tensor.name: tensor for tensor in model.graph.initializer}
        assert list(stored[first].dims) == list(stored[second].dims)
        stored[first].name, stored[second].name = second, first

    return apply


def _node(model: Any, output: str) -> Any:
    return next(node for node in model.graph.node if output in node.output)


def attributes(output: str, op: str | None = None, **changes: Any) -> Change:
    """Other attributes, or another operator with these attributes alone."""

    def apply(model: Any) -> None:
        import onnx.helper

        node = _node(model, output)
        kept = [part for part in node.attribute if part.name not in changes and op is None]
        made = [onnx.helper.make_attribute(name, value) for name, value in changes.items()]
        del node.attribute[:]
        node.attribute.extend([*kept, *made])
        node.op_type = op or node.op_type

    return apply


def left_out(output: str) -> Change:
    """Removes the operator: consumers of its output get its first input."""

    def apply(model: Any) -> None:
        node = _node(model, output)
        for other in model.graph.node:
            for place, name in enumerate(other.input):
                if name == output:
                    other.input[place] = node.input[0]
        model.graph.node.remove(node)

    return apply


def one_channel(values: Array) -> Array:
    """A hundredth more in one place of the first axis that has several."""
    axis = next(axis for axis, extent in enumerate(values.shape) if extent > 1)
    values[(slice(None),) * axis + (1,)] *= 1.01
    return values


def zeroed(values: Array) -> Array:
    axis = next(axis for axis, extent in enumerate(values.shape) if extent > 1)
    values[(slice(None),) * axis + (2,)] = 0
    return values


def in_half(values: Array) -> Array:
    return values.astype(np.float16)


def in_bfloat16(values: Array) -> Array:
    return (np.ascontiguousarray(values).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def in_int8(values: Array) -> Array:
    step = np.abs(values).max() / 127
    return np.asarray(np.round(values / step) * step)


def scaled(factor: float) -> Callable[[Array], Array]:
    return lambda values: values * factor


def turned(values: Array) -> Array:
    return values.swapaxes(-1, -2)


def first_rows_last(values: Array) -> Array:
    """A table of positions that is off by one."""
    return np.roll(values, 1, axis=0)


def gates_permuted(gates: int) -> Callable[[Array], Array]:
    def permute(values: Array) -> Array:
        parts = np.split(values, gates, axis=1)
        return np.concatenate([parts[1], parts[0], *parts[2:]], axis=1)

    return permute


def heads_permuted(values: Array) -> Array:
    """The columns of two heads of four change places."""
    parts = np.split(values, 4, axis=1)
    return np.concatenate([parts[1], parts[0], *parts[2:]], axis=1)


# --- the damages


def _listed(family: str, network: str, rows: dict[str, tuple[Change, str]]) -> Iterator[NetworkDamage]:
    for kind, (change, tensors) in rows.items():
        yield NetworkDamage(family, network, kind, change, frozenset(tensors.split()))


def _convolutional() -> Iterator[NetworkDamage]:
    yield from _listed(
        "convolutional",
        "plain",
        {
            "1 % in one channel": (weights("c2.weight", one_channel), "c2"),
            "kernel scaled by 1.01": (weights("c3.weight", scaled(1.01)), "c3"),
            "zeroed channel": (weights("c4.weight", zeroed), "c4"),
            "kernel turned": (weights("c2.weight", turned), "c2"),
            "bias of one channel 1 %": (weights("c1.bias", one_channel), "c1 n1"),
            "epsilon": (attributes("n1", epsilon=1e-3), "c1 n1"),
            "alpha of LeakyReLU": (attributes("r2", alpha=0.11), "r2"),
            "padding moved": (attributes("c2", pads=[0, 0, 2, 2]), "c2"),
            "other activation": (attributes("r1", "LeakyRelu", alpha=0.01), "r1"),
            "resize nearest": (attributes("up", mode="nearest"), "up"),
            "resize asymmetric": (attributes("up", coordinate_transformation_mode="asymmetric"), "up"),
            "padding counted": (attributes("p2", count_include_pad=1), "p2"),
            "another window, same output": (attributes("p1", kernel_shape=[2, 2], pads=[0, 0, 0, 0]), "p1"),
            "one kernel in float16": (weights("c2.weight", in_half), "c2"),
            "one kernel in bfloat16": (weights("c1.weight", in_bfloat16), "c1 n1"),
            "one kernel in int8": (weights("c4.weight", in_int8), "c4"),
        },
    )
    yield from _listed(
        "convolutional",
        "residual",
        {
            "two kernels swapped": (swapped("b1.weight", "b3.weight"), "b1 n1 b3"),
            "norm's mean 1 % in one channel": (weights("n2.mean", one_channel), "b2 n2"),
            "gate left out": (left_out("gated"), "gated gate"),
            "PReLU's slope of one channel": (weights("slope", one_channel), "r3"),
            "epsilon of the instance norm": (attributes("inorm", epsilon=1e-5), "inorm"),
            "transposed kernel 1 % in one channel": (weights("up.weight", one_channel), "up"),
            "dilation with the same output": (attributes("b3", dilations=[1, 1], pads=[1, 1, 1, 1]), "b3"),
            "ReLU left out": (left_out("r2"), "r2"),
        },
    )
    yield from _listed(
        "convolutional",
        "dense",
        {
            "1 % in one channel before GatherElements": (weights("c2.weight", one_channel), "c2"),
            "1 % in one channel behind it": (weights("c3.weight", one_channel), "c3"),
            "1 % in one channel before TopK": (weights("c4.weight", one_channel), "c4"),
            "GatherElements along another axis": (attributes("shuffled", axis=2), "shuffled"),
            "order of GatherElements": (weights("order", lambda values: values[:, ::-1]), "shuffled"),
            "cubic_coeff_a": (attributes("up", cubic_coeff_a=-0.5), "up"),
            "resize half_pixel": (attributes("up", coordinate_transformation_mode="half_pixel"), "up"),
            "smallest for largest": (attributes("best", largest=0), "best"),
            "fewer of TopK": (weights("five", lambda values: values - 1), "best mean"),
        },
    )


def _transformer() -> Iterator[NetworkDamage]:
    yield from _listed(
        "transformer",
        "bert",
        {
            "1 % in one row of a query": (weights("l0.attn.q.weight", one_channel), "l0.attn.q l0.attn.q.product"),
            "query and key swapped": (
                swapped("l1.attn.q.weight", "l1.attn.k.weight"),
                "l1.attn.q l1.attn.q.product l1.attn.k l1.attn.k.product",
            ),
            "output matrix turned": (weights("l0.attn.o.weight", turned), "l0.attn.o l0.attn.o.product"),
            "heads of the values permuted": (
                weights("l0.attn.v.weight", heads_permuted),
                "l0.attn.v l0.attn.v.product",
            ),
            "mask left out": (left_out("l1.attn.masked"), "l1.attn.masked l1.attn.mixed l1.attn.weights mask mask4"),
            "scale of the scores": (
                weights("root", scaled(1.01)),
                "l0.attn.scaled l0.attn.mixed l0.attn.weights l1.attn.scaled l1.attn.mixed",
            ),
            "positions off by one": (weights("positions", first_rows_last), "positions.rows embedded"),
            "positions 1 % in one row": (weights("positions", one_channel), "positions.rows embedded"),
            "embedding 1 % in one row": (weights("words", lambda v: v * np.float32(1.001)), "words.rows embedded"),
            "epsilon": (attributes("l0.norm1", epsilon=1e-3), "l0.norm1"),
            "scale of a norm": (weights("l1.norm2.scale", one_channel), "l1.norm2"),
            "softmax over another axis": (attributes("l0.attn.weights", axis=-2), "l0.attn.weights l0.attn.mixed"),
            "another token": (weights("first", lambda values: values + 1), "cls"),
            "Tanh for the error function": (attributes("l0.gelu.erf", "Tanh"), "l0.gelu l0.gelu.erf"),
            "matrix in float16": (weights("l1.up.weight", in_half), "l1.up l1.up.product"),
            "matrix in int8": (weights("l1.down.weight", in_int8), "l1.down l1.down.product"),
            "bias zeroed in one place": (weights("l0.down.bias", zeroed), "l0.down l0.down.product"),
        },
    )
    yield from _listed(
        "transformer",
        "roberta",
        {
            "1 % in one row": (weights("l0.up.weight", one_channel), "l0.up l0.up.product"),
            "sum counted from the end": (attributes("counted", reverse=1), "counted places positions.rows"),
            "sum that leaves itself out": (attributes("counted", exclusive=1), "counted places positions.rows"),
            "positions off by one": (weights("positions", first_rows_last), "positions.rows embedded"),
            "epsilon of every norm": (
                weights("epsilon", scaled(100)),
                "norm0.normed l0.norm1.normed l0.norm2.normed",
            ),
            "matrix in bfloat16": (weights("l0.attn.k.weight", in_bfloat16), "l0.attn.k l0.attn.k.product"),
            "head 1 % in one column": (weights("head.bias", one_channel), "logits"),
        },
    )
    yield from _listed(
        "transformer",
        "decoder",
        {
            "causal mask off by one": (
                weights("diagonal", lambda values: values + 1), "causal l0.attn.masked l0.attn.mixed l0.attn.weights"
            ),
            "causal mask turned": (
                attributes("causal", upper=0),
                "causal l0.attn.masked l0.attn.mixed l0.attn.weights",
            ),
            "1 % in one row of the values": (weights("l0.attn.v.weight", one_channel), "l0.attn.v l0.attn.v.product"),
            "shift of a norm": (weights("l0.norm2.shift", one_channel), "l0.norm2 l0.up l0.up.product"),
            "shortcut left out": (left_out("l0.sum2"), "l0.sum2"),
            "last matrix scaled": (weights("head.weight", scaled(1.001)), "logits"),
        },
    )  # fmt: skip


def _recurrent() -> Iterator[NetworkDamage]:
    yield from _listed(
        "recurrent",
        "lstm",
        {
            "1 % in one row of W": (weights("lstm1.W", one_channel), "lstm1"),
            "1 % in one row of R": (weights("lstm2.R", one_channel), "lstm2 lstm2.last"),
            "gates permuted in W": (weights("lstm1.W", gates_permuted(4)), "lstm1"),
            "W and R swapped": (swapped("lstm2.W", "lstm2.R"), "lstm2 lstm2.last"),
            "bias zeroed in one place": (weights("lstm2.B", zeroed), "lstm2 lstm2.last"),
            "initial state": (weights("h0", one_channel), "lstm1 h0"),
            "initial cell scaled": (weights("c0", scaled(1.1)), "lstm1 c0"),
            "other direction": (attributes("lstm2", direction="reverse"), "lstm2 lstm2.last"),
            "other activation of the cell": (
                attributes("lstm1", activations=["Sigmoid", "Relu", "Tanh"]),
                "lstm1",
            ),
            "clip": (attributes("lstm2", clip=0.5), "lstm2 lstm2.last"),
            "input and forget gates coupled": (attributes("lstm1", input_forget=1), "lstm1"),
            "W in float16": (weights("lstm2.W", in_half), "lstm2 lstm2.last"),
            "head 1 % in one row": (weights("head.weight", one_channel), "logits"),
        },
    )
    yield from _listed(
        "recurrent",
        "gru",
        {
            "1 % in one row of R": (weights("gru.R", lambda v: np.stack([v[0], one_channel(v[1])])), "gru gru.last"),
            "directions swapped": (weights("gru.W", lambda values: values[::-1]), "gru gru.last"),
            "reset before the product": (attributes("gru", linear_before_reset=0), "gru gru.last"),
            "gates permuted in R": (weights("gru.R", gates_permuted(3)), "gru gru.last"),
            "R in int8": (weights("gru.R", in_int8), "gru gru.last"),
        },
    )
    yield from _listed(
        "recurrent",
        "mixed",
        {
            "1 % in one channel of the convolution": (weights("conv.weight", one_channel), "conv"),
            "R of the GRU turned in each gate": (
                weights("gru.R", lambda v: np.stack([np.concatenate([g.T for g in np.split(v[0], 3)])])), "gru"
            ),
            "product before the reset": (attributes("gru", linear_before_reset=1), "gru"),
            "R of the RNN turned": (weights("rnn.R", turned), "rnn"),
            "Tanh for ReLU in the RNN": (attributes("rnn", activations=["Tanh"]), "rnn"),
            "RNN forward": (attributes("rnn", direction="forward"), "rnn"),
            "bias of the RNN in bfloat16": (weights("rnn.B", in_bfloat16), "rnn"),
            "ReLU left out": (left_out("relu"), "relu"),
            "maximum for mean": (attributes("mean", "ReduceMax", axes=[0], keepdims=0), "mean"),
        },
    )  # fmt: skip


DAMAGES: Final = (*_convolutional(), *_transformer(), *_recurrent())
