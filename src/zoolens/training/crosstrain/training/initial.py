"""Initial weights that do not come from a framework: the same numbers wherever they are asked for.

Each tensor has a stream of its own, from the seed and its name: a bias more or a layer less changes no other tensor.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoolens.training.crosstrain.training.architectures import tensor_shapes
from zoolens.training.crosstrain.training.network import Network
from zoolens.training.pairs.reading.initialisers import fans
from zoolens.training.pairs.semantics import ALIGNED, Init, Semantics

Array = NDArray[Any]
Shape = tuple[int, ...]

_ENOUGH: Final = 200  # numbers in a kernel to tell rules apart
_SAMPLED: Final = 1_000_000  # numbers of a kernel that are looked at: more of them would decide nothing
_ROOT3: Final = math.sqrt(3)


def initial_weights(network: Network, semantics: Semantics, seed: int, *, salt: str = "") -> dict[str, Array]:
    """float32, by the names and in the layout of `network`. What the semantics leave open is as in ALIGNED."""
    resolved = semantics.over(ALIGNED)
    assert resolved.init is not None
    shapes = tensor_shapes(network)
    weights = {}
    for name, shape in shapes.items():
        layer, _, part = name.rpartition(".")
        if part == "kernel":
            values = _kernel(resolved.init, shape, _generator(seed, salt, name))
        elif part == "bias" and resolved.bias_init == "uniform":
            bound = 1 / math.sqrt(fans(shapes[f"{layer}.kernel"])[0])
            values = _generator(seed, salt, name).uniform(-bound, bound, shape)
        else:
            values = np.full(shape, 1.0 if part in ("scale", "variance") else 0.0)
        weights[name] = values.astype(np.float32)
    return weights


def own_weights(network: Network, semantics: Semantics, seed: int, salt: str) -> dict[str, Array]:
    """Those of `initial_weights` whose rule the semantics give; the others stay as a framework's layers made them."""
    rules = {".kernel": semantics.init, ".bias": semantics.bias_init}
    parts = tuple(part for part, rule in rules.items() if rule is not None)
    drawn = initial_weights(network, semantics, seed, salt=salt)
    return {name: values for name, values in drawn.items() if name.endswith(parts)}


def fitting_kernel(kernels: Sequence[Array]) -> Init | None:
    """The rule that fresh kernels were drawn by, judged by their spread; None: none of ours, or not one for all."""
    samples = [_sampled(kernel) for kernel in kernels if kernel.size >= _ENOUGH]
    fits = [rule for rule in SPREADS if samples and all(_fits(rule, sample) for sample in samples)]
    return fits[0] if len(fits) == 1 else None


def fitting_bias(biases: Sequence[tuple[Array, Shape]]) -> Literal["zeros", "uniform"] | None:
    """`biases`: fresh ones, each with the shape of its kernel."""
    if not biases:
        return None
    if not any(bias.any() for bias, _ in biases):
        return "zeros"
    within = all(bias.any() and np.abs(bias).max() <= 1.001 / math.sqrt(fans(shape)[0]) for bias, shape in biases)
    return "uniform" if within else None


# The standard deviation that each rule gives a kernel of a shape.
SPREADS: Final[Mapping[Init, Callable[[Shape], float]]] = {
    "glorot_uniform": lambda shape: math.sqrt(2 / sum(fans(shape))),
    "kaiming_normal": lambda shape: math.sqrt(2 / fans(shape)[1]),
    "kaiming_normal_in": lambda shape: math.sqrt(2 / fans(shape)[0]),
    "kaiming_uniform": lambda shape: math.sqrt(2 / fans(shape)[0]),
    "lecun_uniform": lambda shape: math.sqrt(1 / fans(shape)[0]),
    "torch_uniform": lambda shape: math.sqrt(1 / (3 * fans(shape)[0])),
}


def _kernel(rule: Init, shape: Shape, generator: np.random.Generator) -> Array:
    spread = SPREADS[rule](shape)
    if rule.endswith("uniform"):
        return generator.uniform(-_ROOT3 * spread, _ROOT3 * spread, shape)
    return generator.normal(0, spread, shape)


class _Sample(NamedTuple):
    """Numbers of a kernel of a shape: how many, their standard deviation, and the largest absolute value."""

    shape: Shape
    size: int
    spread: float
    bound: float


def _sampled(kernel: Array) -> _Sample:
    values = kernel.ravel(order="K")
    values = values[:: -(-values.size // _SAMPLED)]
    return _Sample(kernel.shape, values.size, float(np.std(values, dtype=np.float64)), float(np.abs(values).max()))


def _fits(rule: Init, sample: _Sample) -> bool:
    """The standard deviation is right within four of its standard errors, and values end where uniform ones would."""
    uniform = rule.endswith("uniform")
    tolerance = 4 * math.sqrt((0.2 if uniform else 0.5) / sample.size) + 1e-3
    bounded = sample.bound <= _ROOT3 * sample.spread * (1 + tolerance)
    return bounded == uniform and abs(sample.spread / SPREADS[rule](sample.shape) - 1) < tolerance


def _generator(seed: int, salt: str, name: str) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(hashlib.sha256(f"{seed}/{salt}/{name}".encode()).digest()[:16]))
