"""How a chain of layers treats noise: the quantities that Arora et al. 2018 define, measured on given inputs.

x_i is the value after linear layer i (before the activation φ), J_ij the derivative of x_j with respect to x_i at x_i,
‖·‖ the length of a vector, ‖·‖_F the root of the sum of squares of a matrix, and "cells" the places of a feature map.

- layer cushion of i: the smallest ‖x_i‖ / (‖A_i‖_F ‖φ(x_i−1)‖)
- interlayer cushion of i and j: the smallest √cells ‖J_ij x_i‖ / (‖J_ij‖_F ‖x_i‖), where J_ij x_i is x_j here
- activation contraction: the largest ‖x_i‖ / ‖φ(x_i)‖
- spread (the authors' β): the largest √cells ‖columns of J_ij at one cell‖_F / ‖J_ij‖_F
- smoothness (ρ): the smallest ‖η‖ ‖x_j‖ / (‖x_i‖ ‖x_j at x_i + η, less J_ij (x_i + η)‖), for noise η of compression

Sums of squares of J come from random vectors sent backwards (Hutchinson); exactly where x_j has few numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.contrib.arora.chain import Chain, LinearMap
from zoolens.contrib.arora.steps import Derivative
from zoolens.findings.graph.ir.model import Array
from zoolens.findings.graph.reference import spatial

Floats = NDArray[np.float64]

_AT_ONCE: Final = 1 << 17  # numbers in all values of one piece of the inputs: about what a cache holds
_NOISES: Final = 2  # draws for each input


@dataclass(frozen=True)
class Piece:
    """Some of the inputs, with all that happens to them."""

    start: Array
    into: tuple[Array, ...]  # what goes into each linear map
    values: tuple[Array, ...]  # what comes out of it
    derivatives: tuple[tuple[Derivative, ...], ...]  # of the steps of each layer


@dataclass(frozen=True)
class Stability:
    """One entry per layer, over all inputs."""

    outputs: Floats  # inputs × classes
    cushions: Floats
    interlayer: Floats  # the smallest over later layers, and 1 / √width
    interlayer_errors: Floats  # their standard errors from the random vectors, relative
    widths: tuple[int, ...]  # channels or units
    cells: tuple[int, ...]
    contraction: float
    spread: float


def stability(chain: Chain, values: Array, samples: int, seed: int) -> Stability:
    """The noise stability of a chain. `values` are prepared inputs; `samples` is the number of random vectors sent
    backwards for each input and layer."""
    generator = np.random.default_rng(seed)
    measured = [_of_piece(chain, piece, samples, generator) for piece in pieces(chain, values)]
    interlayer = np.stack([part.interlayer for part in measured])
    smallest = interlayer.argmin(axis=0)
    errors = np.stack([part.interlayer_errors for part in measured])
    return Stability(
        outputs=np.concatenate([part.outputs for part in measured]),
        cushions=np.min([part.cushions for part in measured], axis=0),
        interlayer=interlayer.min(axis=0),
        interlayer_errors=np.take_along_axis(errors, smallest[None], axis=0)[0],
        widths=measured[0].widths,
        cells=measured[0].cells,
        contraction=max(part.contraction for part in measured),
        spread=max(part.spread for part in measured),
    )


def pieces(chain: Chain, values: Array) -> Iterator[Piece]:
    single = run_chain(chain, values[:1])
    size = max(1, _AT_ONCE // sum(value.size for value in (*single.into, *single.values)))
    for at in range(0, len(values), size):
        yield run_chain(chain, values[at : at + size])


def run_chain(chain: Chain, x: Array) -> Piece:
    start = x
    into = []
    values = []
    derivatives = []
    for layer in chain.layers:
        passed = []
        for step in layer.before:
            passed.append(step.at(x))
            x = step.forward(x)
        into.append(x)
        derivatives.append((*passed, layer.linear.at(x)))
        x = layer.linear.forward(x)
        values.append(x)
    return Piece(start, tuple(into), tuple(values), tuple(derivatives))


def lengths(values: Array) -> Floats:
    return np.asarray(np.linalg.norm(values.reshape(len(values), -1), axis=1))


def _of_piece(chain: Chain, piece: Piece, samples: int, generator: np.random.Generator) -> Stability:
    shapes = [value.shape[1:] for value in piece.values]
    widths = tuple(shape[0] for shape in shapes)
    cells = tuple(prod(shape[1:]) for shape in shapes)
    outer = [lengths(value) for value in piece.values]
    inner = [lengths(value) for value in piece.into]
    cushions = [np.min(_over(o, layer.norm * i)) for layer, o, i in zip(chain.layers, outer, inner, strict=True)]
    contraction = max((float(np.max(_over(o, i))) for o, i in zip(outer, inner[1:], strict=False)), default=1.0)
    interlayer = 1 / np.sqrt(widths)
    errors = np.zeros(len(widths))
    spread = 1.0
    for last in range(1, len(shapes)):
        for first, total, error, concentration in _jacobians(piece, last, samples, generator):
            reached = np.sqrt(cells[first]) * _over(outer[last], np.sqrt(total) * outer[first])
            at = int(np.argmin(reached))
            if reached[at] < interlayer[first]:
                interlayer[first], errors[first] = reached[at], error[at]
            spread = max(spread, concentration)
    outputs = piece.values[-1].reshape(len(piece.values[-1]), -1)
    return Stability(outputs, np.array(cushions), interlayer, errors, widths, cells, contraction, spread)


def _over(numerator: Floats, denominator: Floats) -> Floats:
    """Divides; zero over zero is infinite: a value of zeros neither cushions nor counts."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = numerator / denominator
    return np.where(np.isnan(ratio), np.inf, ratio)


def _jacobians(
    piece: Piece, last: int, samples: int, generator: np.random.Generator
) -> Iterator[tuple[int, Floats, Floats, float]]:
    """For every layer before `last`: ‖J‖_F² by input, the relative standard error of ‖J‖_F, and its spread."""
    shape = piece.values[last].shape
    exact = prod(shape[1:]) <= samples
    probes = _units(shape) if exact else (generator.standard_normal(shape) for _ in range(samples))
    squares: list[list[Floats]] = [[] for _ in range(last)]
    for probe in probes:
        for first, gradient in _backwards(piece, last, probe):
            squares[first].append(np.square(gradient).sum(axis=1).reshape(len(gradient), -1))
    for first, drawn in enumerate(squares):
        by_cell = np.sum(drawn, axis=0) if exact else np.mean(drawn, axis=0)
        total = by_cell.sum(axis=1)
        each = np.stack([squared.sum(axis=1) for squared in drawn])
        error = np.zeros(len(total)) if exact else _over(each.std(axis=0, ddof=1), 2 * total * len(drawn) ** 0.5)
        share = _over(by_cell.max(axis=1), total)
        yield first, total, error, float(np.sqrt(by_cell.shape[1] * share[np.isfinite(share)].max(initial=0.0)))


def _units(shape: tuple[int, ...]) -> Iterator[Array]:
    for place in range(prod(shape[1:])):
        probe = np.zeros((shape[0], prod(shape[1:])))
        probe[:, place] = 1.0
        yield probe.reshape(shape)


def _backwards(piece: Piece, last: int, gradient: Array) -> Iterator[tuple[int, Array]]:
    """A gradient of x_last as one of x_first, for every earlier layer."""
    for at in range(last, 0, -1):
        for derivative in reversed(piece.derivatives[at]):
            gradient = derivative.backward(gradient)
        yield at - 1, gradient


def smoothness(chain: Chain, values: Array, accuracies: Floats, seed: int) -> float:
    """ρ for the noise that compression to these relative accuracies (one per layer) makes.

    A compressed layer is the layer plus a sum of very many random matrices, normal by then: at each place, noise of the
    length of what the kernel sees there, times its norm and accuracy.
    """
    generator = np.random.default_rng(seed)
    return min(
        _smoothness_of_piece(chain.layers, piece, accuracies, generator)
        for piece in pieces(chain, values)
        for _ in range(_NOISES)
    )


def _smoothness_of_piece(
    layers: tuple[LinearMap, ...], piece: Piece, accuracies: Floats, generator: np.random.Generator
) -> float:
    noisy = piece.start
    smallest = np.inf
    for at, layer in enumerate(layers[:-1]):
        noisy = _compressed(layer, noisy, float(accuracies[at]), generator)
        value = piece.values[at]
        relative = _over(lengths(noisy - value), lengths(value))
        for after, curved, straight in _onwards(layers, piece, at, noisy):
            bent = _over(lengths(curved - straight), lengths(piece.values[after]))
            smallest = min(smallest, float(np.min(_over(relative, bent))))
    return smallest


def _compressed(layer: LinearMap, x: Array, accuracy: float, generator: np.random.Generator) -> Array:
    for step in layer.before:
        x = step.forward(x)
    y = layer.linear.forward(x)
    noise = generator.standard_normal(y.shape)
    return np.asarray(y + accuracy * layer.norm * _seen_lengths(layer, x, y) * noise)


def _seen_lengths(layer: LinearMap, x: Array, y: Array) -> Array:
    """The length of what the kernel sees, at each place of the output."""
    if layer.window is None:
        return lengths(x).reshape(-1, *(1,) * (y.ndim - 1))
    squares = spatial.padded(np.square(x).sum(axis=1, keepdims=True), layer.window.pads)
    return np.asarray(np.sqrt(np.sum(layer.window.taps(squares), axis=0)))


def _onwards(layers: tuple[LinearMap, ...], piece: Piece, at: int, noisy: Array) -> Iterator[tuple[int, Array, Array]]:
    """What becomes of a noisy x_at in each later layer: in the network, and by the derivative at x_at."""
    curved = straight = noisy
    for after in range(at + 1, len(layers)):
        for step, derivative in zip(layers[after].steps, piece.derivatives[after], strict=True):
            curved = step.forward(curved)
            straight = derivative.tangent(straight)
        yield after, curved, straight
