"""By how much each operator can enlarge the l2 length of a difference between two of its inputs, proved for all inputs.

Where an operator has no such constant (a product of two values, attention), the answer is infinity, and why. Constants
hold for one example; in a batch each example has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import erf, exp, gcd, inf, pi, prod, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.contrib.layerwise.linear import LINEAR, linear, values
from zoolens.contrib.layerwise.spectra import Proof
from zoolens.findings.graph.ir.model import Graph, Node, Shape
from zoolens.findings.graph.ir.sliding_windows import spread
from zoolens.findings.graph.ir.vocabulary import FIXED
from zoolens.findings.graph.reference import spatial

Floats = NDArray[np.float64]

GELU: Final = 0.5 * (1 + erf(1.0)) + exp(-1.0) / sqrt(pi)  # its slope at √2, where its second derivative is 0
GELU_TANH: Final = 1.12900  # this one and the next two have no closed form: the last digit is rounded up
SILU: Final = 1.09984
MISH: Final = 1.08850
SELU: Final = 1.75810  # the product of its two constants, which is its slope to the left of 0
STEEPEST: Final[dict[str, float]] = {
    **dict.fromkeys(("relu", "relu6", "clip", "tanh", "softplus", "abs", "neg", "sin", "cos"), 1.0),
    "sigmoid": 0.25, "silu": SILU, "hard_swish": 1.5, "selu": SELU, "mish": MISH, "erf": 2 / sqrt(pi),
}  # fmt: skip
MOVES: Final = frozenset(  # every number goes to at most one place, or the largest of some is taken, each once
    {"reshape", "flatten", "transpose", "slice", "channel_shuffle", "space_to_depth", "depth_to_space", "roll",
     "identity", "dropout", "cast", "max", "min", "global_max_pool"}
)  # fmt: skip
CHOICES: Final = frozenset({"concat", "maximum", "minimum"})  # each number depends on one of its sources at a time


@dataclass(frozen=True)
class Gain:
    """The constant; where it is infinite, or holds but says little, `reason` says why."""

    value: float
    reason: str = ""


def gain(graph: Graph, node: Node, *, proof: Proof = "cholesky") -> Gain:
    """The gain of a node as a function of one of its inputs, the others kept; ModelError where its weights are not
    known."""
    if node.op in LINEAR:
        return Gain(linear(graph, node).norm(proof))
    if node.op in STEEPEST:
        return Gain(STEEPEST[node.op])
    if node.op in MOVES or node.op in CHOICES:
        return Gain(1.0)
    rule = _RULES.get(node.op)
    return rule(graph, node) if rule else Gain(inf, f"{node.op} has no Lipschitz constant")


def joined(node: Node, differences: Sequence[Floats]) -> Floats:
    """What comes of differences of several inputs, each already multiplied by the node's gain."""
    if node.op in CHOICES or len(differences) == 1:
        return np.asarray(np.sqrt(np.add.reduce([np.square(difference) for difference in differences])))
    return np.asarray(np.add.reduce(list(differences)))


def _source(graph: Graph, node: Node) -> Shape:
    return graph.by_name[node.inputs[0]].shape


# --- activations


def _slope(attribute: str, default: float, least: float = 0.0) -> Callable[[Graph, Node], Gain]:
    return lambda graph, node: Gain(max(least, abs(node.get(attribute, default))))


def _gelu(graph: Graph, node: Node) -> Gain:
    return Gain({"tanh": GELU_TANH, "quick": SILU}.get(node.get("approximate"), GELU))


def _prelu(graph: Graph, node: Node) -> Gain:
    return Gain(max(1.0, float(np.abs(values(graph, node)["alpha"]).max())))


def _softmax(graph: Graph, node: Node) -> Gain:
    """Row i of diag(p) − ppᵀ has the absolute sum 2·p_i·(1 − p_i), which is at most 1/2; two classes attain it."""
    return Gain(0.5)


def _log_softmax(graph: Graph, node: Node) -> Gain:
    """I − 1pᵀ is a projection along 1: its norm is ‖1‖·‖p‖."""
    return Gain(sqrt(node.shape[node.get("axis", len(node.shape) - 1)]))


# --- norms that depend on what they normalise


def _normalised(graph: Graph, node: Node) -> Gain:
    """Along the normalised axes the derivative is a projection over √(variance + ε): at most 1/√ε, where the variance
    is nearly 0. At ordinary variances it is far less, but no constant holds for all inputs that says so."""
    scale = float(np.abs(values(graph, node).get("scale", np.ones(1))).max())
    epsilon = node.get("epsilon", 0.0)
    why = f"the constant of {node.op} is that of a variance of nearly 0"
    if epsilon > 0:
        return Gain(scale / sqrt(epsilon), why)
    return Gain(inf, f"{node.op} has no ε above 0")


def _l2_normalize(graph: Graph, node: Node) -> Gain:
    return Gain(1 / node.get("epsilon", 1e-12), "the constant of l2_normalize is that of a length of nearly 0")


def _lrn(graph: Graph, node: Node) -> Gain:
    """x_i·(k + s)^−β with s = α/n·Σx²: the diagonal is at most k^−β. A row of the rest has an l2 length of at most
    2β·s·(k + s)^(−β−1), largest at s = k/β, and each column meets at most n rows."""
    size, alpha, beta, bias = (
        node.get(key, d) for key, d in (("size", 5), ("alpha", 1e-4), ("beta", 0.75), ("bias", 1))
    )
    if alpha < 0 or beta <= 0 or bias <= 0:
        return Gain(inf, "an lrn of these constants has no Lipschitz constant")
    rest = 2 * beta * (1 / beta) * (1 + 1 / beta) ** (-beta - 1)
    return Gain(bias**-beta * (1 + sqrt(size) * rest))


# --- pools and other sums over places


def _max_pool(graph: Graph, node: Node) -> Gain:
    """The root of how many windows see one place: 2 for a 3×3 window that moves by 2."""
    rank = len(node.shape) - 2
    kernel = spread(node.get("kernel"), rank, 1)
    stride = spread(node.get("stride"), rank, 1)
    dilation = spread(node.get("dilation"), rank, 1)
    seen = [
        min(-(-k // (s // gcd(s, d))), n) for k, s, d, n in zip(kernel, stride, dilation, node.shape[2:], strict=True)
    ]
    return Gain(sqrt(prod(seen)))


def _avg_pool(graph: Graph, node: Node) -> Gain:
    """A product of one matrix for each axis, as windows and their counts are."""
    rank = len(node.shape) - 2
    kernel = spread(node.get("kernel"), rank, 1)
    stride = spread(node.get("stride"), rank, 1)
    pads = spread(node.get("pads"), 2 * rank, 0)
    counted = node.get("count_pad", False)

    def along(axis: int, extent: int) -> Floats:
        window = (kernel[axis],), (stride[axis],), (pads[axis], pads[rank + axis])
        return spatial.avg_pool(_unit(extent), *window, count_pad=counted)

    return Gain(prod(_length(along(i, extent)) for i, extent in enumerate(_source(graph, node)[2:])))


def _adaptive_avg_pool(graph: Graph, node: Node) -> Gain:
    pairs = zip(_source(graph, node)[2:], node.get("size"), strict=True)
    return Gain(prod(_length(spatial.adaptive_pool(_unit(n), (size,), np.mean)) for n, size in pairs))


def _adaptive_max_pool(graph: Graph, node: Node) -> Gain:
    pairs = zip(_source(graph, node)[2:], node.get("size"), strict=True)
    seen = [(spatial.adaptive_pool(_unit(n), (size,), np.max) > 0).sum(axis=-1).max() for n, size in pairs]
    return Gain(sqrt(prod(int(count) for count in seen)))


def _resize(graph: Graph, node: Node) -> Gain:
    mode = node.get("mode", "nearest")
    coordinates = node.get("coordinates", "")
    pairs = zip(_source(graph, node)[2:], node.shape[2:], strict=True)
    return Gain(prod(_length(spatial.resize(_unit(n), (size,), mode, coordinates)) for n, size in pairs))


def _unit(extent: int) -> Floats:
    """Every place of an axis by itself, as a batch."""
    return np.eye(extent).reshape(extent, 1, extent)


def _length(image: Any) -> float:
    return float(np.linalg.norm(np.asarray(image)[:, 0], 2)) * (1 + 1e-9)


def _mean(graph: Graph, node: Node) -> Gain:
    return Gain(1 / sqrt(_taken(graph, node)))


def _taken(graph: Graph, node: Node) -> float:
    """How many numbers become one."""
    return prod(_source(graph, node)) / prod(node.shape)


def _repeated(graph: Graph, node: Node) -> Gain:
    return Gain(sqrt(prod(node.shape) / prod(_source(graph, node))))


def _pad(graph: Graph, node: Node) -> Gain:
    """Zeros add nothing; a mirrored or repeated edge is there more than once."""
    if node.get("mode", "constant") == "constant":
        return Gain(1.0)
    pads = node.get("pads")
    half = len(pads) // 2
    copies = 1
    for extent, before, after in zip(_source(graph, node), pads[:half], pads[half:], strict=True):
        copies *= int(np.bincount(np.pad(np.arange(extent), (before, after), mode=node.get("mode"))).max())
    return Gain(sqrt(copies))


def _gather(graph: Graph, node: Node) -> Gain:
    indices = node.get("indices")
    if indices is None:
        return Gain(inf, "gather takes indices from the network")
    return Gain(sqrt(np.unique(np.asarray(indices), return_counts=True)[1].max()))


# --- arithmetic


def _sum(graph: Graph, node: Node) -> Gain:
    return Gain(1.0)


def _product(graph: Graph, node: Node) -> Gain:
    """The gain of a product with a number or with a learned value that does not change."""
    if node.get("scalar") is not None:
        return Gain(abs(node.get("scalar")))
    factors = [_fixed(graph, name) for name in node.inputs]
    if sum(factor is None for factor in factors) == 1:
        return Gain(prod(float(np.abs(factor).max()) for factor in factors if factor is not None))
    return Gain(inf, "a product of two values that both change has no Lipschitz constant")


def _quotient(graph: Graph, node: Node) -> Gain:
    if node.get("scalar") is not None and not node.get("reverse"):
        return Gain(1 / abs(node.get("scalar")) if node.get("scalar") else inf)
    under = _fixed(graph, node.inputs[-1]) if len(node.inputs) == 2 else None
    if under is not None and np.abs(under).min() > 0:
        return Gain(1 / float(np.abs(under).min()))
    return Gain(inf, "a quotient by a value that changes has no Lipschitz constant")


def _fixed(graph: Graph, name: str) -> Floats | None:
    """The value of a constant or a learned value; None of anything else."""
    node = graph.by_name[name]
    if node.op not in FIXED:
        return None
    given = node.get("value")
    return np.asarray(values(graph, node)["value"] if given is None else given, np.float64)


_RULES: Final[dict[str, Callable[[Graph, Node], Gain]]] = {
    "gelu": _gelu, "prelu": _prelu, "leaky_relu": _slope("alpha", 0.01, 1.0), "elu": _slope("alpha", 1.0, 1.0),
    "hard_sigmoid": _slope("alpha", 1 / 6), "softmax": _softmax, "log_softmax": _log_softmax,
    **dict.fromkeys(("layer_norm", "rms_norm", "group_norm", "instance_norm"), _normalised),
    "l2_normalize": _l2_normalize, "lrn": _lrn,
    "max_pool": _max_pool, "avg_pool": _avg_pool, "adaptive_avg_pool": _adaptive_avg_pool,
    "adaptive_max_pool": _adaptive_max_pool, "global_avg_pool": _mean, "mean": _mean,
    "sum": lambda graph, node: Gain(sqrt(_taken(graph, node))), "resize": _resize, "pad": _pad, "gather": _gather,
    "expand": _repeated, "tile": _repeated, "add": _sum, "sub": _sum, "mul": _product, "div": _quotient,
}  # fmt: skip
