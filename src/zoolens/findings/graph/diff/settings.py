"""What a layer is set to, with defaults filled in, so that an absent attribute equals an explicit default."""

from __future__ import annotations

from typing import Any, Final

from zoolens.findings.graph.ir.model import Node
from zoolens.findings.graph.ir.rounded_numbers import is_same_number
from zoolens.findings.graph.ir.sliding_windows import ceil_pads, same_pads
from zoolens.findings.graph.ir.vocabulary import REDUCTIONS, WINDOWED

# Attributes of other ops that are a choice of the designer, with their defaults.
CHOICES: Final[dict[str, dict[str, Any]]] = {
    "lrn": {"size": None, "alpha": None, "beta": None, "bias": None},
    "leaky_relu": {"alpha": None},
    "elu": {"alpha": 1.0},
    "gelu": {"approximate": None},
    "hard_sigmoid": {"alpha": 1 / 6, "beta": 0.5},
    "clip": {"low": None, "high": None},
    "l2_normalize": {"epsilon": 1e-12},
    "group_norm": {"groups": None},
    "channel_shuffle": {"groups": None},
    "attention": {"heads": None, "scale": None, "causal": False, "masked": False},
    "max_pool": {"pad_value": None},
    "add": {"scalar": None},
    "sub": {"scalar": None, "reverse": False},
    "mul": {"scalar": None},
    "div": {"scalar": None, "reverse": False},
    "pow": {"scalar": None, "reverse": False},
    "maximum": {"scalar": None},
    "minimum": {"scalar": None},
    "compare": {"kind": None, "scalar": None},
    "resize": {"mode": None},
    "recurrent": {
        "kind": None, "hidden": None, "layers": 1, "bidirectional": False, "reverse": False, "activations": None,
        "clip": None, "reset_first": False, "coupled": False,
    },
    "recurrent_layer": {
        "kind": None, "reverse": False, "activation": "tanh", "recurrent_activation": "sigmoid", "reset_first": False,
        "given": (), "zero_masked": False, "gives": "state",
    },
}  # fmt: skip
# Attributes that say where in a value an op works. On values of other shapes they may only follow from a difference
# upstream, so they are compared where both sides are given the same shapes.
PLACES: Final[dict[str, dict[str, Any]]] = {
    **{op: {"axis": None} for op in ("softmax", "log_softmax", "concat", "affine")},
    **{op: {"axes": None} for op in (*REDUCTIONS, "l2_normalize", "layer_norm", "rms_norm")},
    "slice": {"axis": None, "start": 0, "stop": None, "step": 1},
    "gather": {"axis": None, "indices": None},
    "transpose": {"perm": None},
    "pad": {"pads": None, "value": 0, "mode": "constant"},
    "roll": {"axes": None, "shifts": None},
    "tile": {"repeats": None},
    "matmul": {"transpose_a": False, "transpose_b": False},
    "resize": {"coordinates": None},
    **{op: {"block": None, "mode": "DCR"} for op in ("space_to_depth", "depth_to_space")},
}
# Numbers that a layer computes with: another value gives other answers, but the layer stays what it is.
_NUMBERS: Final = frozenset({"alpha", "beta", "bias", "clip", "epsilon", "high", "low", "scalar", "value"})
# The same where an absent value stands for the usual one. Two formulas for one GELU differ in the fourth digit.
_NUMBERS_WITH_DEFAULT: Final = frozenset({"approximate", "pad_value", "scale"})


def is_constant(name: str, value_a: Any, value_b: Any) -> bool:
    """Whether a setting is a number that a layer computes with. Any other (heads, an axis, a mode, a direction) makes
    it another layer."""
    both = value_a is not None and value_b is not None
    return name in _NUMBERS_WITH_DEFAULT or (name in _NUMBERS and both)


_TABLES: Final = {"parameter": "learned numbers", "constant": "fixed numbers"}


def kernel(node: Node) -> tuple[int, ...]:
    return tuple(node.get("kernel", ()))


def stride(node: Node) -> tuple[int, ...]:
    return tuple(node.get("stride", ())) or (1,) * len(kernel(node))


def dilation(node: Node) -> tuple[int, ...]:
    return tuple(node.get("dilation", ())) or (1,) * len(kernel(node))


def pads(node: Node) -> tuple[int, ...]:
    return tuple(node.get("pads", ())) or (0,) * (2 * len(kernel(node)))


def output_pads(node: Node) -> tuple[int, ...]:
    return tuple(node.get("output_pads", ())) or (0,) * len(kernel(node))


def groups(node: Node) -> int:
    return int(node.get("groups", 1))


def is_pointwise(node: Node) -> bool:
    """A dense layer on tokens is a 1×1 convolution where these form a map."""
    if node.op == "conv":
        return {*kernel(node), *stride(node), groups(node)} == {1} and not any(pads(node))
    return node.op == "dense" and len(node.shape) > 2


def strides(node: Node) -> bool:
    return node.op in WINDOWED and max(stride(node), default=1) > 1


def normed(node: Node) -> str:
    return str(node.get("norm", ""))


def operator(node: Node) -> str:
    """What a layer does, in the source's own words where we have none."""
    if node.op == "unknown":
        return f"{node.get('source_op', '?')} (unknown to us)"
    return _TABLES.get(node.op, node.op.replace("_", " "))


def equal(value_a: Any, value_b: Any) -> bool:
    """Numbers that were once float32, or in half precision, are equal to the same numbers that never were."""
    if isinstance(value_a, int) and isinstance(value_b, int):
        return value_a == value_b
    if isinstance(value_a, int | float) and isinstance(value_b, int | float) and not isinstance(value_a, bool):
        return is_same_number(value_a, value_b)
    if isinstance(value_a, tuple) and isinstance(value_b, tuple) and len(value_a) == len(value_b):
        return all(map(equal, value_a, value_b))
    return bool(value_a == value_b)


def same_padding(node: Node, extents: tuple[int, ...]) -> tuple[int, ...]:
    """The pads that SAME gives this window on a map of these extents: the odd one at the end."""
    fits = len(extents) == len(kernel(node))
    if fits:
        return same_pads(extents, kernel(node), stride(node), dilation(node))
    return ()


def ceil_padding(node: Node, extents: tuple[int, ...], base: tuple[int, ...]) -> tuple[int, ...]:
    """The pads that "ceil" makes of these on a map of these extents."""
    if len(extents) != len(kernel(node)) or len(base) != 2 * len(extents):
        return ()
    return ceil_pads(extents, kernel(node), stride(node), dilation(node), base)
