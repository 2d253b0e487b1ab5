"""By how much a linear layer can stretch a difference: its l2 operator norm, as an upper bound that is tight.

A convolution with zero padding is part of a circular convolution on a larger grid: where the grid is longer than the
input by the larger of the two pads, whatever reaches over an edge meets zeros only. A part of an operator has no larger
norm than the whole, and the whole is diagonal in frequencies: its norm is the largest singular value of the channel
matrices A(ω) = Σ W_k·exp(iωk). With strides, the phases of the input are further channels on a coarser grid. Gram
matrices A·Aᴴ come from few products (`grams`), and as kernels are real, half of the frequencies do. `spectra` bounds
their eigenvalues from above, and says what its two proofs rest on.

On a fine grid not all frequencies are looked at: vᴴ·A·Aᴴ·v is a trigonometric polynomial that is never negative. Of
degree d along an axis, it is still at least Λ·cos²(d·δ/2) at a distance δ from where it has its maximum Λ (M. Riesz).
So the largest of M values, over cos²(d·π/2M), bounds them all; M is chosen so that this costs less than `tolerance`.

Folding the kernel into a matrix and taking its norm, as is often done, gives no upper bound: that can be too small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import acos, ceil, cos, gcd, isfinite, pi, prod, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.contrib.layerwise.grams import Offset, Taps, degree_and_step, grams, half, unit
from zoolens.contrib.layerwise.spectra import Proof, largest_eigenvalue
from zoolens.findings.graph.ir.model import Array, Shape

TOLERANCE: Final[dict[Proof, float]] = {"cholesky": 0.01, "random": 0.15}
_SINGLE: Final = 640  # channels up to which random proofs do with single precision, for all that is lost to rounding
_GRID: Final = 2 / 3  # of the tolerance, for frequencies that are not looked at
_ALONE: Final[dict[Proof, float]] = {"cholesky": 0.1, "random": 0.5}  # of it, for a single matrix: that costs little
Floats = NDArray[np.float64]


def matrix_norm(matrix: Array, *, proof: Proof = "cholesky", tolerance: float | None = None) -> float:
    """The norm of a matrix that multiplies vectors."""
    return conv_norm(np.asarray(matrix)[:, :, None], (1,), proof=proof, tolerance=tolerance)


@dataclass(frozen=True)
class Geometry:
    """How a kernel moves over its input; an empty setting is its default on every axis."""

    stride: Shape = ()
    pads: Shape = ()  # the begins of all axes, then the ends
    dilation: Shape = ()
    groups: int = 1


def conv_norm(
    kernel: Array,
    extents: Shape,
    geometry: Geometry | None = None,
    *,
    proof: Proof = "cholesky",
    tolerance: float | None = None,
) -> float:
    """The norm of a convolution of an input of these spatial extents; `kernel` is (out, in/groups, *window).

    That of the transposed convolution is the same: give its kernel as it is, and the extents of its output.
    `tolerance`: by how much the bound may exceed the norm of the circular operator; 1 %, and 15 % of a random proof.
    """
    rank = len(extents)
    geometry = geometry or Geometry()
    stride = geometry.stride or (1,) * rank
    dilation = geometry.dilation or (1,) * rank
    pads = geometry.pads or (0,) * (2 * rank)
    groups = geometry.groups
    tolerance = TOLERANCE[proof] if tolerance is None else tolerance
    largest = _largest_weight(kernel)
    kernel = np.asarray(kernel / (largest or 1.0), _precision(kernel, stride, groups, proof))
    kernel = kernel.reshape(groups, -1, *kernel.shape[1:])
    met = []
    for axis in range(rank):
        reach = [place * dilation[axis] for place in range(kernel.shape[3 + axis])]
        met.append(_met(extents[axis], (pads[axis], pads[rank + axis]), stride[axis], reach))
    phases = _phases(kernel, stride, met)
    if not phases or not largest:
        return 0.0  # no window meets anything but pads, or all weights are 0
    grid = [ceil((extents[i] + max(0, pads[i], pads[rank + i])) / stride[i]) for i in range(rank)]
    axes = _axes([at for phase in phases.values() for at in phase], grid, tolerance * _GRID)
    stretch = prod(axis.stretch for axis in axes)
    frequencies = half([axis.angles for axis in axes])
    if kernel.shape[1:3] == (1, 1) and len(phases) == 1:
        return largest * stretch * _largest_response(phases, frequencies)
    slack = ((1 + tolerance) / stretch) ** 2 - 1 if len(frequencies) > 1 else tolerance * _ALONE[proof]
    return largest * stretch * _largest_singular_value(phases, frequencies, slack, proof)


def _largest_weight(kernel: Array) -> float:
    """All are divided by it first, so that no square is too large or too small for a number."""
    largest = float(np.abs(kernel).max(initial=0.0))
    if not isfinite(largest):
        raise ModelError("A layer has weights that are not finite numbers: it has no norm.")
    return largest


def _precision(kernel: Array, stride: Shape, groups: int, proof: Proof) -> type[np.floating[Any]]:
    size = min(kernel.shape[0] // groups, kernel.shape[1] * prod(stride))
    return np.float32 if proof == "random" and size <= _SINGLE else np.float64


# --- taps


def _met(extent: int, pads: tuple[int, int], stride: int, reach: Sequence[int]) -> list[tuple[int, int]]:
    """The taps along one axis, as number and reach, that meet the input, and not only pads, in some window."""
    windows = (extent + sum(pads) - reach[-1] - 1) // stride + 1
    starts = np.arange(max(1, windows)) * stride - pads[0]
    return [(i, at) for i, at in enumerate(reach) if ((starts + at >= 0) & (starts + at < extent)).any()]


def _phases(kernel: Array, stride: Shape, met: Sequence[list[tuple[int, int]]]) -> dict[Offset, Taps]:
    """The kernel's matrices by the phase of the input they see, and by offset on the grid."""
    by_phase: dict[Offset, Taps] = {}
    window = range(3, kernel.ndim)
    by_tap = np.ascontiguousarray(kernel.transpose(*window, 0, 1, 2))
    for taps in product(*met):
        phase = tuple(at % s for (_, at), s in zip(taps, stride, strict=True))
        offset = tuple(at // s for (_, at), s in zip(taps, stride, strict=True))
        by_phase.setdefault(phase, {})[offset] = by_tap[tuple(number for number, _ in taps)]
    return by_phase


def _one_phase(phases: dict[Offset, Taps]) -> Taps:
    """The adjoint: all phases as channels, (groups, phases · in, out)."""
    if len(phases) == 1:
        return {offset: matrix.swapaxes(1, 2) for phase in phases.values() for offset, matrix in phase.items()}
    first = _any(phases)
    groups, out, inner = first.shape
    joined: Taps = {}
    for number, phase in enumerate(phases.values()):
        for offset, matrix in phase.items():
            whole = joined.setdefault(offset, np.zeros((groups, len(phases) * inner, out), first.dtype))
            whole[:, number * inner : (number + 1) * inner] = matrix.swapaxes(1, 2)
    return joined


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
    degree, step = degree_and_step(offsets)
    if not degree:
        return _Axis(np.zeros(1), 1.0)
    distinct = places // gcd(places, step)
    enough = ceil(degree * pi / (2 * acos(1 / most)))
    count, stretch = (distinct, 1.0) if distinct <= enough else (enough, 1 / cos(degree * pi / (2 * enough)))
    return _Axis(2 * pi * np.arange(count) / count / step, stretch)


def _largest_response(phases: dict[Offset, Taps], frequencies: Floats) -> float:
    """The largest absolute value of filters of one channel each, which needs no eigenvalues."""
    taps = next(iter(phases.values()))
    angles = frequencies @ np.array(list(taps), np.float64).T
    values = np.stack([matrix.reshape(-1) for matrix in taps.values()]).astype(np.float64)
    together = max(1, (1 << 20) // values.shape[1])
    parts = (angles[start : start + together] for start in range(0, len(angles), together))
    largest = max(float(np.abs(np.exp(1j * part) @ values).max()) for part in parts)
    return largest + unit(_any(phases)) * (len(taps) + 8) * float(np.abs(values).sum(axis=0).max())


def _largest_singular_value(phases: dict[Offset, Taps], frequencies: Floats, slack: float, proof: Proof) -> float:
    """The largest singular value, from the side with fewer channels: outputs, or the inputs of all phases."""
    _, out, inner = _any(phases).shape
    gram = grams(list(phases.values()) if out <= inner * len(phases) else [_one_phase(phases)], frequencies)
    largest = largest_eigenvalue(
        gram.size, gram.traces, gram.at,
        slack=slack, rounding=gram.rounding, uneven=gram.weighing, proof=proof,
    )  # fmt: skip
    return sqrt(largest)
