"""Gram matrices G(ω) = A(ω)·A(ω)ᴴ of channel matrices A(ω) = Σ W_k·exp(iωk), at many frequencies from few products.

Along an axis of degree d, G is a trigonometric polynomial with 2d + 1 coefficients: 2d + 1 of its values, at equal
distances, give all others by interpolation, with Dirichlet kernels as weights. Of a 3×3 kernel these nodes are 25, and
as kernels are real, 13 of them are computed: at opposite nodes G is conjugate.

With strides, G is the sum of what each phase of the input gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, pi
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.findings.graph.ir.model import Array

Offset = tuple[int, ...]  # of a tap, in places of the grid, one entry per axis
Taps = dict[Offset, Array]  # matrices (groups, out, in)
Floats = NDArray[np.float64]
_PIECE: Final = 128  # products that are added up at a time


def unit(values: Array) -> float:
    """The largest relative error of one rounding."""
    return 0.5 * float(np.finfo(values.dtype).eps)


def half(axes: Sequence[Floats]) -> Floats:
    """One of each pair of opposite frequencies of a grid of equally distant angles: (count, axes). Nought is first."""
    sizes = [len(angles) for angles in axes]
    numbers = np.indices(sizes).reshape(len(sizes), -1)
    opposite = np.ravel_multi_index(tuple(-row % size for row, size in zip(numbers, sizes, strict=True)), sizes)
    kept = numbers[:, np.arange(numbers.shape[1]) <= opposite]
    return np.stack([angles[row] for angles, row in zip(axes, kept, strict=True)], axis=1)


def degree_and_step(offsets: Sequence[int]) -> tuple[int, int]:
    """Along one axis; of dilated taps only multiples of the step matter."""
    step = gcd(*(at - min(offsets) for at in offsets)) or 1
    return (max(offsets) - min(offsets)) // step, step


@dataclass(frozen=True)
class Grams:
    """G(ω) = Σ a_n(ω)·G_n over nodes n, for each group."""

    nodes: Array  # (groups, nodes, c, c), real if only nought is looked at
    weights: Floats  # (frequencies, nodes)
    errors: Floats  # (frequencies,): bounds of what rounding of the nodes does to G there, in the l2 norm

    @property
    def size(self) -> int:
        return int(self.nodes.shape[-1])

    @cached_property
    def traces(self) -> Floats:
        """The traces of all groups at the first frequency, then at the next."""
        return np.asarray(self.weights @ _traces(self.nodes).T).reshape(-1)

    def at(self, places: NDArray[np.intp]) -> Array:
        """Returns the matrices with these places among the traces: (count, c, c). Sums over nodes, of one group in one
        product."""
        place, group = np.divmod(places, len(self.nodes))
        if self.nodes.shape[1] == 1:
            return np.asarray(self.nodes[group, 0])
        flat = self.nodes.reshape(*self.nodes.shape[:2], -1).view(self.nodes.real.dtype)
        weights = self.weights[place].astype(flat.dtype)
        sums = weights @ flat[0] if len(flat) == 1 else np.einsum("bn,bnx->bx", weights, flat[group])
        return np.asarray(sums.view(self.nodes.dtype).reshape(-1, self.size, self.size))

    @cached_property
    def weighing(self) -> float:
        """What rounding may do to any of the matrices when nodes are weighed, in the Frobenius norm."""
        if self.nodes.shape[1] == 1:
            return 0.0
        whole = np.abs(self.weights) @ np.sqrt(_squares(self.nodes)).T
        return float(2 * unit(self.nodes) * (self.nodes.shape[1] + 4) * whole.max())

    @property
    def rounding(self) -> float:
        """What rounding may have done to any of the matrices, in the l2 norm."""
        return float(self.weighing + self.errors.max())


def _traces(matrices: Array) -> Floats:
    return np.asarray(np.trace(matrices, axis1=-2, axis2=-1).real, np.float64)


def _squares(matrices: Array) -> Floats:
    """Sums of their absolute values' squares over the last two axes."""
    sums = [np.vdot(row, row).real for row in matrices.reshape(-1, matrices.shape[-2] * matrices.shape[-1])]
    return np.array(sums, np.float64).reshape(matrices.shape[:-2])


def grams(phases: Sequence[Taps], frequencies: Floats) -> Grams:
    """The Gram matrices of what all phases give together, at these frequencies (count, axes). A single frequency is
    taken as zero."""
    if len(frequencies) == 1:
        phases = [{(0,): np.asarray(sum(taps.values()))} for taps in phases]
        frequencies = np.zeros((1, 1))
    parts = [_of_phase(taps, frequencies) for taps in phases]
    if len(parts) == 1:
        return parts[0]
    nodes = np.concatenate([part.nodes for part in parts], axis=1)
    weights = np.concatenate([part.weights for part in parts], axis=1)
    return Grams(nodes, weights, np.sum([part.errors for part in parts], axis=0))


def _of_phase(taps: Taps, frequencies: Floats) -> Grams:
    axes = [degree_and_step(along) for along in zip(*taps, strict=True)]
    places = half([2 * pi * np.arange(2 * degree + 1) / (2 * degree + 1) / step for degree, step in axes])
    weights = _dirichlet(frequencies[:, None] - np.concatenate([places, -places[1:]]), axes)
    nodes = _nodes(*_responses(taps, places))
    return Grams(nodes, weights, np.abs(weights) @ _errors(taps, _traces(nodes)))


def _dirichlet(apart: Floats, axes: Sequence[tuple[int, int]]) -> Floats:
    """The weight of a node for a frequency so far apart, (…, axes)."""
    weight = np.ones(apart.shape[:-1])
    for number, (degree, step) in enumerate(axes):
        turns = np.arange(1, degree + 1) * step
        weight *= (1 + 2 * np.cos(apart[..., number, None] * turns).sum(axis=-1)) / (2 * degree + 1)
    return weight


def _responses(taps: Taps, nodes: Floats) -> tuple[Array, Array]:
    """A at each node: real parts (nodes, groups, out, in), and imaginary ones at all but nought."""
    first, *others = taps.values()
    if not others:
        return first[None], first[None][:0]
    matrices = np.stack([first, *others])
    angles = nodes @ np.array(list(taps), np.float64).T
    weights = np.concatenate([np.cos(angles), np.sin(angles[1:])]).astype(matrices.dtype)
    responses = (weights @ matrices.reshape(len(matrices), -1)).reshape(-1, *first.shape)
    return responses[: len(nodes)], responses[len(nodes) :]


def _nodes(real: Array, imaginary: Array) -> Array:
    """The matrices (R + iI)·(R + iI)ᴴ at each node, then the conjugates of all but the first.

    P = (R + I)·(R − I)ᵀ has the symmetric part R·Rᵀ − I·Iᵀ and the antisymmetric part I·Rᵀ − R·Iᵀ.
    """
    count, groups, size, _ = real.shape
    if count == 1:
        return _times(real[0], real[0])[:, None]
    nodes: Array = np.empty((groups, 2 * count - 1, size, size), np.result_type(real, np.complex64))
    nodes[:, 0] = _in_pieces(real[0], real[0])
    for number, (r, i) in enumerate(zip(real[1:], imaginary, strict=True), start=1):
        node = nodes[:, number]
        mixed = _in_pieces((r + i) / 2, r - i)
        both = _in_pieces(i, i)
        both *= 2
        both += mixed
        turned = np.ascontiguousarray(mixed.swapaxes(1, 2))
        np.add(both, turned, out=node.real)
        np.subtract(mixed, turned, out=node.imag)
        np.conjugate(node, out=nodes[:, number + count - 1])
    return nodes


def _times(left: Array, right: Array) -> Array:
    """The product left·rightᵀ of each group; one product for one group is quicker than a batch."""
    return np.asarray((left[0] @ right[0].T)[None] if len(left) == 1 else left @ right.swapaxes(1, 2))


def _in_pieces(left: Array, right: Array) -> Array:
    """The product left·rightᵀ with less rounding: a few sums at a time."""
    total = _times(left[:, :, :_PIECE], right[:, :, :_PIECE])
    for start in range(_PIECE, left.shape[2], _PIECE):
        piece = slice(start, start + _PIECE)
        total += _times(left[:, :, piece], right[:, :, piece])
    return total


def _errors(taps: Taps, traces: Floats) -> Floats:
    """A bound on the rounding error of each node. Entries of G are sums of products of entries of A, which are sums
    over taps; ‖|A|·|A|ᵀ‖ ≤ tr G.

    The traces' mean over all nodes is the sum of all squared weights.
    """
    first = next(iter(taps.values()))
    nodes = traces.shape[1]
    lengths = np.sqrt(len(taps) * traces.mean(axis=1, keepdims=True))
    inner = first.shape[2]
    roundings = inner + 8 if nodes == 1 else 4 * (min(inner, _PIECE) + inner // _PIECE) + 16
    errors = roundings * traces + 3 * (len(taps) + 4) * np.sqrt(traces) * lengths
    return np.asarray(unit(first) * errors.max(axis=0))
