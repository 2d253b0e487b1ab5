"""By how much a linear layer can stretch a difference: its l2 operator norm, as an upper bound that is tight.

A convolution with zero padding is part of a circular convolution on a larger grid: where the grid is longer than the
input by the larger of the two pads, whatever reaches over an edge meets zeros only. A part of an operator has no larger
norm than the whole, and the whole is diagonal in frequencies: its norm is the largest singular value of the channel
matrices A(ω) = Σ W_k·exp(iωk). With strides, the phases of the input are further channels on a coarser grid. Gram
matrices A·Aᴴ are sums of the few products W_k·W_lᵀ, so that nothing is multiplied per frequency, and as kernels are
real, half of the frequencies do. `spectra` bounds their eigenvalues from above, and says what its two proofs rest on.

On a fine grid not all frequencies are looked at: vᴴ·A·Aᴴ·v is a trigonometric polynomial that is never negative. Of
degree d along an axis, it is still at least Λ·cos²(d·δ/2) at a distance δ from where it has its maximum Λ (M. Riesz).
So the largest of M values, over cos²(d·π/2M), bounds them all; M is chosen so that this costs less than `tolerance`.

Folding the kernel into a matrix and taking its norm, as is often done, gives no upper bound: that can be too small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import acos, ceil, cos, gcd, isfinite, pi, prod, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.equivalence.spectra import Proof, largest_eigenvalue
from zoolens.errors import ModelError
from zoolens.graph.model import Array, Shape

TOLERANCE: Final[dict[Proof, float]] = {"cholesky": 0.01, "random": 0.15}
_TYPES: Final[dict[Proof, type[np.floating[Any]]]] = {"cholesky": np.float64, "random": np.float32}
_ALONE: Final = 0.1  # of the tolerance: what a single matrix is bounded to, which costs little
Offset = tuple[int, ...]  # of a tap, in places of the grid, one entry per axis
Taps = dict[Offset, Array]  # matrices (groups, out, in)
Floats = NDArray[np.float64]


def matrix_norm(matrix: Array, *, proof: Proof = "cholesky", tolerance: float | None = None) -> float:
    """Of a matrix that multiplies vectors."""
    return conv_norm(np.asarray(matrix)[:, :, None], (1,), proof=proof, tolerance=tolerance)


def conv_norm(
    kernel: Array,
    extents: Shape,
    *,
    stride: Shape | None = None,
    pads: Shape | None = None,
    dilation: Shape | None = None,
    groups: int = 1,
    proof: Proof = "cholesky",
    tolerance: float | None = None,
) -> float:
    """Of a convolution of an input of these spatial extents. `kernel` is (out, in/groups, *window).

    That of the transposed convolution is the same: give its kernel as it is, and the extents of its output.
    `tolerance`: by how much the bound may exceed the norm of the circular operator; 1 %, and 15 % of a random proof.
    """
    rank = len(extents)
    stride, dilation = stride or (1,) * rank, dilation or (1,) * rank
    pads = pads or (0,) * (2 * rank)
    tolerance = TOLERANCE[proof] if tolerance is None else tolerance
    largest = _largest_weight(kernel)
    kernel = np.asarray(kernel / (largest or 1.0), _TYPES[proof]).reshape(groups, -1, *np.shape(kernel)[1:])
    met = [
        _met(extents[i], (pads[i], pads[rank + i]), stride[i], [d * dilation[i] for d in range(kernel.shape[3 + i])])
        for i in range(rank)
    ]
    phases = _phases(kernel, stride, met)
    if not phases or not largest:
        return 0.0  # no window meets anything but pads, or all weights are 0
    grid = [ceil((extents[i] + max(0, pads[i], pads[rank + i])) / stride[i]) for i in range(rank)]
    axes = _axes([at for phase in phases.values() for at in phase], grid, tolerance / 2)
    stretch = largest * prod(axis.stretch for axis in axes)
    if kernel.shape[1:3] == (1, 1) and len(phases) == 1:
        return stretch * _largest_response(phases, axes)
    spectrum = _spectrum(phases, axes)
    slack = tolerance if len(spectrum.frequencies) > 1 else tolerance * _ALONE
    return stretch * spectrum.norm(slack, proof)


def _largest_weight(kernel: Array) -> float:
    """All are divided by it first, so that no square is too large or too small for a number."""
    largest = float(np.abs(kernel).max(initial=0.0))
    if not isfinite(largest):
        raise ModelError("A layer has weights that are not finite numbers: it has no norm.")
    return largest


# --- taps


def _met(extent: int, pads: tuple[int, int], stride: int, reach: Sequence[int]) -> list[tuple[int, int]]:
    """The taps along one axis, as number and reach, that meet the input, and not only pads, in some window."""
    windows = (extent + sum(pads) - reach[-1] - 1) // stride + 1
    starts = np.arange(max(1, windows)) * stride - pads[0]
    return [(i, at) for i, at in enumerate(reach) if ((starts + at >= 0) & (starts + at < extent)).any()]


def _phases(kernel: Array, stride: Shape, met: Sequence[list[tuple[int, int]]]) -> dict[Offset, Taps]:
    """The kernel's matrices by the phase of the input they see, and by offset on the grid."""
    found: dict[Offset, Taps] = {}
    window = range(3, kernel.ndim)
    by_tap = np.ascontiguousarray(kernel.transpose(*window, 0, 1, 2))
    for taps in product(*met):
        phase = tuple(at % s for (_, at), s in zip(taps, stride, strict=True))
        offset = tuple(at // s for (_, at), s in zip(taps, stride, strict=True))
        found.setdefault(phase, {})[offset] = by_tap[tuple(number for number, _ in taps)]
    return found


def _one_phase(phases: dict[Offset, Taps]) -> Taps:
    """The adjoint: all phases as channels, (groups, phases · in, out)."""
    first = _any(phases)
    groups, out, inner = first.shape
    found: Taps = {}
    for number, phase in enumerate(phases.values()):
        for offset, matrix in phase.items():
            whole = found.setdefault(offset, np.zeros((groups, len(phases) * inner, out), first.dtype))
            whole[:, number * inner : (number + 1) * inner] = matrix.swapaxes(1, 2)
    return found


def _any(phases: dict[Offset, Taps]) -> Array:
    return next(iter(next(iter(phases.values())).values()))


# --- frequencies


@dataclass(frozen=True)
class _Axis:
    """The frequencies to look at along one axis, and what a bound from them alone must be stretched by."""

    angles: Floats
    stretch: float


def _axes(offsets: Sequence[Offset], grid: Sequence[int], tolerance: float) -> list[_Axis]:
    most = (1 + tolerance) ** (1 / len(grid))
    return [_axis([at[i] for at in offsets], places, most) for i, places in enumerate(grid)]


def _axis(offsets: Sequence[int], places: int, most: float) -> _Axis:
    """All frequencies of the grid, or fewer where that stretches a bound by no more than `most`."""
    step = gcd(*(at - min(offsets) for at in offsets)) or 1  # dilated taps: only multiples of the step matter
    degree = (max(offsets) - min(offsets)) // step
    if not degree:
        return _Axis(np.zeros(1), 1.0)
    distinct = places // gcd(places, step)
    enough = ceil(degree * pi / (2 * acos(1 / most)))
    count, stretch = (distinct, 1.0) if distinct <= enough else (enough, 1 / cos(degree * pi / (2 * enough)))
    return _Axis(2 * pi * np.arange(count) / count / step, stretch)


def _frequencies(axes: Sequence[_Axis]) -> Floats:
    """One of each pair of opposite frequencies: (count, axes)."""
    sizes = [len(axis.angles) for axis in axes]
    numbers = np.indices(sizes).reshape(len(sizes), -1)
    opposite = np.ravel_multi_index(tuple(-row % size for row, size in zip(numbers, sizes, strict=True)), sizes)
    kept = numbers[:, np.arange(numbers.shape[1]) <= opposite]
    return np.stack([axis.angles[row] for axis, row in zip(axes, kept, strict=True)], axis=1)


def _largest_response(phases: dict[Offset, Taps], axes: Sequence[_Axis]) -> float:
    """Of filters of one channel each: the largest absolute value, which needs no eigenvalues."""
    taps = next(iter(phases.values()))
    angles = _frequencies(axes) @ np.array(list(taps), np.float64).T
    values = np.stack([matrix.reshape(-1) for matrix in taps.values()]).astype(np.float64)
    together = max(1, (1 << 20) // values.shape[1])
    parts = (angles[start : start + together] for start in range(0, len(angles), together))
    largest = max(float(np.abs(np.exp(1j * part) @ values).max()) for part in parts)
    return largest + _unit(_any(phases)) * (len(taps) + 8) * float(np.abs(values).sum(axis=0).max())


# --- Gram matrices


@dataclass(frozen=True)
class _Spectrum:
    """Gram matrices at all frequencies: Σ even·cos(ω·lag) + i·odd·sin(ω·lag), for each group."""

    lags: Floats  # (lags, axes)
    even: Array  # (groups, lags, c, c), symmetric
    odd: Array  # the same, antisymmetric
    frequencies: Floats  # (count, axes)
    rounding: float  # bound of what rounding did to any Gram matrix

    def norm(self, slack: float, proof: Proof) -> float:
        size = self.even.shape[-1]
        largest = largest_eigenvalue(size, self._traces, self._grams, slack=slack, proof=proof)
        return sqrt(largest + self.rounding)

    @cached_property
    def _angles(self) -> Floats:
        return np.asarray(self.frequencies @ self.lags.T)

    @cached_property
    def _traces(self) -> Floats:
        """Of all groups at the first frequency, then at the next."""
        traces = np.trace(self.even, axis1=2, axis2=3, dtype=np.float64)
        return np.asarray(np.cos(self._angles) @ traces.T).reshape(-1)

    def _grams(self, some: NDArray[np.intp]) -> Array:
        groups, lags, size, _ = self.even.shape
        place, group = np.divmod(some, groups)
        if lags == 1:
            return np.asarray(self.even[group].swapaxes(0, 1))
        angles, kind = self._angles[place], self.even.dtype
        found: Array = np.empty((2, len(some), size * size), kind)
        _weigh(np.cos(angles).astype(kind), self.even, group, found[0])
        _weigh(np.sin(angles).astype(kind), self.odd, group, found[1])
        return found.reshape(2, len(some), size, size)


def _weigh(weights: Array, matrices: Array, group: NDArray[np.intp], into: Array) -> None:
    """Sums over lags; in one product where there is but one group."""
    flat = matrices.reshape(*matrices.shape[:2], -1)
    if len(flat) == 1:
        np.matmul(weights, flat[0], out=into)
    else:
        np.einsum("bl,bln->bn", weights, flat[group], out=into)


def _spectrum(phases: dict[Offset, Taps], axes: Sequence[_Axis]) -> _Spectrum:
    """On the side with fewer channels: outputs, or the inputs of all phases."""
    _, out, inner = _any(phases).shape
    taps = list(phases.values()) if out <= inner * len(phases) else [_one_phase(phases)]
    products = _products(taps)
    lags = sorted(products)  # the first is 0, which is its own opposite
    groups, size, _ = products[lags[0]].shape
    even, odd = (np.zeros((groups, len(lags), size, size), products[lags[0]].dtype) for _ in range(2))
    even[:, 0] = products[lags[0]]
    for number, lag in enumerate(lags[1:], start=1):
        one, turned = products[lag], products[lag].swapaxes(1, 2)
        np.add(one, turned, out=even[:, number])
        np.subtract(one, turned, out=odd[:, number])
    return _Spectrum(np.array(lags, np.float64), even, odd, _frequencies(axes), _rounding(taps))


def _products(taps: Sequence[Taps]) -> Taps:
    """Σ W_k·W_lᵀ by lag k − l, for one of each pair of opposite lags."""
    found: Taps = {}
    for phase in taps:
        for (k, one), (m, two) in product(phase.items(), repeat=2):
            lag = tuple(x - y for x, y in zip(k, m, strict=True))
            if lag >= (0,) * len(lag):
                # numpy sees by itself that a matrix times its own transpose is half the work, but not in a batch
                part = (one[0] @ two[0].T)[None] if len(one) == 1 else one @ two.swapaxes(1, 2)
                found[lag] = np.add(found[lag], part, out=part) if lag in found else part
    return found


def _rounding(taps: Sequence[Taps]) -> float:
    """Every entry is a sum of so many products; the Frobenius norm of their absolute values bounds the rest."""
    terms = max(len(phase) for phase in taps) ** 2 + int(next(iter(taps[0].values())).shape[2]) + 8
    whole = 0.0
    for phase in taps:
        first, *others = phase.values()
        total = np.abs(first)
        for matrix in others:
            total += np.abs(matrix)
        whole = whole + np.square(total).sum(axis=(1, 2), dtype=np.float64)
    return _unit(first) * terms * float(np.max(whole))


def _unit(values: Array) -> float:
    """The largest relative error of one rounding."""
    return 0.5 * float(np.finfo(values.dtype).eps)
