"""The steps that a chain of layers is made of, each with its derivative in both directions, exact at every input.

Arrays are (inputs, channels, *spatial) or (inputs, units). A linear step is its own derivative. The others are
positively homogeneous, and no two values come out further apart than they went in, as the theorem asks of activations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from zoolens.findings.graph.ir.model import Array
from zoolens.findings.graph.reference import spatial

Map = Callable[[Array], Array]


@dataclass(frozen=True)
class Derivative:
    """The derivative of a step at some values: `tangent` takes a direction there; `backward`, its transpose, takes a
    gradient of what comes out."""

    tangent: Map
    backward: Map


@dataclass(frozen=True)
class Step:
    forward: Map
    at: Callable[[Array], Derivative]


@dataclass(frozen=True)
class Window:
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pads: tuple[int, ...]

    def taps(self, padded: Array) -> list[Array]:
        """What each place of the window sees, as views: what is added to them lands in the array."""
        return [seen for _, seen in spatial.taps(padded, self.kernel, self.stride, self.dilation)]

    def cropped(self, padded: Array) -> Array:
        half = len(self.pads) // 2
        ends = zip(padded.shape[2:], self.pads[:half], self.pads[half:], strict=True)
        return padded[(slice(None), slice(None), *(slice(low, extent - high) for extent, low, high in ends))]


def linear(forward: Map, transposed: Callable[[Array, tuple[int, ...]], Array]) -> Step:
    """`transposed` takes a gradient, and the shape of the values that went in."""

    def at(x: Array) -> Derivative:
        shape = x.shape
        return Derivative(forward, lambda g: transposed(g, shape))

    return Step(forward, at)


def relu() -> Step:
    def at(x: Array) -> Derivative:
        positive = x > 0
        return Derivative(lambda v: v * positive, lambda g: g * positive)

    return Step(lambda x: np.maximum(x, 0), at)


def dense(kernel: Array) -> Step:
    return linear(lambda x: x @ kernel.T, lambda g, _: g @ kernel)


def conv(kernel: Array, window: Window) -> Step:
    by_place = np.ascontiguousarray(kernel.reshape(*kernel.shape[:2], -1).transpose(2, 1, 0))

    def forward(x: Array) -> Array:
        return spatial.conv(spatial.padded(x, window.pads), kernel, window.stride, window.dilation, 1)

    def transposed(g: Array, shape: tuple[int, ...]) -> Array:
        flat = g.reshape(*g.shape[:2], -1)
        gathered = _blank(shape, window)
        for part, seen in zip(by_place, window.taps(gathered), strict=True):
            seen += np.matmul(part, flat).reshape(seen.shape)
        return window.cropped(gathered)

    return linear(forward, transposed)


def max_pool(window: Window) -> Step:
    def forward(x: Array) -> Array:
        return spatial.max_pool(x, window.kernel, window.stride, window.dilation, window.pads, -np.inf)

    def at(x: Array) -> Derivative:
        places = window.taps(spatial.padded(x, window.pads, -np.inf))
        first = np.argmax(np.stack(places), axis=0)  # the first of equal ones
        chosen = [first == place for place in range(len(places))]
        shape = x.shape

        def tangent(v: Array) -> Array:
            seen = window.taps(spatial.padded(v, window.pads))
            return np.asarray(np.sum([value * here for value, here in zip(seen, chosen, strict=True)], axis=0))

        def backward(g: Array) -> Array:
            gathered = _blank(shape, window)
            for seen, here in zip(window.taps(gathered), chosen, strict=True):
                seen += g * here
            return window.cropped(gathered)

        return Derivative(tangent, backward)

    return Step(forward, at)


def avg_pool(window: Window) -> Step:
    """Padding is not in the divisor."""

    def forward(x: Array) -> Array:
        return spatial.avg_pool(x, window.kernel, window.stride, window.pads, count_pad=False)

    def transposed(g: Array, shape: tuple[int, ...]) -> Array:
        inside = spatial.padded(np.ones((1, 1, *shape[2:])), window.pads)
        shared = g / np.sum(window.taps(inside), axis=0)
        gathered = _blank(shape, window)
        for seen in window.taps(gathered):
            seen += shared
        return window.cropped(gathered)

    return linear(forward, transposed)


def global_avg_pool() -> Step:
    def transposed(g: Array, shape: tuple[int, ...]) -> Array:
        return np.broadcast_to(g.reshape(*g.shape, *(1,) * (len(shape) - 2)) / prod(shape[2:]), shape)

    return linear(lambda x: x.reshape(*x.shape[:2], -1).mean(axis=2), transposed)


def flatten(taken: Array, *, constant: bool) -> Step:
    """The numbers `taken`, in that order; the last channel, if it is the `constant`, becomes one number: its mean."""

    def forward(x: Array) -> Array:
        real = (x[:, :-1] if constant else x).reshape(len(x), -1)[:, taken]
        if constant:
            return np.hstack([real, x[:, -1].reshape(len(x), -1).mean(axis=1, keepdims=True)])
        return real

    def transposed(g: Array, shape: tuple[int, ...]) -> Array:
        result = np.empty((shape[0], prod(shape[1:])))
        result[:, taken] = g[:, : len(taken)]
        if constant:
            result[:, len(taken) :] = g[:, -1:] / (result.shape[1] - len(taken))
        return result.reshape(shape)

    return linear(forward, transposed)


def without_constant(step: Step) -> Step:
    """For a last layer that is not learned: the constant it would carry on is left out."""

    def at(x: Array) -> Derivative:
        whole = step.at(x)
        return Derivative(
            lambda v: whole.tangent(v)[:, :-1],
            lambda g: whole.backward(np.concatenate([g, np.zeros_like(g[:, :1])], axis=1)),
        )

    return Step(lambda x: step.forward(x)[:, :-1], at)


def _blank(shape: tuple[int, ...], window: Window) -> Array:
    half = len(window.pads) // 2
    grown = (n + low + high for n, low, high in zip(shape[2:], window.pads[:half], window.pads[half:], strict=True))
    return np.zeros((*shape[:2], *grown))
