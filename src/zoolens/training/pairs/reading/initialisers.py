"""Which initialiser drew a tensor: measured on its values, not assumed.

Every formula predicts a distribution from the fans; the likelihood of the values under it is compared with that of
the best-fitting distribution of any scale. What is far less likely is ruled out. A layer with equal fans cannot tell
one formula from another, so the formula that explains most layers together is preferred.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isclose, log, pi, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.training.pairs.reading.side_facts import Drawn

MAX_VALUES: Final = 1_000_000  # of one tensor: more would not decide anything
_RULED_OUT: Final = 12.0  # nats less likely than the best fit: five standard deviations
_CUT: Final = 2.0  # truncated normals end at two standard deviations
_INSIDE: Final = 0.954499736104  # share of a normal within them
_SHRUNK: Final = 0.879625661034  # standard deviation of what is left
_ROUNDING: Final = 1e-5
_STRAY: Final = 12.0  # times the median size: eight standard deviations of a normal
_STRAYS: Final = 1e-5  # share of the numbers; at least one
_MANY: Final = 1000

# name -> variance that it gives, from fan in and fan out
_VARIANCES: Final[Mapping[str, Callable[[int, int], float]]] = {
    "kaiming (fan out)": lambda _, fan_out: 2 / fan_out,
    "kaiming (fan in)": lambda fan_in, _: 2 / fan_in,
    "glorot": lambda fan_in, fan_out: 2 / (fan_in + fan_out),
    "lecun": lambda fan_in, _: 1 / fan_in,
    "±1/√(fan in)": lambda fan_in, _: 1 / (3 * fan_in),
}
_OF_BIASES: Final = ("±1/√(fan in)",)


@dataclass(frozen=True)
class Initialiser:
    """One initialiser and the layers whose values it explains. `ratios`: smallest and largest of measured to predicted
    standard deviation."""

    name: str
    layers: tuple[str, ...]
    ratios: tuple[float, float] | None = None


def drawn(
    values: NDArray[Any], *, layer: str, kind: str, role: str, fans: tuple[int, int], declared: str | None = None
) -> Drawn:
    """What is kept of a tensor's values: enough to fit any of the formulas."""
    flat = values.reshape(-1)
    flat = _without_strays(flat[:: -(-flat.size // MAX_VALUES)].astype(np.float64))
    return Drawn(
        layer=layer,
        kind=kind,
        role=role,
        fan_in=fans[0],
        fan_out=fans[1],
        count=flat.size,
        square=float(np.mean(flat**2)),
        bound=float(np.max(np.abs(flat))),
        constant=float(flat[0]) if np.ptp(flat) == 0 else None,
        declared=declared,
    )


def _without_strays(flat: NDArray[Any]) -> NDArray[Any]:
    """Removes the few numbers that lie far outside of all others.

    Libraries draw a truncated normal by the inverse of the error function, which is infinite at the end of its range:
    once in some ten million numbers the bound itself comes out, as far as a hundred standard deviations away.
    """
    near = np.abs(flat) <= _STRAY * np.median(np.abs(flat))
    strays = flat.size - np.count_nonzero(near)
    return flat[near] if 0 < strays <= max(1.0, flat.size * _STRAYS) and flat.size >= _MANY else flat


def explained(tensors: Iterable[Drawn]) -> tuple[Initialiser, ...]:
    """The fewest initialisers that explain all tensors, the most frequent first."""
    initialisers: list[Initialiser] = []
    left = list(tensors)
    while left:
        name, members = _most_explaining(left)
        ratios = [sqrt(member.square / _variance(name, member)) for member in members if name in _CANDIDATES]
        layers = tuple(member.layer for member in members)
        initialisers.append(
            Initialiser(_with_equals(name, members), layers, (min(ratios), max(ratios)) if ratios else None)
        )
        left = [tensor for tensor in left if tensor not in members]
    return tuple(sorted(initialisers, key=lambda initialiser: -len(initialiser.layers)))


def _most_explaining(tensors: Sequence[Drawn]) -> tuple[str, list[Drawn]]:
    fits = [
        {name: likely for name in _names(tensor) if (likely := _likelihood(name, tensor)) > -_RULED_OUT}
        for tensor in tensors
    ]
    names = dict.fromkeys(name for fit in fits for name in fit)
    if not names:
        return _by_scale(tensors)
    best = max(names, key=lambda name: (sum(name in fit for fit in fits), sum(fit.get(name, 0.0) for fit in fits)))
    return best, [tensor for tensor, fit in zip(tensors, fits, strict=True) if best in fit]


def _with_equals(name: str, members: Sequence[Drawn]) -> str:
    """Formulas that give all these layers the same variance cannot be told apart: both are named."""
    if name not in _CANDIDATES:
        return name
    family = _CANDIDATES[name][1]
    equal = [
        other
        for other in _names(members[0])
        if other in _CANDIDATES
        and _CANDIDATES[other][1] == family
        and all(isclose(_variance(other, member), _variance(name, member)) for member in members)
    ]
    return " or ".join(equal)


def _names(tensor: Drawn) -> Iterable[str]:
    if tensor.constant is not None:
        return (_constant(tensor.constant),)
    return (name for name, (formula, _) in _CANDIDATES.items() if tensor.role == "kernel" or formula in _OF_BIASES)


def _constant(value: float) -> str:
    return {0.0: "zeros", 1.0: "ones"}.get(value, f"constant {value:g}")


def _likelihood(name: str, tensor: Drawn) -> float:
    """Log-likelihood under a formula, less that of the best distribution of any scale; 0 where there is no choice."""
    if tensor.constant is not None:
        return 0.0
    freely = max(_log_density(family, tensor, _free_variance(family, tensor)) for family in _FAMILIES)
    return _log_density(_CANDIDATES[name][1], tensor, _variance(name, tensor)) - freely


def _variance(name: str, tensor: Drawn) -> float:
    return _VARIANCES[_CANDIDATES[name][0]](tensor.fan_in, tensor.fan_out)


def _free_variance(family: str, tensor: Drawn) -> float:
    if family == "uniform":
        return tensor.bound**2 / 3
    return max(tensor.square, (tensor.bound * _SHRUNK / _CUT) ** 2) if family == "truncated_normal" else tensor.square


def _log_density(family: str, tensor: Drawn, variance: float) -> float:
    if family == "uniform":
        end = sqrt(3 * variance)
        return -inf if tensor.bound > end * (1 + _ROUNDING) else -tensor.count * log(2 * end)
    if family == "normal":
        return -tensor.count / 2 * (log(2 * pi * variance) + tensor.square / variance)
    whole = variance / _SHRUNK**2
    if tensor.bound > _CUT * sqrt(whole) * (1 + _ROUNDING):
        return -inf
    return -tensor.count * (log(_INSIDE) + (log(2 * pi * whole) + tensor.square / whole) / 2)


def _by_scale(tensors: Sequence[Drawn]) -> tuple[str, list[Drawn]]:
    """No formula fits: the largest tensor's distribution with the roundest scale that may be, and who shares it."""
    largest = max(tensors, key=lambda tensor: tensor.count)
    family = max(_FAMILIES, key=lambda family: _log_density(family, largest, _free_variance(family, largest)))
    exact = sqrt(_free_variance(family, largest))
    rounded = [float(f"{exact:.{digits}g}") for digits in (1, 2, 3, 4)]
    scale = next((size for size in rounded if _has_scale(largest, family, size)), rounded[-1])
    shared = [tensor for tensor in tensors if tensor is largest or _has_scale(tensor, family, scale)]
    return f"{family} with standard deviation {scale:g} in every layer", shared


def _has_scale(tensor: Drawn, family: str, scale: float) -> bool:
    fitted = _log_density(family, tensor, _free_variance(family, tensor))
    return _log_density(family, tensor, scale**2) - fitted > -_RULED_OUT


_FAMILIES: Final = ("uniform", "normal", "truncated_normal")


def _title(formula: str, family: str) -> str:
    author, _, rest = formula.partition(" ")
    return f"{family} ±1/√(fan in)" if formula.startswith("±") else f"{author}_{family}{' ' + rest if rest else ''}"


# what a user calls it -> formula, family; ±1/√(fan in) is only ever the bound of a uniform
_CANDIDATES: Final = {
    _title(formula, family): (formula, family)
    for formula in _VARIANCES
    for family in _FAMILIES
    if not formula.startswith("±") or family == "uniform"
}


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """(in, out) of a kernel: how many numbers each output is made of, and each input goes to."""
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window
